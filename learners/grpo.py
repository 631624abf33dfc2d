"""GRPO for one policy: trajectories of one step -> one or more optimizer steps (arXiv:2402.03300).

Baselines are group means, so there is no critic. Everything stochastic is seeded by the update's
number; the learner keeps the optimizer's state and nothing else.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from learners.advantages import ScaleRewards, constant_groups, group_advantages
from learners.batch import Batch, collate, microbatches
from learners.checks import check_fields
from learners.logprobs import completion_logprobs
from learners.losses import (
    LossType,
    Normaliser,
    importance_weights,
    policy_loss,
    reduce_tokens,
    reference_kl,
)
from learners.optim import Optim, OptimConfig
from learners.policy import Policy
from learners.seeds import stream_seed
from learners.trajectory import Trajectory


@dataclass(frozen=True)
class GRPOConfig:
    """Options of the update."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimizer and schedule."""
    loss_type: LossType = "dapo"
    """Aggregation and ratio: see `losses.policy_loss`."""
    scale_rewards: ScaleRewards = "group"
    """What advantages are divided by: see `advantages.group_advantages`."""
    clip_low: float = 0.2
    """Lower clip distance of the ratio."""
    clip_high: float = 0.2
    """Upper clip distance of the ratio."""
    beta: float = 0.0
    """Weight of the KL to the reference (the base without adapter, or a frozen copy); 0: none."""
    epochs: int = 1
    """Passes over the step's trajectories."""
    minibatches: int = 1
    """Optimizer steps per pass."""
    old_logprobs: Literal["trainer", "sampler"] = "trainer"
    """What the ratio refers to when one rollout feeds several optimizer steps: the trainer's own
    log-probs (a forward pass more), or the engine's (exact for the embedded engine)."""
    microbatch_tokens: int = 16_384
    """Padded tokens per forward pass; bounds the memory, does not change the loss."""
    importance_cap: float = 3.0
    """Cap of the trainer / sampler weight per token; 0 turns the correction off."""
    mask_truncated: bool = False
    """True: completions cut by the length limit give no gradient; they still count in baselines
    and in the loss denominator."""
    gradient_checkpointing: bool = False
    """True: recompute activations in the backward pass; less memory, about a third more time."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epochs", "minibatches", "microbatch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if min(self.clip_low, self.clip_high, self.beta, self.importance_cap) < 0:
            raise ValueError("clip_low, clip_high, beta and importance_cap must not be negative")


class GRPO:
    """The learner of one policy."""

    def __init__(
        self,
        policy: Policy,
        config: GRPOConfig,
        *,
        total_steps: int,
        temperature: float,
        max_new_tokens: int,
        seed: int = 0,
    ) -> None:
        """Prepare the optimizer.

        Args:
            policy: What to train.
            config: Options.
            total_steps: Calls of `update` in the run; sets the schedule's length.
            temperature: Of the sampling; greedy sampling cannot be trained on.
            max_new_tokens: Length limit, the denominator of "dr_grpo".
            seed: Seeds the minibatch shuffles.
        """
        if not temperature > 0:
            raise ValueError(f"training needs a sampling temperature above 0, got {temperature}")
        self.policy, self.config, self.seed = policy, config, seed
        self.temperature, self.max_new_tokens = temperature, max_new_tokens
        self.updates = 0
        if config.gradient_checkpointing:
            policy.checkpoint_activations()
        total = total_steps * config.epochs * config.minibatches
        self.optim = Optim(policy.trainable_parameters().values(), config.optim, total)
        frozen = config.beta > 0 and policy.adapter is None
        self.reference = (
            copy.deepcopy(policy.model).eval().requires_grad_(False) if frozen else None
        )

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Train on the trajectories of one step; returns metrics.

        Unscored trajectories are dropped and counted. Trajectories without advantage are not run
        (their gradient is zero unless beta > 0) but count in the loss denominator.

        Raises:
            FloatingPointError: A loss or gradient is not finite (pitfall 39).
        """
        scored = [t for t in trajectories if t.reward is not None]
        metrics = {"unscored": float(len(trajectories) - len(scored))}
        if not scored:
            self._skip_all()
            return metrics
        advantages, group_metrics = self._advantages(scored)
        metrics |= group_metrics
        totals: defaultdict[str, float] = defaultdict(float)
        with self.policy.using() as model:
            model.train()
            old = self._old_logprobs(scored, advantages) if self._reuses_rollouts else None
            for epoch in range(self.config.epochs):
                for rows in self._minibatches(len(scored), epoch):
                    self._optimizer_step(rows, scored, advantages, old, totals)
            model.eval()
        self.updates += 1
        return metrics | _averages(totals) | {"lr": self.optim.learning_rate}

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, schedule, counters and the reference's weights if there is one."""
        reference = self.reference.state_dict() if self.reference is not None else None
        return {"optim": self.optim.state_dict(), "updates": self.updates, "reference": reference}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.optim.load_state_dict(state["optim"])
        self.updates = state["updates"]
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])

    @property
    def _reuses_rollouts(self) -> bool:
        """More than one optimizer step per rollout: the ratio needs the log-probs from before."""
        return self.config.epochs * self.config.minibatches > 1

    def _skip_all(self) -> None:
        for _ in range(self.config.epochs * self.config.minibatches):
            self.optim.skip()
        self.updates += 1

    def _advantages(self, scored: list[Trajectory]) -> tuple[Tensor, dict[str, float]]:
        keys = {key: i for i, key in enumerate(dict.fromkeys(t.group for t in scored))}
        groups_N = torch.tensor([keys[t.group] for t in scored])
        rewards_N = torch.tensor([t.reward for t in scored], dtype=torch.float32)
        advantages_N = group_advantages(rewards_N, groups_N, self.config.scale_rewards)
        constant = constant_groups(rewards_N, groups_N).float().mean().item()
        return advantages_N, {"reward": rewards_N.mean().item(), "constant_groups": constant}

    def _minibatches(self, count: int, epoch: int) -> list[list[int]]:
        if self.config.minibatches == 1:
            return [list(range(count))]
        rng = np.random.default_rng(stream_seed(self.seed, "minibatches", self.updates, epoch))
        return [
            rows.tolist()
            for rows in np.array_split(rng.permutation(count), self.config.minibatches)
        ]

    def _old_logprobs(self, scored: list[Trajectory], advantages: Tensor) -> dict[int, Tensor]:
        """Index -> (T,) log-probs under the rollout's weights, of the trajectories that train."""
        old: dict[int, Tensor] = {}
        active = self._active(range(len(scored)), scored, advantages)
        if self.config.old_logprobs == "sampler":
            return {i: torch.tensor(scored[i].logprobs) for i in active}
        chosen = [scored[i] for i in active]
        with torch.no_grad():
            for rows in microbatches(chosen, self.config.microbatch_tokens):
                batch = self._collate([chosen[j] for j in rows])
                logprobs, _ = completion_logprobs(self.policy.model, batch, self.temperature)
                for j, row in zip(rows, logprobs, strict=True):
                    old[active[j]] = row[: len(chosen[j].completion_ids)]
        return old

    def _active(
        self, rows: Iterable[int], scored: list[Trajectory], advantages: Tensor
    ) -> list[int]:
        """Those of the rows that have a gradient."""
        return [i for i in rows if self._has_gradient(scored[i], advantages[i].item())]

    def _collate(self, trajectories: list[Trajectory]) -> Batch:
        return collate(trajectories, self.policy.pad_id, self.policy.device)

    def _optimizer_step(
        self,
        rows: list[int],
        scored: list[Trajectory],
        advantages: Tensor,
        old: dict[int, Tensor] | None,
        totals: defaultdict[str, float],
    ) -> None:
        """Accumulate the gradient of one minibatch over micro-batches, then step."""
        normaliser = Normaliser(
            sequences=float(len(rows)),
            tokens=float(sum(len(scored[i].completion_ids) for i in rows)),
            max_tokens=float(self.max_new_tokens),
        )
        active = self._active(rows, scored, advantages)
        chosen = [scored[i] for i in active]
        for part in microbatches(chosen, self.config.microbatch_tokens):
            index = [active[j] for j in part]
            batch = self._collate([scored[i] for i in index])
            reference = _pad_rows([old[i] for i in index], batch) if old is not None else None
            loss = self._loss(batch, advantages[index], reference, normaliser, totals)
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"the loss of update {self.updates} must be finite, got {loss.item()}"
                )
            loss.backward()
            totals["loss"] += loss.item()
        totals["steps"] += 1
        totals["trained_share"] += len(active) / max(len(rows), 1)
        if active:
            totals["grad_norm"] += self.optim.step()
        else:
            self.optim.skip()

    def _has_gradient(self, trajectory: Trajectory, advantage: float) -> bool:
        if self.config.mask_truncated and not trajectory.finished:
            return False
        return advantage != 0.0 or self.config.beta > 0

    def _loss(
        self,
        batch: Batch,
        advantages: Tensor,
        old: Tensor | None,
        normaliser: Normaliser,
        totals: defaultdict[str, float],
    ) -> Tensor:
        config, mask = self.config, batch.completion_mask
        logprobs, entropy = completion_logprobs(self.policy.model, batch, self.temperature)
        old = logprobs.detach() if old is None else old
        weights = None
        if config.importance_cap > 0:
            weights = importance_weights(old, batch.sampler_logprobs, mask, config.importance_cap)
        result = policy_loss(
            logprobs,
            old,
            advantages.to(logprobs),
            mask,
            normaliser,
            loss_type=config.loss_type,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            weights=weights,
        )
        mismatch = ((old - batch.sampler_logprobs).abs() * mask).sum()
        totals["tokens"] += mask.sum().item()
        totals["clipped"] += result.clipped.item()
        totals["approx_kl"] += result.kl.item()
        totals["entropy"] += (entropy * mask).sum().item()
        totals["sampler_mismatch"] += mismatch.item()
        if config.beta == 0:
            return result.loss
        kl = reference_kl(logprobs, self._reference_logprobs(batch), result.ratio)
        totals["reference_kl"] += (kl.detach() * mask).sum().item()
        return result.loss + config.beta * reduce_tokens(kl, mask, normaliser, config.loss_type)

    @torch.no_grad()
    def _reference_logprobs(self, batch: Batch) -> Tensor:
        if self.reference is not None:
            return completion_logprobs(self.reference, batch, self.temperature)[0]
        with self.policy.model.disable_adapter():  # pyright: ignore[reportCallIssue]
            return completion_logprobs(self.policy.model, batch, self.temperature)[0]


def _pad_rows(rows: list[Tensor], batch: Batch) -> Tensor:
    """Ragged (T,) rows -> (B, C), 0 at padding."""
    padded = batch.sampler_logprobs.new_zeros(batch.completion_mask.shape)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _averages(totals: defaultdict[str, float]) -> dict[str, float]:
    """Sums -> the logged metrics: per optimizer step or per trained token."""
    steps, tokens = max(totals["steps"], 1), max(totals["tokens"], 1)
    per_step = {k: totals[k] / steps for k in ("loss", "grad_norm", "trained_share")}
    names = {
        "clipped": "clipfrac",
        "approx_kl": "approx_kl",
        "entropy": "entropy",
        "sampler_mismatch": "sampler_mismatch",
        "reference_kl": "reference_kl",
    }
    return per_step | {names[k]: totals[k] / tokens for k in names if k in totals}
