"""Problems and a seed -> which problem the next match plays, and who drafts.

Problems come in a seeded shuffle, epoch after epoch, each once per epoch. A pinned problem takes
nothing from the shuffle. With alternate seating agent_0 drafts in even episodes; the count of
episodes starts anew with every seed, so that the same seed gives the same matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import numpy as np

from agon_env.types import AGENTS, AgentID, Problem, Seating

SEATINGS: tuple[str, ...] = get_args(Seating)


class Dealer:
    """Deals problems and seats, one match after the other. Picklable, with its position."""

    def __init__(
        self, problems: Iterable[Problem], *, seating: Seating, seed: int | None = None
    ) -> None:
        """Deal from these problems.

        Args:
            problems: At least one, with unique ids.
            seating: "alternate", "fixed" (agent_0 always drafts) or "both".
            seed: Of the shuffle; None draws one from the operating system.
        """
        self.problems = _checked_problems(problems)
        self._index = {problem.id: problem for problem in self.problems}
        self._seating = _checked_seating(seating, also=())
        self.reseed(seed)

    def reseed(self, seed: int | None) -> None:
        """Start anew: shuffle, position and episode count. The problems and the seating stay."""
        if seed is not None and not (isinstance(seed, int | np.integer) and seed >= 0):
            raise ValueError(f"seed must be None or a whole number of at least 0, got {seed!r}")
        self._rng = np.random.default_rng(seed)
        self._order: list[int] = []
        self.episode = 0
        """Matches seated since the last seed."""

    def problem(self, problem_id: str | None = None) -> Problem:
        """The next problem of the shuffle, or the one of that id."""
        if problem_id is not None:
            if problem_id not in self._index:
                some = ", ".join(repr(problem.id) for problem in self.problems[:3])
                raise ValueError(
                    f"unknown problem_id {problem_id!r}; this env plays {len(self.problems)} "
                    f"problems, such as {some}"
                )
            return self._index[problem_id]
        if not self._order:
            self._order = self._rng.permutation(len(self.problems)).tolist()[::-1]
        return self.problems[self._order.pop()]

    def drafters(self, seating: str | None = None) -> tuple[AgentID, ...]:
        """Who drafts in the next episode, which this call counts.

        Args:
            seating: Overrides the env's for this episode: a seating, or the agent that drafts.
        """
        chosen = self._seating if seating is None else _checked_seating(seating, also=AGENTS)
        number = self.episode
        self.episode += 1
        if chosen in AGENTS:
            return (chosen,)
        if chosen == "both":
            return AGENTS
        return (AGENTS[number % 2 if chosen == "alternate" else 0],)


def _checked_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    checked: dict[str, Problem] = {}
    for problem in problems:
        if not isinstance(problem, Problem):
            raise TypeError(
                f"problems must hold Problem records, got {type(problem).__name__}; "
                "write Problem(id=..., question=..., answer=...)"
            )
        if problem.id in checked:
            raise ValueError(f"problem ids must be unique, {problem.id!r} occurs twice")
        checked[problem.id] = problem
    if not checked:
        raise ValueError("an env needs at least one problem, got none")
    return tuple(checked.values())


def _checked_seating(seating: str, *, also: tuple[str, ...]) -> str:
    if seating not in (*SEATINGS, *also):
        raise ValueError(f"seating must be one of {[*SEATINGS, *also]}, got {seating!r}")
    return seating
