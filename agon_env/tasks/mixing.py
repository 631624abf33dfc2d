"""Problems -> which of them to train on, and when: bands, mixtures, solve rates, curricula.

All of it is seeded; the samplers save their position like `ProblemSampler`, of which they consist.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agon_env.tasks.registry import Task, find_task, load_problems, register_task
from agon_env.tasks.sampler import ProblemSampler
from agon_env.types import Problem, Verdict


def difficulty_band(problems: Iterable[Problem], low: float, high: float) -> list[Problem]:
    """Problems with low <= difficulty < high; those without a difficulty are in no band."""
    if not low < high:
        raise ValueError(f"a band must be low < high, got {low} and {high}")
    return [p for p in problems if p.difficulty is not None and low <= p.difficulty < high]


def solve_rates(
    problems: Sequence[Problem],
    generate: Callable[[Sequence[Problem]], Sequence[str]],
    judge: Callable[[list[tuple[Problem, str]]], Sequence[Verdict]],
    *,
    attempts: int = 4,
) -> dict[str, float]:
    """How often a model solves each problem.

    Args:
        generate: Problems -> one reply each, sampled anew at every call.
        judge: Pairs -> verdicts, such as `VerifierPool.verify_many`.
        attempts: Replies per problem.

    Returns:
        Problem id -> share of right replies in [0, 1]. Unscored replies do not count; a problem
        with nothing else is left out (pitfall 28: None is no 0).
    """
    if attempts < 1:
        raise ValueError(f"attempts must be >= 1, got {attempts}")
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(attempts):
        replies = generate(problems)
        pairs = list(zip(problems, replies, strict=True))
        for problem, verdict in zip(problems, judge(pairs), strict=True):
            if verdict.correct is not None:
                scores[problem.id].append(float(verdict.correct))
    return {name: sum(values) / len(values) for name, values in scores.items()}


def filter_by_solve_rate(
    problems: Iterable[Problem],
    rates: Mapping[str, float],
    *,
    low: float = 0.1,
    high: float = 0.9,
) -> tuple[list[Problem], Counter[str]]:
    """Problems that a base model neither always fails nor always solves: they have a gradient.

    Returns:
        (problems with low <= rate <= high, count of the others: "too hard", "too easy", "no rate").
    """
    kept: list[Problem] = []
    left: Counter[str] = Counter()
    for problem in problems:
        rate = rates.get(problem.id)
        if rate is None:
            left["no rate"] += 1
        elif rate < low:
            left["too hard"] += 1
        elif rate > high:
            left["too easy"] += 1
        else:
            kept.append(problem)
    return kept, left


def shares(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Split a whole number by weights (largest remainders), so that the parts add up to it."""
    if not weights or any(not w > 0 for w in weights.values()):
        raise ValueError(f"weights must be positive numbers, got {dict(weights)}")
    whole = sum(weights.values())
    exact = {name: total * weight / whole for name, weight in weights.items()}
    parts = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (parts[name] - exact[name], name))
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


def register_mixture(
    name: str, weights: Mapping[str, float], *, sizes: Mapping[str, int] | None = None
) -> Task:
    """Register a mixture of tasks, such as {"arithmetic-hard": 0.7, "algebra-easy": 0.3}.

    Args:
        sizes: Split -> problems of the whole mixture; default 2000, 200, 500.

    Returns:
        A task whose ids are "part/id"; each part keeps its own verifier.
    """
    sizes = dict(sizes or {"train": 2000, "validation": 200, "test": 500})
    shares(weights, 1)
    parts = [find_task(part) for part in weights]
    templates = {id(part.template): part.template for part in parts}
    if len(templates) > 1:
        raise ValueError(f"the parts of {name!r} have different prompt templates; train them apart")

    def load(split: str, seed: int) -> list[Problem]:
        mixed: list[Problem] = []
        for part, count in shares(weights, sizes[split]).items():
            found = load_problems(part, split, limit=count, seed=seed)
            if len(found) < count:
                raise ValueError(
                    f"{name}/{split} needs {count} problems of {part}, which has {len(found)}"
                )
            mixed += [replace(p, id=f"{part}/{p.id}") for p in found]
        order = np.random.default_rng(seed).permutation(len(mixed))
        return [mixed[i] for i in order]

    kinds = {part.verifier for part in parts}
    return register_task(
        name,
        load,
        sizes=sizes,
        verifier=kinds.pop() if len(kinds) == 1 else "mixed",
        source=" + ".join(weights),
        licence="of its parts",
        template=next(iter(templates.values())),
        description="mixture " + ", ".join(f"{p} {w:g}" for p, w in weights.items()),
        offline=lambda: all(part.offline() for part in parts),
    )


