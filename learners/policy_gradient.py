"""Trajectories and their advantages -> optimizer steps of one policy.

What GRPO, RLOO, REINFORCE and PPO have in common: minibatches, micro-batches, the clipped loss, the
importance correction, the KL to a reference, guards and metrics. Several processes share the
micro-batches and sum their gradients; with `shard` each holds a part of the model and of its
optimizer (`sharding.py`). Where the advantages come from is the learner's business (`grpo.py`,
`rloo.py`, `reinforce.py`, `ppo.py`). Everything random is seeded by the number of the update.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from learners import processes, sharding
from learners.batch import Batch, collate, shared_microbatches
from learners.logprobs import completion_logprobs
from learners.losses import (
    Normaliser,
    importance_weights,
    policy_loss,
    reduce_tokens,
    reference_kl,
)
from learners.optim import Optim
from learners.policy import Policy
from learners.reference import Reference
from learners.seeds import stream_seed
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig


class PolicyGradient:
    """The optimizer of one policy and the update it makes of (trajectory, advantage) pairs."""

    def __init__(
        self, policy: Policy, config: UpdateConfig, horizon: Horizon, *, reference: bool = False
    ) -> None:
        """Prepare the optimizer.

        Args:
            policy: What to train.
            config: Options.
            horizon: Facts of the run.
            reference: Keep a reference even with `beta` 0.
        """
        self.policy, self.config, self.horizon = policy, config, horizon
        self.updates = 0
        if config.gradient_checkpointing:
            policy.checkpoint_activations()
        needed = reference or config.beta > 0
        self.reference = Reference(policy, horizon.temperature) if needed else None
        self._models = [policy.model, *(self.reference.models if self.reference else ())]
        for model in self._models if config.shard else ():
            sharding.shard(model)
        total = horizon.total_steps * config.optimizer_steps
        self.optim = Optim(policy.trainable_parameters().values(), config.optim, total)

    def update(
        self, trajectories: Sequence[Trajectory], advantages: Sequence[Tensor]
    ) -> dict[str, float]:
        """Train on trajectories whose advantages are known; returns metrics.

        Trajectories without advantage are not run (their gradient is zero unless beta > 0) but
        count in the loss denominator.

        Args:
            trajectories: N of them; none skips the optimizer steps but moves the schedule on.
            advantages: One tensor per trajectory: a scalar, or (T,) with one per sampled token.

        Raises:
            FloatingPointError: A loss or gradient is not finite (pitfall 39).
        """
        if not trajectories:
            for _ in range(self.config.optimizer_steps):
                self.optim.skip()
            self.updates += 1
            return {}
        rows = _Rows(trajectories, advantages)
        totals: defaultdict[str, float] = defaultdict(float)
        with self.policy.using() as model:
            model.train()
            old = self._old_logprobs(rows) if self.config.optimizer_steps > 1 else None
            for epoch in range(self.config.epochs):
                key = (self.horizon.seed, "minibatches", self.updates, epoch)
                for chosen in minibatches(len(trajectories), self.config.minibatches, key):
                    self._optimizer_step(chosen, rows, old, totals)
            model.eval()
        self.updates += 1
        alike = {key: totals.pop(key, 0.0) for key in _ALIKE}
        return _averages(processes.sum_numbers(totals) | alike) | {"lr": self.optim.learning_rate}

    def reference_logprobs(self, trajectories: Sequence[Trajectory]) -> list[Tensor]:
        """Per trajectory the (T,) log-probs of its tokens under the reference."""
        assert self.reference is not None, "this update keeps no reference"
        with self.policy.using():
            return self._each(trajectories, self.reference.logprobs)

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

    def _has_gradient(self, rows: _Rows, i: int) -> bool:
        if self.config.truncated == "mask" and not rows.trajectories[i].finished:
            return False
        return self.config.beta > 0 or bool(rows.advantages[i].any())

    def _old_logprobs(self, rows: _Rows) -> dict[int, Tensor]:
        """Index -> (T,) log-probs under the rollout's weights, of the trajectories that train."""
        active = [i for i in range(len(rows.trajectories)) if self._has_gradient(rows, i)]
        chosen = [rows.trajectories[i] for i in active]
        if self.config.old_logprobs == "sampler":
            return {i: torch.tensor(t.logprobs) for i, t in zip(active, chosen, strict=True)}
        found = self._each(chosen, lambda batch: self._logprobs(batch)[0])
        return dict(zip(active, found, strict=True))

    def _logprobs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return completion_logprobs(self.policy.model, batch, self.horizon.temperature)

    @torch.no_grad()
    def _each(self, trajectories: Sequence[Trajectory], measure: Any) -> list[Tensor]:
        """Per trajectory the (T,) row of a (B, C) measurement, made in micro-batches."""
        found: dict[int, Tensor] = {}
        with sharding.gathered(*self._models):
            for part in shared_microbatches(trajectories, self.config.microbatch_tokens):
                values = measure(self._collate([trajectories[i] for i in part]))
                for i, row in zip(part, values, strict=True):
                    found[i] = row[: len(trajectories[i].completion_ids)]
        found = processes.merge(found)
        return [found[i] for i in range(len(trajectories))]

    def _collate(self, trajectories: Sequence[Trajectory]) -> Batch:
        return collate(trajectories, self.policy.pad_id, self.policy.device)

    def _optimizer_step(
        self,
        chosen: list[int],
        rows: _Rows,
        old: dict[int, Tensor] | None,
        totals: defaultdict[str, float],
    ) -> None:
        """Accumulate the gradient of one minibatch over micro-batches, then step."""
        active = [i for i in chosen if self._has_gradient(rows, i)]
        with sharding.gathered(*self._models if active else ()):
            total = self._add_gradients(chosen, active, rows, old, totals)
            if active and sharding.is_sharded(self.policy.model):
                sharding.sum_gradients(self.policy.model)
        totals["loss"] += total
        totals["steps"] += 1
        totals["trained_share"] += len(active) / max(len(chosen), 1)
        if not active:
            self.optim.skip()
            return
        if not sharding.is_sharded(self.policy.model):
            processes.sum_gradients(self.optim.parameters)
        totals["grad_norm"] += self.optim.step()

    def _add_gradients(
        self,
        chosen: list[int],
        active: list[int],
        rows: _Rows,
        old: dict[int, Tensor] | None,
        totals: defaultdict[str, float],
    ) -> float:
        """Run this process's share of the micro-batches forwards and backwards; returns its loss.

        Raises:
            FloatingPointError: The loss of all processes is not finite.
        """
        trajectories, total = rows.trajectories, 0.0
        normaliser = Normaliser(
            sequences=float(len(chosen)),
            tokens=float(sum(len(trajectories[i].completion_ids) for i in chosen)),
            max_tokens=float(self.horizon.max_new_tokens),
        )
        tokens = self.config.microbatch_tokens
        for part in shared_microbatches([trajectories[i] for i in active], tokens):
            index = [active[j] for j in part]
            batch = self._collate([trajectories[i] for i in index])
            advantages = rows.padded(index, batch)
            reference = None if old is None else pad_rows([old[i] for i in index], batch)
            loss = self._loss(batch, advantages, reference, normaliser, totals)
            loss.backward()
            total += loss.item()
        whole = sum(processes.gather(total))
        if not math.isfinite(whole):
            raise FloatingPointError(
                f"the loss of update {self.updates} must be finite, got {whole}"
            )
        return total

    def _loss(
        self,
        batch: Batch,
        advantages: Tensor,
        old: Tensor | None,
        normaliser: Normaliser,
        totals: defaultdict[str, float],
    ) -> Tensor:
        config, mask = self.config, batch.completion_mask
        logprobs, entropy = self._logprobs(batch)
        self._note_mismatch(batch, logprobs.detach(), old, totals)
        old = logprobs.detach() if old is None else old
        weights = None
        if config.importance != "off":
            weights = importance_weights(
                old,
                batch.sampler_logprobs,
                mask,
                config.importance_cap,
                per=config.importance,
                beyond=config.beyond_cap,
            )
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
        totals["tokens"] += mask.sum().item()
        totals["clipped"] += result.clipped.item()
        totals["approx_kl"] += result.kl.item()
        totals["entropy"] += (entropy * mask).sum().item()
        if config.beta == 0:
            return result.loss
        assert self.reference is not None
        reference = torch.where(mask > 0, self.reference.logprobs(batch), logprobs.detach())
        kl = reference_kl(logprobs, reference, result.ratio)  # 0 at padding, never inf (pitfall 6)
        totals["reference_kl"] += (kl.detach() * mask).sum().item()
        return result.loss + config.beta * reduce_tokens(kl, mask, normaliser, config.loss_type)

    def _note_mismatch(
        self,
        batch: Batch,
        logprobs: Tensor,
        old: Tensor | None,
        totals: defaultdict[str, float],
    ) -> None:
        """Trainer against engine, where the trainer's log-probs under the rollout's weights are
        known: always, or with `old_logprobs="sampler"` in the first optimizer step alone."""
        if old is None or self.config.old_logprobs == "sampler":
            old = logprobs
            if totals["steps"] > 0:
                return
        mask = batch.completion_mask
        totals["sampler_mismatch"] += ((old - batch.sampler_logprobs).abs() * mask).sum().item()
        totals["compared"] += mask.sum().item()


