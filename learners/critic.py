"""The critic of PPO: trajectories -> the value before each token, and its regression on returns.

Two kinds. "own" has weights of its own: a second adapter on the policy's base where the policy is
an adapter, else a copy of the model. "head" is one linear map on the policy's own last hidden
states; no gradient goes back through it, so the policy is moved by the policy gradient alone.
Either way the critic is a separate object with a separate optimizer, and every policy has its own
(pitfalls 44, 67).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from learners import processes
from learners.adapters import adapter_parameters, add_adapter, select_adapter
from learners.batch import Batch, collate, shared_microbatches
from learners.checks import check_fields
from learners.losses import value_loss
from learners.optim import Optim, OptimConfig
from learners.policy import Policy
from learners.policy_gradient import minibatches, pad_rows
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig


@dataclass(frozen=True)
class CriticConfig:
    """Options of the critic."""

    kind: Literal["own", "head"] = "own"
    """Weights of its own (an adapter, or a copy of the model), or a head on the policy's trunk."""
    optim: OptimConfig = field(
        default_factory=lambda: OptimConfig(learning_rate=1e-4, schedule="constant_with_warmup")
    )
    """The critic's own optimizer and schedule."""
    value_clip: float = 0.2
    """Clip distance of a value from the one before the update, in units of reward; 0: none."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.value_clip < 0:
            raise ValueError(f"value_clip must not be negative, got {self.value_clip}")


class Critic:
    """Values of one policy's states."""

    def __init__(
        self, policy: Policy, config: CriticConfig, update: UpdateConfig, horizon: Horizon
    ) -> None:
        """Make the critic; its first values are all 0.

        Args:
            policy: Whose states are valued.
            config: Options.
            update: Shares epochs, minibatches and the token budget with the policy's update.
            horizon: Facts of the run.
        """
        self.policy, self.config, self.horizon = policy, config, horizon
        self.passes, self.budget = update, update.microbatch_tokens
        self.updates = 0
        self._adapter: str | None = None
        model: nn.Module = policy.model
        if config.kind == "own" and policy.adapter is not None:
            # Not a name that contains the policy's: older versions of peft match by substring.
            self._adapter = "critic" + policy.adapter.removeprefix("agent")
            add_adapter(policy.model, self._adapter, like=policy.adapter, seed=horizon.seed)
        elif config.kind == "own":
            model = copy.deepcopy(policy.model)
        self._model = model
        width = cast(nn.Embedding, policy.model.get_input_embeddings()).weight.shape[1]
        self.head = nn.Linear(width, 1, device=policy.device, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        total = horizon.total_steps * update.optimizer_steps
        self.optim = Optim(self._parameters().values(), config.optim, total)

    def values(self, trajectories: Sequence[Trajectory]) -> list[Tensor]:
        """Per trajectory (T,): the value of the state before each sampled token."""
        found: dict[int, Tensor] = {}
        with torch.no_grad(), self._selected():
            for part in shared_microbatches(trajectories, self.budget):
                batch = self._collate([trajectories[i] for i in part])
                for i, row in zip(part, self._forward(batch), strict=True):
                    found[i] = row[: len(trajectories[i].completion_ids)].cpu()
        found = processes.merge(found)
        return [found[i] for i in range(len(trajectories))]

    def fit(
        self,
        trajectories: Sequence[Trajectory],
        returns: Sequence[Tensor],
        old_values: Sequence[Tensor],
    ) -> dict[str, float]:
        """Regress the values on returns; returns metrics.

        Args:
            trajectories: N of them.
            returns: (T,) targets of each.
            old_values: (T,) values of each before this update.

        Raises:
            FloatingPointError: The loss or gradient is not finite (pitfall 39).
        """
        totals = {"loss": 0.0, "clipped": 0.0, "tokens": 0.0, "grad_norm": 0.0}
        with self._selected():
            self._model.train(self.config.kind == "own")  # activations are recomputed in this mode
            for epoch in range(self.passes.epochs):
                key = (self.horizon.seed, "critic", self.updates, epoch)
                for chosen in minibatches(len(trajectories), self.passes.minibatches, key):
                    self._optimizer_step(chosen, trajectories, returns, old_values, totals)
            self._model.eval()
        self.updates += 1
        steps, tokens = self.passes.optimizer_steps, max(totals["tokens"], 1)
        sums = processes.sum_numbers({k: totals[k] for k in ("loss", "clipped")})
        return {
            "value_loss": sums["loss"] / tokens,
            "value_clipfrac": sums["clipped"] / tokens,
            "value_grad_norm": totals["grad_norm"] / steps,
        }

    def skip(self) -> None:
        """Advance the schedule without an update."""
        for _ in range(self.passes.optimizer_steps):
            self.optim.skip()
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer and counters."""
        weights = {name: p.detach() for name, p in self._parameters().items()}
        return {"weights": weights, "optim": self.optim.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        with torch.no_grad():
            for name, parameter in self._parameters().items():
                parameter.copy_(state["weights"][name])
        self.optim.load_state_dict(state["optim"])
        self.updates = state["updates"]

    def _parameters(self) -> dict[str, nn.Parameter]:
        """What the critic trains: the head, and the trunk unless it is the policy's."""
        head = {f"head.{name}": p for name, p in self.head.named_parameters()}
        if self._adapter is not None:
            return head | adapter_parameters(self._model, self._adapter)
        if self.config.kind == "own":
            return head | dict(self._trunk().named_parameters())
        return head

    @contextmanager
    def _selected(self) -> Iterator[None]:
        """Select the adapter whose hidden states the head reads."""
        adapter = self._adapter or self.policy.adapter
        if adapter is not None:
            select_adapter(self._model, adapter)
        yield

    def _trunk(self) -> nn.Module:
        return cast(Any, self._model).get_decoder()

    def _forward(self, batch: Batch) -> Tensor:
        """(B, C) float32: position t - 1 holds the state before token t."""
        width = batch.completion_mask.shape[1]
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.config.kind == "own"):
            hidden = self._trunk()(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                position_ids=batch.position_ids,
                use_cache=False,
            ).last_hidden_state[:, -(width + 1) : -1]  # (B, C, H)
        return self.head(hidden.float()).squeeze(-1)

    def _collate(self, trajectories: Sequence[Trajectory]) -> Batch:
        return collate(trajectories, self.policy.pad_id, self.policy.device)

    def _optimizer_step(
        self,
        chosen: list[int],
        trajectories: Sequence[Trajectory],
        returns: Sequence[Tensor],
        old_values: Sequence[Tensor],
        totals: dict[str, float],
    ) -> None:
        tokens = sum(len(trajectories[i].completion_ids) for i in chosen)
        total = 0.0
        for part in shared_microbatches([trajectories[i] for i in chosen], self.budget):
            index = [chosen[j] for j in part]
            batch = self._collate([trajectories[i] for i in index])
            old = pad_rows([old_values[i] for i in index], batch)
            target = pad_rows([returns[i] for i in index], batch)
            clip = self.config.value_clip
            loss, clipped = value_loss(
                self._forward(batch), old, target, batch.completion_mask, clip
            )
            (loss / tokens).backward()
            total += loss.item()
            totals["clipped"] += clipped.item()
        whole = sum(processes.gather(total))
        if not math.isfinite(whole):
            raise FloatingPointError(f"the value loss must be finite, got {whole}")
        processes.sum_gradients(self.optim.parameters)
        totals["loss"] += total
        totals["tokens"] += tokens
        totals["grad_norm"] += self.optim.step()
