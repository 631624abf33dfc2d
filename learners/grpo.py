"""GRPO for one policy: rewards relative to the group's mean, no critic (arXiv:2402.03300)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from learners.advantages import ScaleRewards, constant_groups, group_advantages
from learners.checks import check_fields
from learners.policy import Policy
from learners.policy_gradient import PolicyGradient, group_index, scored
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig


@dataclass(frozen=True)
class GRPOConfig:
    """How GRPO makes advantages of rewards."""

    scale_rewards: ScaleRewards = "group"
    """What centred rewards are divided by: see `advantages.group_advantages`."""
    std_floor: float = 0.0
    """Least std to divide by, so that almost constant groups are not blown up (pitfall 23)."""
    constant_groups: Literal["keep", "mask"] = "keep"
    """Groups whose rewards are all equal have no gradient. "keep": they count in the loss
    denominator, as in TRL; "mask": they do not (pitfall 25), nor in the KL to the reference. They
    are replaced by other problems with `PairConfig.refill_rounds`."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.std_floor < 0:
            raise ValueError(f"std_floor must not be negative, got {self.std_floor}")


class GRPO:
    """The learner of one policy."""

    def __init__(
        self, policy: Policy, update: UpdateConfig, config: GRPOConfig, horizon: Horizon
    ) -> None:
        self.config = config
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
            advantages_N = group_advantages(
                rewards_N, groups_N, self.config.scale_rewards, self.config.std_floor
            )
            constant_G = constant_groups(rewards_N, groups_N)
            metrics["constant_groups"] = constant_G.float().mean().item()
            advantages = list(advantages_N)
            if self.config.constant_groups == "mask":
                counted = [i for i, group in enumerate(groups_N.tolist()) if not constant_G[group]]
                kept, advantages = [kept[i] for i in counted], [advantages[i] for i in counted]
        return metrics | self.gradient.update(kept, advantages)

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, schedule and counters."""
        return self.gradient.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.gradient.load_state_dict(state)