_ALIKE = ("steps", "trained_share", "grad_norm")
"""Totals that are the same in every process; the others are sums over its own micro-batches."""


@dataclass(frozen=True)
class _Rows:
    """The trajectories of an update and their advantages."""

    trajectories: Sequence[Trajectory]
    advantages: Sequence[Tensor]

    def padded(self, index: list[int], batch: Batch) -> Tensor:
        """(B,) for one advantage per completion, (B, C) for one per token."""
        values = [self.advantages[i] for i in index]
        return torch.stack(values) if values[0].ndim == 0 else pad_rows(values, batch)


def minibatches(count: int, parts: int, key: tuple[int | str, ...]) -> list[list[int]]:
    """0..count-1 shuffled by the key's random stream and cut into `parts`; one part keeps order."""
    if parts == 1:
        return [list(range(count))]
    order = np.random.default_rng(stream_seed(*key)).permutation(count)
    return [part.tolist() for part in np.array_split(order, parts)]


def scored(
    trajectories: Sequence[Trajectory], config: UpdateConfig
) -> tuple[list[Trajectory], Tensor, dict[str, float]]:
    """What a learner may train on: trajectories with a reward, and the rewards it trains on.

    Unscored ones are dropped and counted (pitfall 28).

    Returns:
        The N scored trajectories; (N,) rewards, after `config.truncated="penalise"`; metrics.
    """
    kept = [t for t in trajectories if t.reward is not None]
    penalty = config.truncation_penalty if config.truncated == "penalise" else 0.0
    rewards = torch.tensor(
        [t.reward - penalty * (not t.finished) for t in kept],  # pyright: ignore
        dtype=torch.float32,
    )
    metrics = {"unscored": float(len(trajectories) - len(kept))}
    if kept:
        metrics["reward"] = rewards.mean().item()
    return kept, rewards, metrics


