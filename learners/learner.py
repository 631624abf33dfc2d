"""A name -> the learner of one policy. All learners take the same trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from learners.grpo import GRPO, GRPOConfig
from learners.policy import Policy
from learners.ppo import PPO, PPOConfig
from learners.reinforce import Reinforce, ReinforceConfig
from learners.rloo import RLOO
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig

LearnerName = Literal["grpo", "rloo", "reinforce", "ppo"]


class Learner(Protocol):
    """Trains one policy on what it sampled."""

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Train on the trajectories of one step (none: only the schedule moves on)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything but the policy's weights that a resumed run needs."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


@dataclass(frozen=True)
class LearnerConfigs:
    """The options of every learner; a run uses those of the learners that it names."""

    update: UpdateConfig = field(default_factory=UpdateConfig)
    grpo: GRPOConfig = field(default_factory=GRPOConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    reinforce: ReinforceConfig = field(default_factory=ReinforceConfig)


def make_learner(
    name: LearnerName, policy: Policy, configs: LearnerConfigs, horizon: Horizon
) -> Learner:
    """The learner of that name.

    Raises:
        ValueError: The options do not go together.
    """
    if name == "grpo":
        return GRPO(policy, configs.update, configs.grpo, horizon)
    if name == "rloo":
        return RLOO(policy, configs.update, horizon)
    if name == "reinforce":
        return Reinforce(policy, configs.update, configs.reinforce, horizon)
    return PPO(policy, configs.update, configs.ppo, horizon)
