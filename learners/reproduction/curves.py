"""Run folders -> validation pass@1 over the steps of training, as numbers and as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from learners.evaluate import Evaluation
from learners.run_folder import EVALUATIONS, RunFolder

Curve = Mapping[int, float]
"""Step -> validation pass@1."""


def validation_curve(folder: Path, run: str) -> Curve:
    """Of the better model ("grpo", whose models never meet) or the better direction."""
    return {
        line["step"]: _better(Evaluation.from_dict(line["evaluation"]), run)
        for line in RunFolder(folder).lines(EVALUATIONS)
        if line["split"] == "validation"
    }


def curves_table(curves: Mapping[str, Sequence[Curve]], baseline: str = "grpo") -> str:
    """A row per run: mean over its seeds at each step and, in brackets, times the baseline.

    A step that some seed has not evaluated is left out, and so is a seed without its run folder.
    The better one is chosen on the problems that it is measured on: all numbers are a little high.
    """
    means = {run: _mean_by_step(found) for run, found in curves.items()}
    steps = sorted(set().union(*means.values()))
    base = means.get(baseline, {})
    lines = [
        "| validation pass@1, % (times "
        + baseline
        + ") at step | "
        + " | ".join(map(str, steps))
        + " |",
        "|---" * (len(steps) + 1) + "|",
    ]
    for run, found in means.items():
        cells = [
            _cell(found.get(step), None if run == baseline else base.get(step)) for step in steps
        ]
        lines.append(f"| {run} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _mean_by_step(curves: Sequence[Curve]) -> Curve:
    values: defaultdict[int, list[float]] = defaultdict(list)
    for curve in curves:
        for step, value in curve.items():
            values[step].append(value)
    seeds = sum(bool(curve) for curve in curves)
    return {step: mean(found) for step, found in values.items() if len(found) == seeds}


def _cell(value: float | None, base: float | None) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}" + (f" ({value / base:.2f})" if base else "")


def _better(evaluation: Evaluation, run: str) -> float:
    if run == "grpo":
        return max(stage.correct.value for stage in evaluation.alone.values())
    return evaluation.best_direction.solution.correct.value