def group_index(trajectories: Sequence[Trajectory]) -> Tensor:
    """(N,) index of each trajectory's group, by key and never by text (pitfall 30)."""
    keys = {key: i for i, key in enumerate(dict.fromkeys(t.group for t in trajectories))}
    return torch.tensor([keys[t.group] for t in trajectories], dtype=torch.long)


def pad_rows(rows: Sequence[Tensor], batch: Batch) -> Tensor:
    """Ragged (T,) rows -> (B, C), 0 at padding."""
    padded = batch.sampler_logprobs.new_zeros(batch.completion_mask.shape)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _averages(totals: Mapping[str, float]) -> dict[str, float]:
    """Sums -> the logged metrics: per optimizer step or per trained token."""
    steps, tokens = max(totals["steps"], 1), max(totals.get("tokens", 0.0), 1)
    per_step = {k: totals.get(k, 0.0) / steps for k in ("loss", "grad_norm", "trained_share")}
    names = {
        "clipped": "clipfrac",
        "approx_kl": "approx_kl",
        "entropy": "entropy",
        "reference_kl": "reference_kl",
    }
    per_token = {names[k]: totals[k] / tokens for k in names if k in totals}
    if totals.get("compared"):
        per_token["sampler_mismatch"] = totals["sampler_mismatch"] / totals["compared"]
    return per_step | per_token
