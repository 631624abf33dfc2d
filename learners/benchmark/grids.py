"""Played jobs -> per method: a grid of outcomes over problems and seeds, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agon_env.types import Problem
from learners.benchmark.jobs import Job
from learners.benchmark.methods import Method
from learners.benchmark.prompts import accepts
from learners.benchmark.runner import UNJUDGED, Played
from learners.statistics import Estimate, Proportion, hierarchical_bootstrap, maj_at_k

Replies = Mapping[Job, Played]


@dataclass(frozen=True)
class Stage:
    """All replies of one stage of a method."""

    replies: int
    prompt_tokens: float
    """Mean per reply."""
    completion_tokens: float
    """Mean per reply."""
    seconds: float
    """Mean per reply."""
    unparsed: Proportion
    """Without an answer that can be read."""
    truncated: Proportion
    """Cut by the length limit."""
    empty: Proportion
    """Nothing but white space."""
    failed: int
    """Requests that the server refused."""
    unscored: int
    """Without a verdict, our fault; the failed ones among them."""


@dataclass(frozen=True)
class Grid:
    """What one method did on a set of problems."""

    method: Method
    outcomes_P_S: NDArray[np.float64]
    """1 right, 0 wrong, between them a tied vote; NaN unscored. Rows: problems, columns: seeds."""
    accuracy: Estimate
    prompt_tokens: float
    """Mean per problem, over all stages."""
    completion_tokens: float
    """Mean per problem, over all stages."""
    seconds: float
    """Mean per problem, over all stages, one after the other."""
    stages: Mapping[str, Stage]


def grid_of(
    method: Method, problems: Sequence[Problem], seeds: Sequence[int], played: Replies
) -> Grid:
    """Count one method."""
    jobs_P_S = [[method.jobs(problem.id, seed) for seed in seeds] for problem in problems]
    outcomes = np.array([[_outcome(method, jobs, played) for jobs in row] for row in jobs_P_S])
    cells = [jobs for row in jobs_P_S for jobs in row]
    by_stage: dict[str, list[Played]] = {}
    for jobs in cells:
        for job in jobs:
            by_stage.setdefault(job.stage, []).append(played[job])
    replies = [[played[job].reply for job in jobs] for jobs in cells]
    return Grid(
        method=method,
        outcomes_P_S=outcomes,
        accuracy=hierarchical_bootstrap(outcomes),
        prompt_tokens=float(np.mean([sum(r.prompt_tokens for r in cell) for cell in replies])),
        completion_tokens=float(
            np.mean([sum(r.completion_tokens for r in cell) for cell in replies])
        ),
        seconds=float(np.mean([sum(r.seconds for r in cell) for cell in replies])),
        stages={stage: _stage(found) for stage, found in by_stage.items()},
    )


def answer_of(played: Played) -> str | None:
    """The answer of a reply in a form that can be compared and voted on; None without one."""
    answer = played.verdict.answer
    if answer is None:
        return None
    return "".join(answer.replace("$", "").split()).rstrip(".").casefold() or None


def is_right(played: Played) -> float:
    """1 right, 0 wrong, NaN unscored."""
    correct = played.verdict.correct
    return np.nan if correct is None else float(correct)


def _outcome(method: Method, jobs: Sequence[Job], played: Replies) -> float:
    replies = [played[job] for job in jobs]
    values = [is_right(reply) for reply in replies]
    match method.rule:
        case "last":
            return values[-1]
        case "any":
            return 1.0 if 1.0 in values else np.nan if np.isnan(values).any() else 0.0
        case "majority":
            if np.isnan(values).all():
                return np.nan
            votes = [answer_of(r) if r.verdict.correct is not None else None for r in replies]
            return maj_at_k(votes, [value == 1.0 for value in values], len(values))
        case "judged":
            accepted = [accepts(reply.reply.text) for reply in replies[1::2]]
            return values[2 * accepted.index(True)] if True in accepted else values[0]


def _stage(found: Sequence[Played]) -> Stage:
    count = len(found)
    asked = [p for p in found if p.reply.error is None]
    judged = [p for p in found if p.verdict is not UNJUDGED]
    return Stage(
        replies=count,
        prompt_tokens=sum(p.reply.prompt_tokens for p in found) / count,
        completion_tokens=sum(p.reply.completion_tokens for p in found) / count,
        seconds=sum(p.reply.seconds for p in found) / count,
        unparsed=Proportion(
            sum(p.verdict.reason in ("no_answer", "truncated") for p in asked), len(asked)
        ),
        truncated=Proportion(sum(not p.reply.finished for p in asked), len(asked)),
        empty=Proportion(sum(not p.reply.text.strip() for p in asked), len(asked)),
        failed=count - len(asked),
        unscored=sum(p.verdict.correct is None for p in judged),
    )
