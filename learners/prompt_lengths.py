"""Problems -> how long their prompts are, before anything is sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agon_env.types import AGENTS, Problem
from agon_env.vector import vector_env
from learners.config import PairConfig
from learners.rollout import Player

LOOKED_AT = 64
"""Problems of a split whose prompts are rendered: the longest in characters."""

Length = Callable[[Sequence[Mapping[str, str]]], int]
"""Chat messages -> tokens of the prompt."""


@dataclass(frozen=True)
class PromptLengths:
    """Longest prompts of some problems, in tokens."""

    drafter: int
    solver: int
    """With a draft that is empty: a draft adds its own length."""


def prompt_lengths(
    config: PairConfig, problems: Sequence[Problem], lengths: Sequence[Length]
) -> PromptLengths:
    """Of the problems that are longest in characters.

    Args:
        config: Which task, and what a solver is shown.
        problems: At least one.
        lengths: One per tokenizer; the longest result counts.
    """
    some = sorted(problems, key=lambda p: len(p.question), reverse=True)[:LOOKED_AT]
    env = vector_env(config.task, problems=some, reveal=config.reveal)
    drafter, solver = AGENTS
    _, infos = env.reset(options={"problem_id": [p.id for p in some], "seating": drafter})
    drafting = [info["messages"] for info in infos[drafter]]
    _, _, _, _, infos = env.step({drafter: [""] * len(some), solver: [None] * len(some)})
    solving = [info["messages"] for info in infos[solver]]

    def longest(chats: Sequence[Sequence[Mapping[str, str]]]) -> int:
        return max(length(chat) for length in lengths for chat in chats)

    return PromptLengths(longest(drafting), longest(solving))


def check_prompts_fit(
    config: PairConfig, problems: Mapping[str, Sequence[Problem]], players: Mapping[str, Player]
) -> None:
    """Refuse a run that would end at its first long problem.

    Args:
        config: Of the run.
        problems: Split -> its problems.
        players: Whose models answer.

    Raises:
        ValueError: Some prompt, with the longest draft in it, leaves no room for a reply.
    """
    new = config.sampling.max_new_tokens
    policies = list({id(p.policy): p.policy for p in players.values()}.values())
    for split, some in problems.items():
        for policy in policies:
            found = prompt_lengths(config, some, [lambda chat, p=policy: len(p.encode(chat).ids)])
            read = 0 if config.regime == "solo" else found.solver + new
            try:
                policy.check_fits(max(found.drafter, read), new)
            except ValueError as error:
                raise ValueError(f"{config.task}, {split}: {error}") from error
