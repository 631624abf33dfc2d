"""Two results.json -> is the difference significant? Paired by problem, Holm-adjusted.

Only problems that both files hold with the same text and gold are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from learners.benchmark.measures import Difference, difference
from learners.benchmark.results import SCHEMA

LEVEL = 0.05


@dataclass(frozen=True)
class Compared:
    """One method of each file on their common problems."""

    first: str
    second: str
    problems: int
    """In both files, with the same text and gold."""
    left_out: int
    """In one file only, or different in the two."""
    found: Difference
    """First file minus second."""
    p_adjusted: float
    """Of the paired permutation test, adjusted for all comparisons made here (Holm)."""

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is below 0.05."""
        return self.p_adjusted < LEVEL

    @property
    def verdict(self) -> str:
        """The answer in words."""
        if not self.significant:
            return "no significant difference"
        higher = (self.found.difference.value or 0) > 0
        return f"significant: {'first' if higher else 'second'} is better"


def compare(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    pairs: Sequence[tuple[str, str]] | None = None,
) -> list[Compared]:
    """Compare methods of two results.

    Args:
        first: Contents of a results.json.
        second: Another one, or the same.
        pairs: (method of the first, method of the second); None: every name that both have.

    Raises:
        ValueError: A file is no result of this benchmark, a method is missing, or no problem is
            common.
    """
    for results in (first, second):
        if results.get("schema") != SCHEMA:
            raise ValueError(
                f"a results.json of benchmarks/pairs.py ({SCHEMA}) is needed, got schema "
                f"{results.get('schema')!r}"
            )
    here, there = first["outcomes"], second["outcomes"]
    if pairs is None:
        pairs = [(name, name) for name in here if name in there]
    for name, outcomes in [(a, here) for a, _ in pairs] + [(b, there) for _, b in pairs]:
        if name not in outcomes:
            raise ValueError(f"there is no method {name!r}; choose from {list(outcomes)}")
    hashes, others = first["problems"], second["problems"]
    common = [problem for problem, found in hashes.items() if others.get(problem) == found]
    if not common:
        raise ValueError("the two files have no problem in common; run both on the same task")
    left_out = len(set(hashes) | set(others)) - len(common)
    found = [
        Compared(a, b, len(common), left_out, _difference(here[a], there[b], common), 1.0)
        for a, b in pairs
    ]
    adjusted = holm([entry.found.p for entry in found])
    return [replace(entry, p_adjusted=p) for entry, p in zip(found, adjusted, strict=True)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of several p-values."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _difference(
    first: Mapping[str, list[float | None]],
    second: Mapping[str, list[float | None]],
    common: Sequence[str],
) -> Difference:
    grids = [
        np.array([[np.nan if v is None else v for v in rows[problem]] for problem in common])
        for rows in (first, second)
    ]
    return difference(*grids)
