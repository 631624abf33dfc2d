"""Problems -> how long their prompts are, before anything is sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agon_env.types import AGENTS, Problem
from agon_env.vector import Infos, vector_env
from learners.config import PairConfig
from learners.rollout import Player

LOOKED_AT = 64
"""Problems of a split whose prompts are rendered: the longest in characters."""

Length = Callable[[Sequence[Mapping[str, str]]], int]
"""Chat messages -> tokens of the prompt."""


def longest_prompt(
    config: PairConfig, problems: Sequence[Problem], lengths: Sequence[Length]
) -> int:
    """Tokens of the longest drafter's prompt, among the problems with the most characters.

    Args:
        config: Which task.
        problems: At least one.
        lengths: One per tokenizer; the longest result counts.
    """
    _, infos = _start(config, problems)
    return _longest([info["messages"] for info in infos[AGENTS[0]]], lengths)


def longest_solver_prompt(
    config: PairConfig, problems: Sequence[Problem], lengths: Sequence[Length]
) -> int:
    """The same of solvers that read an empty draft: a draft adds its own length."""
    env, infos = _start(config, problems)
    drafter, solver = AGENTS
    empty = [""] * len(infos[drafter])
    _, _, _, _, infos = env.step({drafter: empty, solver: [None] * len(empty)})
    return _longest([info["messages"] for info in infos[solver]], lengths)


def _start(config: PairConfig, problems: Sequence[Problem]) -> tuple[vector_env, Infos]:
    some = sorted(problems, key=lambda p: len(p.question), reverse=True)[:LOOKED_AT]
    env = vector_env(config.task, problems=some, reveal=config.reveal)
    ids = [problem.id for problem in some]
    return env, env.reset(options={"problem_id": ids, "seating": AGENTS[0]})[1]


def _longest(chats: Sequence[Sequence[Mapping[str, str]]], lengths: Sequence[Length]) -> int:
    return max(length(chat) for length in lengths for chat in chats)


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
            length = [lambda chat, one=policy: len(one.encode(chat).ids)]
            longest = longest_prompt(config, some, length)
            if config.regime != "solo":
                draft = 0 if config.reveal == "none" else new
                longest = max(longest, longest_solver_prompt(config, some, length) + draft)
            try:
                policy.check_fits(longest, new)
            except ValueError as error:
                raise ValueError(f"{config.task}, {split}: {error}") from error
