"""Stored records -> the table: held-out pass@1 per method with intervals and paired tests. Pure.

For every seed the model or direction is chosen on validation problems; the number is that choice on
the test problems. Intervals draw seeds and problems, both with replacement: all seeds answer the
same problems, so the two are crossed. With few seeds such an interval is too narrow, which is why
the value of each seed stands beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agon_env.types import AGENTS
from learners.reproduction.methods import Method
from learners.statistics import Estimate, crossed_bootstrap

Records = Mapping[tuple[str, int], Mapping[str, Any]]
"""(run, seed) -> record of `runs.make_record`."""


@dataclass(frozen=True)
class Row:
    """One method."""

    method: Method
    correct_S_P: NDArray[np.float64]
    """Share of right answers per seed and problem; NaN where unscored."""
    pass_at_1: Estimate
    alone: tuple[float, float]
    """Of the run's two models from the plain prompt, mean over seeds."""
    tokens: float
    """Sampled per problem, all stages."""
    solution_tokens: float
    """Of the last stage alone."""
    overlap: float
    """Jaccard index of the two models' error sets, mean over seeds."""
    budget_tokens: float
    """Sampled in training, mean over seeds."""

    @property
    def by_seed(self) -> list[float]:
        """Pass@1 of each seed."""
        return np.nanmean(self.correct_S_P, axis=1).tolist()


def make_row(method: Method, records: Records, seeds: Sequence[int]) -> Row:
    """The numbers of one method over the seeds."""
    chosen = [_chosen(method, records[method.run, seed]) for seed in seeds]
    correct = np.stack([values for values, _ in chosen])
    tests = [records[method.run, seed]["test"] for seed in seeds]
    alone = [[_mean(test["alone"][agent]) for agent in AGENTS] for test in tests]
    return Row(
        method=method,
        correct_S_P=correct,
        pass_at_1=crossed_bootstrap(correct),
        alone=tuple(np.mean(alone, axis=0).tolist()),
        tokens=float(np.mean([part["tokens"] for _, part in chosen])),
        solution_tokens=float(
            np.mean([part.get("solution_tokens", part["tokens"]) for _, part in chosen])
        ),
        overlap=float(np.mean([_overlap(test) for test in tests])),
        budget_tokens=float(
            np.mean([records[method.run, seed]["budget"]["tokens"] for seed in seeds])
        ),
    )


def markdown(rows: Sequence[Row], baseline: str = "grpo") -> str:
    """The table; differences are to the row of that key, problem by problem."""
    by_key = {row.method.key: row for row in rows}
    base = by_key.get(baseline)
    lines = [
        "| method | pass@1, % [95%] | by seed | minus GRPO [95%] | models alone | tokens "
        "| last stage | error overlap | trained on, tokens | paper |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        versus = "" if base is None or row is base else str(_difference(row, base))
        cells = (
            row.method.label,
            str(row.pass_at_1),
            " ".join(f"{100 * value:.1f}" for value in row.by_seed),
            versus,
            " / ".join(f"{100 * value:.1f}" for value in row.alone),
            f"{row.tokens:.0f}",
            f"{row.solution_tokens:.0f}",
            f"{row.overlap:.2f}",
            f"{row.budget_tokens:,.0f}",
            "" if row.method.paper is None else f"{row.method.paper:g}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ordering_broken(rows: Sequence[Row], keys: Sequence[str]) -> str | None:
    """None when pass@1 rises along the keys, else a line that says where it does not."""
    by_key = {row.method.key: row for row in rows}
    for low, high in itertools.pairwise(keys):
        first, second = by_key[low].pass_at_1, by_key[high].pass_at_1
        if not first.value < second.value:
            return f"{low} must be below {high}, got {first} and {second}"
    return None


def _difference(row: Row, base: Row) -> Estimate:
    """Paired by problem; seeds are drawn together, as they share warm-up and problems."""
    return crossed_bootstrap(row.correct_S_P - base.correct_S_P)


def _chosen(method: Method, record: Mapping[str, Any]) -> tuple[NDArray[np.float64], dict]:
    """Test results of what did best on validation, per problem, and the part they come from."""
    kind = method.use
    options = record["validation"][kind]
    best = max(options, key=lambda name: _mean(options[name]))
    part = record["test"][kind][best]
    return _values(part), part


def _values(part: Mapping[str, Any]) -> NDArray[np.float64]:
    if "share" in part:
        return np.array(part["share"], dtype=float)
    return np.array([{"1": 1.0, "0": 0.0, "-": np.nan}[bit] for bit in part["correct"]])


def _mean(part: Mapping[str, Any]) -> float:
    return float(np.nanmean(_values(part)))


def _overlap(split: Mapping[str, Any]) -> float:
    """Jaccard index of the problems that the two models get wrong; 1 when neither errs."""
    wrong = [_values(split["alone"][agent]) == 0 for agent in AGENTS]
    union = (wrong[0] | wrong[1]).sum()
    return float((wrong[0] & wrong[1]).sum() / union) if union else 1.0
