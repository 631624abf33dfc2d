"""A scale -> how much each of its runs will generate, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from learners.config import PairConfig
from learners.memory import step_size
from learners.reproduction.methods import run_config

PER_PROBLEM = 4
"""Completions of a held-out problem: both models draft, and each reads the other's draft."""


@dataclass(frozen=True)
class RunWork:
    """What one run generates."""

    run: str
    trained_on: int
    """Completions of training."""
    held_out: int
    """Completions of evaluations and of the record, at least."""
    tokens: int
    """Of both, at most: every completion at full length."""


def work_of(run: str, base: PairConfig) -> RunWork:
    """The work of a run at the budget of `base`."""
    config = run_config(run, base)
    trained_on = config.steps * step_size(config, 0).completions
    on_the_way = config.steps // config.eval_every if config.eval_every else 0
    last = 0 if config.eval_every and config.steps % config.eval_every == 0 else 1
    evaluations = 1 + on_the_way + last
    problems = config.validation_problems * (evaluations + 1) + config.test_problems
    held_out = problems * PER_PROBLEM
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
    lines.append(f"| all, times {seeds} seeds | {sums[0]:,} | {sums[1]:,} | {tokens:,} |")
    return "\n".join(lines) + "\n"
