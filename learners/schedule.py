"""(options, step, problems) -> the matches of one training step. Pure.

Who drafts in which match, which draft a solver reads, and whether there are solvers at all. The
regimes that a comparison needs are options here, not other trainers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from agon_env.types import AGENTS, AgentID, Role

Rotation = Literal["step", "episode", "both", "fixed"]
Regime = Literal["pair", "self", "solo"]


@dataclass(frozen=True)
class Plan:
    """Matches to play; all lists have one entry per match."""

    problem_ids: tuple[str, ...]
    seatings: tuple[str, ...]
    """"both", or the agent that drafts."""
    draft_of: tuple[int, ...]
    """Index of the match whose draft the solver reads."""
    solve: bool = True
    """False: solvers pass, only drafts are sampled."""

    @classmethod
    def simple(cls, problem_ids: Sequence[str], seating: str) -> Plan:
        """Every match with the same seating and its own draft."""
        count = len(problem_ids)
        return cls(tuple(problem_ids), (seating,) * count, tuple(range(count)))

    def acts(self, agent: AgentID, role: Role) -> list[int]:
        """The matches in which the agent plays that role."""
        drafts = role == "drafter"
        return [
            i
            for i, seating in enumerate(self.seatings)
            if seating == "both" or (seating == agent) == drafts
        ]

    def groups(self) -> list[range]:
        """The matches of each problem: consecutive ones with the same id."""
        starts = [
            i for i, p in enumerate(self.problem_ids) if i == 0 or p != self.problem_ids[i - 1]
        ]
        return [range(a, b) for a, b in pairwise([*starts, len(self.problem_ids)])]

    def between(self, start: int, end: int) -> Plan:
        """The matches from start to end, which hold whole problems."""
        lenders = tuple(index - start for index in self.draft_of[start:end])
        return replace(
            self,
            problem_ids=self.problem_ids[start:end],
            seatings=self.seatings[start:end],
            draft_of=lenders,
        )


def plan_step(
    problem_ids: Sequence[str],
    step: int,
    *,
    samples: int,
    rotation: Rotation,
    regime: Regime,
    shared_draft: bool,
) -> Plan:
    """The matches of one step.

    Args:
        problem_ids: The step's problems.
        step: Steps done before this one.
        samples: N: matches per problem; "solo" plays 2N, the pair's budget of "both".
        rotation: See `PairConfig`.
        regime: See `PairConfig`.
        shared_draft: Solvers of one problem and seating all read the first of its drafts.
    """
    solo = regime == "solo"
    repeats = 2 * samples if solo else samples
    ids, seatings, lenders = [], [], []
    for problem_id in problem_ids:
        first: dict[str, int] = {}
        for number in range(repeats):
            seating = "both" if solo else _seating(rotation, step, number)
            index = len(ids)
            leader = first.setdefault(seating, index)
            ids.append(problem_id)
            seatings.append(seating)
            lenders.append(leader if shared_draft else index)
    return Plan(tuple(ids), tuple(seatings), tuple(lenders), solve=not solo)


def _seating(rotation: Rotation, step: int, number: int) -> str:
    """Who drafts in match `number` of a problem."""
    if rotation == "both":
        return "both"
    if rotation == "fixed":
        return AGENTS[0]
    return AGENTS[(step if rotation == "step" else step + number) % 2]


def trains(agent_index: int, step: int, alternate_every: int) -> bool:
    """Whether an agent is updated in a step; with alternation one at a time, agent_0 first."""
    return alternate_every == 0 or (step // alternate_every) % 2 == agent_index
