"""Counts -> estimates with intervals. Nothing is reported without one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest


@dataclass(frozen=True)
class Proportion:
    """k successes in n trials with an exact 95% interval (Clopper-Pearson)."""

    k: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise ValueError(f"a proportion needs 0 <= k <= n, got k={self.k}, n={self.n}")

    @property
    def value(self) -> float:
        """k / n; NaN when n is 0."""
        return self.k / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95% interval; (0, 1) when n is 0."""
        return _exact_interval(self.k, self.n)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]" if self.n else "n/a"


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass@k from n samples of which c are right (arXiv:2107.03374).

    1 - C(n - c, k) / C(n, k): the chance that a random k of the n samples holds a right one
    (pitfall 69).
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


@lru_cache(maxsize=4096)
def _exact_interval(k: int, n: int) -> tuple[float, float]:
    """Clopper-Pearson; remembered, as reports ask for the same counts over and over."""
    if n == 0:
        return (0.0, 1.0)
    found = binomtest(k, n).proportion_ci(confidence_level=0.95, method="exact")
    return (float(found.low), float(found.high))


def pass_all_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass^k, the chance that all of k samples are right (arXiv:2406.12045).

    C(c, k) / C(n, k) from n samples of which c are right.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass^k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    return math.comb(c, k) / math.comb(n, k)


