"""A scale -> how much each of its runs will generate, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from agon_env.types import AGENTS
from learners.config import PairConfig
from learners.memory import step_size
from learners.reproduction.methods import Use, run_config
from learners.reproduction.runs import VOTERS

EVALUATED = len(AGENTS) * 2
"""Completions of an evaluated problem: both models draft, and each reads the other's draft."""
PER_PROBLEM: Mapping[Use, int] = {"self": len(AGENTS) * 2, "majority": len(AGENTS) * VOTERS}
"""Completions that a use takes of a held-out problem, beside those of an evaluation."""


@dataclass(frozen=True)
class RunWork:
    """What one run generates."""

    run: str
    trained_on: int
    """Completions of training."""
    held_out: int
    """Completions of evaluations and of the record."""
    tokens: int
    """Of both, at most: every completion at full length."""


def work_of(run: str, base: PairConfig, uses: Set[Use]) -> RunWork:
    """The work of a run.

    Args:
        run: Its name.
        base: The budget of all runs.
        uses: What the rows ask of its models.
    """
    config = run_config(run, base)
    trained_on = config.steps * step_size(config, 0).completions
    evaluated = {0, config.steps}  # steps after which it is
    if config.eval_every:
        evaluated |= set(range(0, config.steps, config.eval_every))
    recorded = EVALUATED + sum(PER_PROBLEM.get(use, 0) for use in uses)
    held_out = config.validation_problems * (len(evaluated) * EVALUATED + recorded)
    held_out += config.test_problems * recorded
    tokens = (trained_on + held_out) * config.sampling.max_new_tokens
    return RunWork(run, trained_on, held_out, tokens)


def plan_table(works: Iterable[RunWork], seeds: int) -> str:
    """Markdown: a line per run, and the sum over all runs and seeds."""
    works = list(works)
    lines = [
        "| run | completions trained on | held out | tokens at most |",
        "|---|---|---|---|",
        *(f"| {w.run} | {w.trained_on:,} | {w.held_out:,} | {w.tokens:,} |" for w in works),
    ]
    sums = [seeds * sum(getattr(w, name) for w in works) for name in ("trained_on", "held_out")]
    tokens = seeds * sum(w.tokens for w in works)
    lines.append(f"| all, seeds: {seeds} | {sums[0]:,} | {sums[1]:,} | {tokens:,} |")
    return "\n".join(lines) + "\n"
