"""Optimizer and schedule of one policy. The rate is a pure function of the number of updates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from learners import sharding
from learners.checks import check_fields


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with a warm-up and a decay."""

    learning_rate: float = 5e-5
    """Peak learning rate (paper: 5e-5 for LoRA rank 16)."""
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    """Shape after the warm-up."""
    warmup_ratio: float = 0.1
    """Share of all updates over which the rate rises from 0."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    beta1: float = 0.9
    """Adam's first decay."""
    beta2: float = 0.999
    """Adam's second decay."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    master_weights: bool = False
    """True: the optimizer updates a float32 copy of low-precision weights, which then are rounded;
    without it, updates smaller than the precision of a bfloat16 weight are lost."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")
        if not 0 <= self.warmup_ratio <= 1:
            raise ValueError(f"warmup_ratio must be in [0, 1], got {self.warmup_ratio}")
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be above 0, got {self.max_grad_norm}")


class Optim:
    """AdamW, its schedule and gradient clipping over a fixed set of parameters or their shards."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], config: OptimConfig, total_updates: int
    ) -> None:
        """Prepare AdamW.

        Raises:
            ValueError: The weights are float16 and there are no master weights.
        """
        self.parameters = list(parameters)
        self.config = config
        if not config.master_weights and any(p.dtype == torch.float16 for p in self.parameters):
            raise ValueError(
                "AdamW divides by zero in float16: train float16 weights with master_weights=True, "
                "or use bfloat16, float32 or LoRA adapters"
            )
        self.masters = (
            [p.detach().float().clone() for p in self.parameters] if config.master_weights else None
        )
        self.adamw = torch.optim.AdamW(
            self.parameters if self.masters is None else self.masters,
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
        )
        self.total_updates = total_updates
        self.updates = 0

    @property
    def learning_rate(self) -> float:
        """Rate of the next update."""
        return learning_rate(self.config, self.updates, self.total_updates)

    def step(self) -> float:
        """Clip, update, clear gradients, advance the schedule; returns the norm before clipping.

        Raises:
            FloatingPointError: The gradient is not finite (pitfall 39); nothing was updated.
        """
        norm = sharding.clip_gradients(self.parameters, self.config.max_grad_norm)
        if not math.isfinite(norm):
            raise FloatingPointError(f"the gradient norm must be finite, got {norm}")
        for group in self.adamw.param_groups:
            group["lr"] = self.learning_rate
        if self.masters is None:
            self.adamw.step()
        else:
            self._step_masters(self.masters)
        for parameter in self.parameters:
            parameter.grad = None
        self.skip()
        return norm

    @torch.no_grad()
    def _step_masters(self, masters: list[torch.Tensor]) -> None:
        for parameter, master in zip(self.parameters, masters, strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self.adamw.step()
        for parameter, master in zip(self.parameters, masters, strict=True):
            parameter.copy_(master)
            master.grad = None

    def skip(self) -> None:
        """Advance the schedule without an update: the rate depends on the step alone."""
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        """State of the optimizer and the schedule's position; of shards where they are trained."""
        state = {"adamw": self.adamw.state_dict(), "updates": self.updates}
        return state if self.masters is None else {**state, "masters": self.masters}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, of shards gathered."""
        adamw = state["adamw"]
        averages = {
            index: {key: self._part_of(index, value) for key, value in of_one.items()}
            for index, of_one in adamw["state"].items()
        }
        self.adamw.load_state_dict({**adamw, "state": averages})
        self.updates = state["updates"]
        if self.masters is not None:
            with torch.no_grad():
                for master, saved in zip(self.masters, state["masters"], strict=True):
                    master.copy_(sharding.like(master, saved))

    def _part_of(self, index: int, value: torch.Tensor) -> torch.Tensor:
        """What this process holds of a parameter's average; its count of steps has no parts."""
        parameter = self.parameters[index]
        return sharding.like(parameter, value) if value.shape == parameter.shape else value


def learning_rate(config: OptimConfig, update: int, total_updates: int) -> float:
    """Rate of one update: a linear warm-up, then the schedule down to 0 at `total_updates`.

    Args:
        config: Peak rate, shape and warm-up share.
        update: Updates done before this one; the first gets a rate above 0.
        total_updates: Updates of the whole run.
    """
    warmup = round(config.warmup_ratio * total_updates)
    if update < warmup:
        return config.learning_rate * (update + 1) / (warmup + 1)
    progress = (update - warmup) / max(total_updates - warmup, 1)
    if config.schedule == "constant_with_warmup":
        return config.learning_rate
    if config.schedule == "linear":
        return config.learning_rate * max(0.0, 1.0 - progress)
    return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
