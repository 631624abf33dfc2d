"""One sampled completion with what it earned: the unit that learners train on."""

from __future__ import annotations

from dataclasses import dataclass

from agon_env.types import AgentID, Role


@dataclass(frozen=True)
class Trajectory:
    """A prompt, the ids that were sampled after it, and the reward."""

    agent: AgentID
    role: Role
    group: tuple[int, str, AgentID, Role]
    """(step, problem id, agent, role): the completions that share a baseline (pitfall 30)."""
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """As sampled, stop token included; never decoded and encoded again (pitfall 53)."""
    logprobs: tuple[float, ...]
    """The engine's log-prob of each completion id, temperature applied."""
    finished: bool
    """False: cut by the length limit."""
    reward: float | None
    """None: unscored; has no part in training or baselines, and is counted (pitfall 28)."""
