"""Records of a chain task -> what a gap in a model's knowledge costs it, by what the rival knows.

The warm-up left every model with its own gaps: facts that it never saw or saw wrong. A problem
needs some facts, so it meets some gaps. If a pair gains because each model learns from the other
what it lacks, then after training a fact that was new to the model must cost less where the rival
had seen it than where neither had; for a model that was trained alone both must cost the same. A
logistic fit of "right" on the numbers of gaps that a problem meets tells. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agon_env.tasks.chains import Chain, ChainRules, read_question
from agon_env.types import AGENTS, Problem
from learners.tiny_models import KINDS, Kind
from learners.warmup import knowledge_of
from learners.warmup_data import Curriculum, Knowledge

KINDS_OF_GAP = ("never seen, the rival has", "never seen by either", "seen wrong")


@dataclass(frozen=True)
class GapCost:
    """What one gap more does to the odds of a right answer; 1: nothing, NaN: not to be told.

    The intervals take answers as independent. A gap is one fact that many problems meet, and facts
    differ, so they are too narrow: in a simulation with five seeds a test at 5% of two equal costs
    rejected in 20%.
    """

    odds: tuple[float, float, float]
    """Factors, in the order of `KINDS_OF_GAP`."""
    low: tuple[float, float, float]
    """Lower ends of their 95% intervals (Wald)."""
    high: tuple[float, float, float]
    """Upper ends."""
    answers: int
    """Answers that the fit saw."""


def gap_costs(
    records: Sequence[Mapping[str, Any]], rules: ChainRules, problems: Sequence[Problem]
) -> GapCost:
    """The fit over both models and all records of one run.

    Args:
        records: One per seed.
        rules: Of the task.
        problems: The test problems that the records answer.
    """
    counts, right = [], []
    for record in records:
        curriculum = replace(Curriculum(), **record.get("gaps", {}))
        kinds: list[Kind] = [kind_of(name) for name in record["config"]["models"]]
        gaps = [knowledge_of(rules, kind, record["seed"], curriculum) for kind in kinds]
        for own, agent in enumerate(AGENTS):
            met = [_met(rules, problem, gaps[own], gaps[1 - own]) for problem in problems]
            bits = record["test"]["alone"][agent]["correct"]
            scored = [i for i, bit in enumerate(bits) if bit != "-"]
            counts += [met[i] for i in scored]
            right += [bits[i] == "1" for i in scored]
    slopes, errors = logistic_fit(np.array(counts, dtype=float), np.array(right, dtype=float))
    met_at_all = np.ptp(np.array(counts), axis=0) > 0  # else nothing can be said of that kind
    slopes, errors = np.where(met_at_all, slopes, np.nan), np.where(met_at_all, errors, np.nan)
    return GapCost(
        odds=_three(np.exp(slopes)),
        low=_three(np.exp(slopes - 1.96 * errors)),
        high=_three(np.exp(slopes + 1.96 * errors)),
        answers=len(right),
    )


SEPARATED = 10.0
"""Standard error of log-odds above which a slope has no interval: all its outcomes are alike."""


def gaps_table(costs: Mapping[str, GapCost]) -> str:
    """Label of a run -> its costs, as Markdown."""
    lines = ["| models alone, trained by | " + " | ".join(KINDS_OF_GAP) + " |", "|---|---|---|---|"]
    for label, cost in costs.items():
        cells = (_cell(*three) for three in zip(cost.odds, cost.low, cost.high, strict=True))
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(odds: float, low: float, high: float) -> str:
    if np.isnan(odds):
        return "-"
    return f"{odds:.2f}" if np.isnan(low) else f"{odds:.2f} [{low:.2f}, {high:.2f}]"


def logistic_fit(
    features_N_K: NDArray[np.float64], outcomes_N: NDArray[np.float64], *, rounds: int = 50
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Maximum likelihood of P(outcome) = sigmoid(a + b x), by Newton's method.

    A ridge of 1e-6 keeps it finite where a feature is constant or decides everything.

    Returns:
        (K,) slopes and their standard errors; NaN where all outcomes are equal or no maximum
        was found; an error alone where its feature decides everything, which has no best slope.
    """
    untold = np.full(features_N_K.shape[1], np.nan)
    if np.ptp(outcomes_N) == 0:
        return untold, untold
    design = np.column_stack([np.ones(len(features_N_K)), features_N_K])
    weights = np.zeros(design.shape[1])
    ridge = 1e-6 * np.eye(len(weights))
    information = ridge
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        information = (design * (chance * (1 - chance))[:, None]).T @ design + ridge
        move = np.linalg.solve(information, design.T @ (outcomes_N - chance) - ridge @ weights)
        weights = weights + move
        if np.abs(move).max() < 1e-9:
            break
    else:
        return untold, untold
    errors = np.sqrt(np.diag(np.linalg.inv(information)))[1:]
    return weights[1:], np.where(errors > SEPARATED, np.nan, errors)


def kind_of(model: str) -> Kind:
    """The architecture of a warm model, from its folder's name.

    Raises:
        ValueError: It is no warm model.
    """
    name = Path(model).name
    for kind in KINDS:
        if name.startswith(kind):
            return kind
    raise ValueError(f"models must be warm models of {list(KINDS)}, got {model}")


def _met(
    rules: ChainRules, problem: Problem, own: Knowledge, rival: Knowledge
) -> tuple[int, int, int]:
    """How many gaps of each kind are on the right way through the problem."""
    chain = read_question(rules, problem.question)
    assert chain is not None, f"{problem.question!r} is no problem of {rules.name}"
    facts = _facts(chain)
    unseen = [fact for fact in facts if not own.known[fact]]
    of_both = sum(not rival.known[fact] for fact in unseen)
    return len(unseen) - of_both, of_both, sum(bool(own.mistaken[fact]) for fact in facts)


def _facts(chain: Chain) -> list[tuple[int, int]]:
    """(operation, state) of every step."""
    before = (chain.start, *chain.values()[:-1])
    return [
        (chain.rules.operations.index(operation), chain.rules.states[value])
        for operation, value in zip(chain.operations, before, strict=True)
    ]


def _three(values: NDArray[np.float64]) -> tuple[float, float, float]:
    first, second, third = values.tolist()
    return first, second, third