class MixtureSampler:
    """Batches with a fixed share of each part, however large the parts are."""

    def __init__(
        self,
        parts: Mapping[str, Sequence[Problem]],
        weights: Mapping[str, float],
        batch_size: int,
        seed: int = 0,
    ) -> None:
        """Shares are exact over time: what a batch cannot hold of a part, a later one holds.

        Args:
            parts: Name -> problems.
            weights: Name -> weight; the same names.
        """
        if set(parts) != set(weights):
            raise ValueError(f"parts and weights differ: {sorted(parts)} and {sorted(weights)}")
        shares(weights, batch_size)
        self.weights = dict(weights)
        self.batch_size = batch_size
        self.counts = dict.fromkeys(sorted(parts), 0)
        """Part -> problems drawn so far."""
        self.samplers = {
            name: ProblemSampler(parts[name], 1, seed + i) for i, name in enumerate(sorted(parts))
        }

    def next_batch(self) -> list[Problem]:
        """`batch_size` problems; each is of the part that lags most behind its share."""
        return [self._next() for _ in range(self.batch_size)]

    def _next(self) -> Problem:
        whole = sum(self.weights.values())
        drawn = sum(self.counts.values()) + 1
        name = max(
            self.counts, key=lambda part: drawn * self.weights[part] / whole - self.counts[part]
        )
        self.counts[name] += 1
        (problem,) = self.samplers[name].next_batch()
        return problem

    def state_dict(self) -> dict[str, Any]:
        """The position of every part."""
        states = {name: sampler.state_dict() for name, sampler in self.samplers.items()}
        return {"weights": dict(self.weights), "counts": dict(self.counts), "parts": states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue; raises ValueError for a state of other parts or weights."""
        if state["weights"] != self.weights or set(state["parts"]) != set(self.samplers):
            raise ValueError(
                f"the saved mixture is {state['weights']}, this one is {self.weights}; resume with "
                "the same parts and weights"
            )
        for name, sampler in self.samplers.items():
            sampler.load_state_dict(state["parts"][name])
        self.counts = dict(state["counts"])


@dataclass(frozen=True)
class Stage:
    """One stage of a curriculum."""

    batches: int
    """Batches before the next stage begins; the last stage never ends."""
    low: float
    """Difficulty from."""
    high: float
    """Difficulty below."""


class CurriculumSampler:
    """Batches of one difficulty band after another."""

    def __init__(
        self, problems: Sequence[Problem], stages: Sequence[Stage], batch_size: int, seed: int = 0
    ) -> None:
        """Every stage must have problems; those outside all bands are never drawn."""
        if not stages:
            raise ValueError("a curriculum needs at least one stage")
        self.stages = tuple(stages)
        self.drawn = 0
        """Batches so far."""
        self.samplers = []
        for stage in self.stages:
            band = difficulty_band(problems, stage.low, stage.high)
            if not band:
                raise ValueError(f"no problem has a difficulty of {stage}")
            self.samplers.append(ProblemSampler(band, batch_size, seed))

    @property
    def stage(self) -> int:
        """Number of the stage of the next batch."""
        passed = np.cumsum([stage.batches for stage in self.stages[:-1]])
        return int(np.searchsorted(passed, self.drawn, side="right"))

    def next_batch(self) -> list[Problem]:
        """The next batch of the stage."""
        batch = self.samplers[self.stage].next_batch()
        self.drawn += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The position of every stage."""
        return {"drawn": self.drawn, "stages": [s.state_dict() for s in self.samplers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue; raises ValueError for a state of another curriculum."""
        if len(state["stages"]) != len(self.samplers):
            raise ValueError(
                f"the saved curriculum has {len(state['stages'])} stages, this {len(self.samplers)}"
            )
        for sampler, saved in zip(self.samplers, state["stages"], strict=True):
            sampler.load_state_dict(saved)
        self.drawn = int(state["drawn"])
