"""Outcome grids -> what two agents are to each other: conversion, overlap, influence, differences.

Every function takes grids of the same problems (rows) and seeds (columns), with NaN for unscored,
and gives estimates with intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learners.statistics import (
    Estimate,
    bootstrap_counts,
    hierarchical_bootstrap,
    maj_at_k,
    mcnemar_p,
    paired_bootstrap,
    pass_all_k,
    pass_at_k,
    problem_means,
    sign_flip_p,
)
from learners.text_overlap import text_overlap

Outcomes = NDArray[np.float64]
"""(P, S): 1 right, 0 wrong, NaN unscored."""


@dataclass(frozen=True)
class Difference:
    """First method minus second one on the same problems."""

    difference: Estimate
    p: float
    """Paired permutation test over problems, two-sided; with one seed it is McNemar's exact one."""
    only_first: int
    """Problems that only the first has right, in the first seed."""
    only_second: int
    """Problems that only the second has right, in the first seed."""
    mcnemar_p: float
    """Exact McNemar test on the first seed alone."""


@dataclass(frozen=True)
class Overlap:
    """How alike the errors of two agents alone are."""

    agreement: Estimate
    """Share of problems on which both are right or both wrong."""
    kappa: Estimate
    """Agreement beyond chance: 1 the same errors, 0 independent ones."""
    jaccard: Estimate
    """P(both wrong | one of them wrong): 1 the same errors, 0 none in common."""
    oracle: Estimate
    """P(either right): what choosing between their answers could reach at most."""


@dataclass(frozen=True)
class Copying:
    """How often a solver gives the drafter's answer, which it was not shown."""

    same_answer: Estimate
    """P(solution gives the draft's answer), where both have one."""
    same_answer_alone: Estimate
    """The same of the solver's own attempt: how often they coincide without reading."""
    same_wrong_answer: Estimate
    """P(solution gives the draft's answer | draft wrong), where both have one."""
    text: Estimate
    """Share of the solution's runs of five words that stand in what it was shown."""


def conversion(drafts: Outcomes, solutions: Outcomes) -> Estimate:
    """P(solution right | draft wrong)."""
    return hierarchical_bootstrap(np.where(drafts == 0, solutions, np.nan))


def corruption(drafts: Outcomes, solutions: Outcomes) -> Estimate:
    """P(solution wrong | draft right)."""
    return hierarchical_bootstrap(np.where(drafts == 1, 1 - solutions, np.nan))


def overlap(first: Outcomes, second: Outcomes) -> Overlap:
    """Agreement of two agents, seed by seed."""
    scored = ~(np.isnan(first) | np.isnan(second))
    either_wrong = scored & ((first == 0) | (second == 0))
    both_wrong = (first == 0) & (second == 0)

    def where(mask: NDArray[np.bool_], values: NDArray[np.bool_]) -> Estimate:
        return hierarchical_bootstrap(np.where(mask, values.astype(float), np.nan))

    return Overlap(
        agreement=where(scored, first == second),
        kappa=_kappa(first, second),
        jaccard=where(either_wrong, both_wrong),
        oracle=where(scored, (first == 1) | (second == 1)),
    )


def _kappa(first: Outcomes, second: Outcomes) -> Estimate:
    cells = [((first == a) & (second == b)).sum(1) for a in (0, 1) for b in (0, 1)]
    counts_P_4 = np.stack(cells, axis=1).astype(float)
    return bootstrap_counts(counts_P_4[counts_P_4.any(1)], cohens_kappa)


def cohens_kappa(counts_D_4: NDArray[np.float64]) -> NDArray[np.float64]:
    """(both wrong, second right, first right, both right) -> Cohen's kappa; NaN without variation.

    Args:
        counts_D_4: (D, 4), one table per row.
    """
    total = np.maximum(counts_D_4.sum(1), 1)
    both_wrong, second, first, both = (counts_D_4 / total[:, None]).T
    right_first, right_second = first + both, second + both
    chance = right_first * right_second + (1 - right_first) * (1 - right_second)
    spread = 1 - chance
    observed = both + both_wrong
    return np.where(spread > 1e-12, (observed - chance) / np.maximum(spread, 1e-12), np.nan)


def difference(first: Outcomes, second: Outcomes) -> Difference:
    """Compare two methods on the same problems."""
    means = problem_means(first) - problem_means(second)
    here, there = first[:, 0], second[:, 0]
    only_first, only_second = (
        int(((here == 1) & (there == 0)).sum()),
        int(((here == 0) & (there == 1)).sum()),
    )
    return Difference(
        difference=paired_bootstrap(first, second),
        p=sign_flip_p(list(means)),
        only_first=only_first,
        only_second=only_second,
        mcnemar_p=mcnemar_p(only_first, only_second),
    )


def copying(
    answers: tuple[NDArray[np.object_], NDArray[np.object_], NDArray[np.object_]],
    drafts: Outcomes,
    texts: Sequence[tuple[Sequence[str], Sequence[str]]],
) -> Copying:
    """What solutions share with drafts.

    Args:
        answers: (P, S) answers of the drafts, of the solutions, and of the solver alone; None
            without one.
        drafts: Outcomes of the drafts.
        texts: Per problem the shown drafts and the solutions, by seed.
    """
    draft, solution, alone = answers
    wrong = drafts == 0
    return Copying(
        same_answer=hierarchical_bootstrap(_same(draft, solution)),
        same_answer_alone=hierarchical_bootstrap(_same(draft, alone)),
        same_wrong_answer=hierarchical_bootstrap(np.where(wrong, _same(draft, solution), np.nan)),
        text=hierarchical_bootstrap(
            [[text_overlap(*pair) for pair in zip(*row, strict=True)] for row in texts]
        ),
    )


def _same(first: NDArray[np.object_], second: NDArray[np.object_]) -> Outcomes:
    known = (first != None) & (second != None)  # noqa: E711 (element by element)
    return np.where(known, (first == second).astype(float), np.nan)


def curve(
    answers_P_N: Sequence[Sequence[str | None]], outcomes_P_N: Outcomes, k: int
) -> dict[str, Estimate]:
    """pass@k, pass^k and maj@k from all N samples of each problem; unscored samples are left out.

    A problem with fewer than k scored samples does not count.
    """
    found: dict[str, list[float]] = {"pass": [], "pass_all": [], "maj": []}
    for answers, outcomes in zip(answers_P_N, outcomes_P_N, strict=True):
        known = [(a, bool(o)) for a, o in zip(answers, outcomes, strict=True) if not np.isnan(o)]
        n, c = len(known), sum(right for _, right in known)
        if n >= k:
            found["pass"].append(pass_at_k(n, c, k))
            found["pass_all"].append(pass_all_k(n, c, k))
            found["maj"].append(maj_at_k([a for a, _ in known], [r for _, r in known], k))
    return {
        name: hierarchical_bootstrap(np.array(values).reshape(-1, 1) if values else [[np.nan]])
        for name, values in found.items()
    }