def maj_at_k(answers: Sequence[str | None], correct: Sequence[bool], k: int) -> float:
    """Chance that a vote among k of the n samples is right (self-consistency, arXiv:2203.11171).

    Averaged over all subsets of k (2,000 random ones where there are more), so unbiased; a tie is
    settled by lot, which counts its share.

    Args:
        answers: One per sample; None does not vote, and a vote without voters is wrong.
        correct: Whether each sample is right.
        k: Voters.
    """
    votes = list(zip(answers, correct, strict=True))
    if not 1 <= k <= len(votes):
        raise ValueError(f"maj@k needs 1 <= k <= n, got n={len(votes)}, k={k}")
    if math.comb(len(votes), k) <= 2000:
        subsets = list(itertools.combinations(votes, k))
    else:
        rng = np.random.default_rng(0)
        picks = rng.random((2000, len(votes))).argsort(1)[:, :k]
        subsets = [tuple(votes[i] for i in pick) for pick in picks]
    return sum(_vote(subset) for subset in subsets) / len(subsets)


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test.

    Args:
        only_first: Problems that only the first method has right.
        only_second: Problems that only the second one has right.
    """
    if min(only_first, only_second) < 0:
        raise ValueError(f"counts must be at least 0, got {only_first} and {only_second}")
    discordant = only_first + only_second
    return float(binomtest(only_first, discordant).pvalue) if discordant else 1.0


def sign_flip_p(differences_P: Sequence[float], *, seed: int = 0, draws: int = 20_000) -> float:
    """Two-sided p-value of the paired permutation test: which method is which, flipped by problem.

    For differences of -1, 0 and 1 it is the exact McNemar test; it also holds for means over
    several seeds, and for three problems, where a bootstrap is far too sure. All sign patterns
    are counted up to 14 differences that are not 0, else `draws` random ones.
    """
    values = np.array([d for d in differences_P if d != 0 and not math.isnan(d)])
    if len(values) == 0:
        return 1.0
    if len(values) <= 14:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
        extra = 0
    else:
        signs = np.random.default_rng(seed).choice((-1.0, 1.0), (draws, len(values)))
        extra = 1  # the observed pattern is one of them
    reached = np.abs(signs @ values) >= abs(values.sum()) - 1e-9
    return float((reached.sum() + extra) / (len(signs) + extra))


@dataclass(frozen=True)
class Estimate:
    """A number with a 95% interval that is no plain proportion."""

    value: float
    """NaN when nothing was observed."""
    low: float
    high: float
    n: int
    """Problems behind it."""

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "n/a"
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def hierarchical_bootstrap(values_P_S: ArrayLike, *, seed: int = 0, draws: int = 2000) -> Estimate:
    """Mean over problems and seeds with a percentile interval that respects the hierarchy.

    Problems are drawn with replacement and bring all their seeds along: the seeds of one problem
    are not independent, and drawing them anew inside it would count their noise twice (Davison
    and Hinkley 1997, section 3.8). Where no problem has more than one value and all are 0 or 1,
    it is a plain proportion with its exact interval; where all values are equal there is no spread
    to draw from, and the interval is the exact one of as many problems.

    Args:
        values_P_S: One row per problem, one column per seed; NaN where there is no value.
        seed: Of the draws.
        draws: Bootstrap samples.
    """
    values = np.atleast_2d(np.asarray(values_P_S, dtype=float))
    known = ~np.isnan(values)
    sums_P_2 = np.stack([np.where(known, values, 0).sum(1), known.sum(1)], axis=1)
    problems = int(known.any(1).sum())
    binary = bool(np.isin(values[known], (0.0, 1.0)).all())
    single, equal = bool((known.sum(1) <= 1).all()), len(np.unique(values[known])) == 1
    if problems and binary and (single or equal):
        share = Proportion(round(problems * values[known].mean()), problems)
        return Estimate(share.value, *share.interval, problems)
    return bootstrap_counts(sums_P_2[known.any(1)], _ratio, seed=seed, draws=draws)


def paired_bootstrap(
    first_P_S: ArrayLike, second_P_S: ArrayLike, *, seed: int = 0, draws: int = 2000
) -> Estimate:
    """Mean over problems of first - second on the same problems, with a percentile interval.

    A problem counts with the mean over its seeds; one without any value on either side is left out.
    """
    differences_P = problem_means(first_P_S) - problem_means(second_P_S)
    counts = np.stack([differences_P, np.ones_like(differences_P)], axis=1)
    return bootstrap_counts(counts[~np.isnan(differences_P)], _ratio, seed=seed, draws=draws)


def crossed_bootstrap(values_S_P: ArrayLike, *, seed: int = 0, draws: int = 2000) -> Estimate:
    """Mean over training seeds and problems with a percentile interval that draws both.

    For several trained models on the same problems: the two are crossed, and what is claimed is
    about models and problems that were not drawn. With few seeds the interval is too narrow.

    Args:
        values_S_P: One row per seed, one column per problem; NaN where there is no value.
        seed: Of the draws.
        draws: Bootstrap samples.
    """
    values = np.atleast_2d(np.asarray(values_S_P, dtype=float))
    rng = np.random.default_rng(seed)
    seeds, problems = values.shape
    known = ~np.isnan(values)
    sums_S_P, counts_S_P = np.where(known, values, 0.0), known.astype(float)
    # How often each seed and problem is drawn, (D, S) and (D, P).
    rows = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws)
    columns = rng.multinomial(problems, np.full(problems, 1 / problems), size=draws)
    total = np.einsum("ds,sp,dp->d", rows, sums_S_P, columns, optimize=True)
    count = np.einsum("ds,sp,dp->d", rows, counts_S_P, columns, optimize=True)
    means = total[count > 0] / count[count > 0]
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(np.nanmean(values)), float(low), float(high), problems)


def bootstrap_counts(
    counts_P_K: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    seed: int = 0,
    draws: int = 2000,
) -> Estimate:
    """A statistic of summed counts, with a percentile interval over drawn problems.

    Args:
        counts_P_K: What each problem adds to the K sums.
        statistic: (D, K) sums -> (D,) values; may give NaN.
        seed: Of the draws.
        draws: Bootstrap samples.
    """
    problems = len(counts_P_K)
    if problems == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    rng = np.random.default_rng(seed)
    block = max(1, 1_000_000 // problems)  # keeps the indices small
    found = []
    for start in range(0, draws, block):
        rows_D_P = rng.integers(problems, size=(min(block, draws - start), problems))
        found.append(statistic(counts_P_K[rows_D_P].sum(1)))
    value = float(statistic(counts_P_K.sum(0, keepdims=True))[0])
    values = np.concatenate(found)
    values = values[~np.isnan(values)]
    if math.isnan(value) or len(values) == 0:
        return Estimate(value, math.nan, math.nan, problems)
    low, high = np.quantile(values, (0.025, 0.975))
    return Estimate(value, float(low), float(high), problems)


def problem_means(values_P_S: ArrayLike) -> NDArray[np.float64]:
    """Mean over the seeds of each problem that have a value, (P,); NaN where none has."""
    values = np.atleast_2d(np.asarray(values_P_S, dtype=float))
    known = ~np.isnan(values)
    return _ratio(np.stack([np.where(known, values, 0).sum(1), known.sum(1)], axis=1))


def _ratio(sums_D_2: NDArray[np.float64]) -> NDArray[np.float64]:
    """First column over the second; NaN where that is 0."""
    trials = sums_D_2[:, 1]
    return np.where(trials > 0, sums_D_2[:, 0] / np.where(trials > 0, trials, 1), np.nan)


def _vote(votes: Sequence[tuple[str | None, bool]]) -> float:
    """Share of right samples among those of the answers with the most votes."""
    counts = Counter(answer for answer, _ in votes if answer is not None)
    if not counts:
        return 0.0
    most = max(counts.values())
    winners = [answer for answer, count in counts.items() if count == most]
    return sum(right for answer, right in votes if answer in winners) / (most * len(winners))
