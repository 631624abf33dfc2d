"""PPO for one policy: a critic's values, GAE over tokens, the clipped loss (arXiv:1707.06347).

The comparative reward arrives after the last token. Everything else (rollouts, rewards, trainer,
checkpoints) is as for GRPO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from learners.advantages import gae, whiten
from learners.checks import check_fields
from learners.critic import Critic, CriticConfig
from learners.policy import Policy
from learners.policy_gradient import PolicyGradient, scored
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig


@dataclass(frozen=True)
class PPOConfig:
    """Options of the advantages."""

    gamma: float = 1.0
    """Discount per token."""
    lam: float = 0.95
    """Of GAE: 1 trusts the sampled return, 0 the critic."""
    whiten: bool = True
    """Center and scale the advantages of an update over all tokens."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Where `UpdateConfig.beta` acts: as a term of the loss, or as -beta * (log pi - log pi_ref)
    added to the reward of each token."""
    critic: CriticConfig = field(default_factory=CriticConfig)
    """The critic and its optimizer."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")


class PPO:
    """The learner of one policy."""

    def __init__(
        self, policy: Policy, update: UpdateConfig, config: PPOConfig, horizon: Horizon
    ) -> None:
        """Make the policy's optimizer and its critic.

        Raises:
            ValueError: The loss is "gspo", which has one advantage per completion.
        """
        if update.loss_type == "gspo":
            raise ValueError(
                'PPO has an advantage per token and "gspo" a term per completion; choose another '
                "loss_type"
            )
        self.config, self.beta = config, update.beta
        in_reward = config.kl_in == "reward" and update.beta > 0
        in_loss = replace(update, beta=0.0) if in_reward else update
        self.gradient = PolicyGradient(policy, in_loss, horizon, reference=in_reward)
        self.critic = Critic(policy, config.critic, update, horizon)

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Train policy and critic on the trajectories of one step; returns metrics.

        Raises:
            FloatingPointError: A loss or gradient is not finite (pitfall 39).
        """
        kept, rewards_N, metrics = scored(trajectories, self.gradient.config)
        if not kept:
            self.critic.skip()
            return metrics | self.gradient.update([], [])
        values = self.critic.values(kept)
        rewards = self._token_rewards(kept, rewards_N, metrics)
        pairs = [
            gae(r, v, self.config.gamma, self.config.lam)
            for r, v in zip(rewards, values, strict=True)
        ]
        advantages, returns = [a for a, _ in pairs], [r for _, r in pairs]
        metrics["explained_variance"] = explained_variance(torch.cat(values), torch.cat(returns))
        metrics["value"] = torch.cat(values).mean().item()
        if self.config.whiten:
            advantages = whiten(advantages)
        metrics |= self.gradient.update(kept, advantages)
        return metrics | self.critic.fit(kept, returns, values)

    def state_dict(self) -> dict[str, Any]:
        """States of the policy's update and of the critic."""
        return {"gradient": self.gradient.state_dict(), "critic": self.critic.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.gradient.load_state_dict(state["gradient"])
        self.critic.load_state_dict(state["critic"])

    def _token_rewards(
        self, kept: list[Trajectory], rewards_N: Tensor, metrics: dict[str, float]
    ) -> list[Tensor]:
        """(T,) per trajectory: the reward after the last token, minus the KL where it is paid."""
        rows = [torch.zeros(len(t.completion_ids)) for t in kept]
        if self.gradient.reference is not None and self.config.kl_in == "reward":
            references = self.gradient.reference_logprobs(kept)
            log_ratios = [
                torch.tensor(t.logprobs) - reference.cpu()
                for t, reference in zip(kept, references, strict=True)
            ]
            rows = [-self.beta * log_ratio for log_ratio in log_ratios]
            metrics["reference_kl"] = torch.cat(log_ratios).mean().item()
        for row, reward in zip(rows, rewards_N, strict=True):
            row[-1] += reward
        return rows


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns); 0 for constant returns.

    1: the critic knows the returns; 0: no better than their mean; below 0: worse.
    """
    if len(returns) < 2 or returns.var() == 0:
        return 0.0
    return (1 - (returns - values).var() / returns.var()).item()
