"""Played jobs -> what a reader browses: problem, draft, solution and kind of each cascade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from learners.benchmark.benchmark import Plan
from learners.benchmark.grids import Replies
from learners.benchmark.runner import Played

MOST = 3000
"""Transcripts in one report; a page with more is slow to open. The store has all."""

KINDS = ("converted", "corrupted", "both wrong", "kept", "unscored")


@dataclass(frozen=True)
class Transcript:
    """One cascade on one problem."""

    direction: str
    problem: str
    seed: int
    kind: str
    """What the solver made of the draft; one of `KINDS`."""
    question: str
    gold: str
    draft: Played
    solution: Played


def transcripts(plan: Plan, played: Replies) -> list[Transcript]:
    """The cascades on the test problems, spread over all directions, at most `MOST`."""
    found = list(_all(plan, played))
    step = max(1, -(-len(found) // MOST))
    return found[::step]


def kind_of(draft: bool | None, solution: bool | None) -> str:
    """What a solver made of its draft."""
    if draft is None or solution is None:
        return "unscored"
    if draft:
        return "kept" if solution else "corrupted"
    return "converted" if solution else "both wrong"


def _all(plan: Plan, played: Replies) -> Iterator[Transcript]:
    for problem in plan.sets.test:
        for method in plan.directions:
            for seed in plan.seeds:
                draft, solution = (played[job] for job in method.jobs(problem.id, seed))
                yield Transcript(
                    direction=">".join(method.agents),
                    problem=problem.id,
                    seed=seed,
                    kind=kind_of(draft.verdict.correct, solution.verdict.correct),
                    question=problem.question,
                    gold=problem.answer,
                    draft=draft,
                    solution=solution,
                )
