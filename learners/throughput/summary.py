"""Measured steps -> the rows of the table and the goals. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from learners.throughput.records import Measured, Step

Rounds = Mapping[str, Sequence[Measured]]
"""Contender -> what it measured in each round."""

SPEEDUP = 2.0
"""Least tokens per second of our step, in those of two TRL trainers."""
ONE_MODEL = 1.10
"""Most memory of a pair of adapters, in that of one adapter."""
OVERHEAD = 0.05
"""Most of our step that env and verifier may take."""


@dataclass(frozen=True)
class Row:
    """One contender, over all counted steps of all rounds."""

    contender: str
    new_tokens: int
    """Of one step; the same in every step."""
    prompt_tokens: float
    """Of one step, mean: a solver's prompt depends on the draft."""
    generation: float
    """New tokens per second of generation, median over steps."""
    update: float
    """New tokens per second of the update."""
    step: float
    """New tokens per second of the whole step."""
    slowest: float
    fastest: float
    """Of whole steps."""
    step_of_rounds: tuple[float, ...]
    """Median of each round: what they differ by is drift of the machine."""
    judging_share: float
    """Env, verifier and rewards in the time of a step, median."""
    peak_mib: float
    """Largest over the rounds."""
    growth_mib: float
    """The peak above the process with its imports and no model."""


@dataclass(frozen=True)
class Goal:
    """What was wanted and what was measured."""

    name: str
    wanted: str
    measured: float
    met: bool


def rows(rounds: Rounds) -> list[Row]:
    """One per contender.

    Raises:
        ValueError: Contenders of whole steps did not do the same work.
    """
    counts = {
        name: {(s.rows, s.new_tokens) for m in found for s in m.steps}
        for name, found in rounds.items()
    }
    if len(set().union(*counts.values())) != 1:
        raise ValueError(f"contenders must sample equally many rows and tokens, got {counts}")
    return [_row(name, found) for name, found in rounds.items()]


def goals(table: Sequence[Row], *, adapters: bool) -> list[Goal]:
    """Those that the measured contenders can tell; that of memory is about two adapters."""
    by_name = {row.contender: row for row in table}
    ours = by_name["ours"]
    share = ours.judging_share
    found = [Goal("env + verifier of our step", f"< {OVERHEAD:.0%}", share, share < OVERHEAD)]
    if "two TRL" in by_name:
        ratio = ours.step / by_name["two TRL"].step
        found.append(
            Goal("tokens/s of a step, ours / two TRL", f">= {SPEEDUP}", ratio, ratio >= SPEEDUP)
        )
    if adapters and "one of ours" in by_name:
        ratio = ours.growth_mib / by_name["one of ours"].growth_mib
        wanted = f"<= {ONE_MODEL}"
        found.append(Goal("peak memory, pair / one model", wanted, ratio, ratio <= ONE_MODEL))
    return found


def _row(name: str, found: Sequence[Measured]) -> Row:
    steps = [step for measured in found for step in measured.steps]
    rates = [_rate(step) for step in steps]
    return Row(
        contender=name,
        new_tokens=steps[0].new_tokens,
        prompt_tokens=mean(step.prompt_tokens for step in steps),
        generation=median(s.new_tokens / s.generation_s for s in steps),
        update=median(s.new_tokens / s.update_s for s in steps),
        step=median(rates),
        slowest=min(rates),
        fastest=max(rates),
        step_of_rounds=tuple(median(map(_rate, measured.steps)) for measured in found),
        judging_share=median(s.judging_s / s.step_s for s in steps),
        peak_mib=max(m.peak_mib for m in found),
        growth_mib=max(m.peak_mib - m.imports_mib for m in found),
    )


def _rate(step: Step) -> float:
    return step.new_tokens / step.step_s
