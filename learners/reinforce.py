"""REINFORCE with a moving baseline per (agent, role), as in SPIRAL (arXiv:2506.24119).

A_i = r_i - b, where b is the exponential mean of earlier updates' rewards of the same agent in the
same role. A role has its own baseline because the two are paid differently (pitfall 46). b is read
before this update's rewards enter it, so it does not depend on the actions it judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from learners.checks import check_fields
from learners.policy import Policy
from learners.policy_gradient import PolicyGradient, scored
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig


@dataclass(frozen=True)
class ReinforceConfig:
    """The moving baseline."""

    decay: float = 0.95
    """Weight of the old baseline: b <- decay * b + (1 - decay) * mean reward of the update. The
    first update of an (agent, role) has the baseline 0; its mean is the next one's baseline."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must be at least 0 and below 1, got {self.decay}")


class Reinforce:
    """The learner of one policy."""

    def __init__(
        self, policy: Policy, update: UpdateConfig, config: ReinforceConfig, horizon: Horizon
    ) -> None:
        self.config = config
        self.gradient = PolicyGradient(policy, update, horizon)
        self.baselines: dict[str, float] = {}
        """"agent/role" -> b."""

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Train on the trajectories of one step; returns metrics.

        Raises:
            FloatingPointError: A loss or gradient is not finite (pitfall 39).
        """
        kept, rewards_N, metrics = scored(trajectories, self.gradient.config)
        keys = [f"{t.agent}/{t.role}" for t in kept]
        baselines_N = torch.tensor([self.baselines.get(key, 0.0) for key in keys])
        advantages = list(rewards_N - baselines_N)
        result = self.gradient.update(kept, advantages)
        for key in dict.fromkeys(keys):
            mean = rewards_N[[other == key for other in keys]].mean().item()
            old = self.baselines.get(key, mean)
            self.baselines[key] = self.config.decay * old + (1 - self.config.decay) * mean
            metrics[f"baseline/{key.split('/')[1]}"] = self.baselines[key]
        return metrics | result

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, schedule, counters and baselines (pitfall 51)."""
        return {"gradient": self.gradient.state_dict(), "baselines": dict(self.baselines)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.gradient.load_state_dict(state["gradient"])
        self.baselines = dict(state["baselines"])
