"""RLOO for one policy: the baseline of a completion is the mean of the others (arXiv:2402.14740).

A_i = r_i - mean of the group's other rewards = n / (n - 1) * (r_i - mean). Unbiased, not scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.advantages import constant_groups, leave_one_out
from learners.policy import Policy
from learners.policy_gradient import PolicyGradient, group_index, scored
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig


class RLOO:
    """The learner of one policy."""

    def __init__(self, policy: Policy, update: UpdateConfig, horizon: Horizon) -> None:
        self.gradient = PolicyGradient(policy, update, horizon)

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Train on the trajectories of one step; returns metrics.

        Raises:
            FloatingPointError: A loss or gradient is not finite (pitfall 39).
        """
        kept, rewards_N, metrics = scored(trajectories, self.gradient.config)
        advantages = []
        if kept:
            groups_N = group_index(kept)
            advantages = list(leave_one_out(rewards_N, groups_N))
            constant_G = constant_groups(rewards_N, groups_N)
            metrics["constant_groups"] = constant_G.float().mean().item()
        return metrics | self.gradient.update(kept, advantages)

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, schedule and counters."""
        return self.gradient.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.gradient.load_state_dict(state)
