"""Counts -> estimates with intervals. Nothing is reported without one."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
        if self.n == 0:
            return (0.0, 1.0)
        found = binomtest(self.k, self.n).proportion_ci(confidence_level=0.95, method="exact")
        return (float(found.low), float(found.high))

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
