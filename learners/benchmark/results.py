"""Played jobs -> results.json: plain values, the same for tables, page and comparison.

The schema is written down in `benchmarks/README.md`; a change of meaning changes `SCHEMA`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agon_env.types import Problem
from learners.benchmark import jobs, methods
from learners.benchmark.benchmark import Plan
from learners.benchmark.grids import Grid, Replies, answer_of, grid_of, is_right
from learners.benchmark.jobs import Job
from learners.benchmark.measures import conversion, copying, corruption, curve, difference, overlap
from learners.benchmark.problems import problem_hash
from learners.benchmark.prompts import Prompts
from learners.statistics import Estimate, Proportion

SCHEMA = "agon-pairs/1"
MOST_K = 8
"""Curves stop here; votes among more samples cost more time than they tell."""

Grids = Mapping[str, Grid]


def results_of(
    plan: Plan, played: Replies, prompts: Prompts, conditions: Mapping[str, object]
) -> dict[str, Any]:
    """Everything that is reported, as plain values."""
    grids = {m.name: grid_of(m, plan.sets.test, plan.seeds, played) for m in plan.methods}
    counted = _Counted(plan, played, prompts, grids)
    labels = list(plan.labels)
    couples = [(a, b) for i, a in enumerate(labels) for b in labels[i + 1 :]]
    chosen = [counted.couple(*couple) for couple in couples]
    outcomes = {name: _outcomes(plan, grid.outcomes_P_S) for name, grid in grids.items()}
    for couple in chosen:
        outcomes[f"pair {'+'.join(couple['agents'])}"] = outcomes[couple["reported"]]
    return plain(
        {
            "schema": SCHEMA,
            **conditions,
            "settings": dataclasses.asdict(plan.settings),
            "agents": dict(plan.labels),
            "splits": {
                "test": {"name": plan.sets.test_split, "problems": len(plan.sets.test)},
                "validation": {
                    "name": plan.sets.validation_split,
                    "problems": len(plan.sets.validation),
                },
            },
            "problems": {problem.id: problem_hash(problem) for problem in plan.sets.test},
            "methods": [_method_entry(grid) for grid in grids.values()],
            "directions": [counted.direction(d, s) for d in labels for s in labels if d != s],
            "pairs": chosen,
            "curves": {label: counted.curve(name) for label, name in plan.labels.items()},
            "outcomes": outcomes,
        }
    )


def plain(value: Any) -> Any:
    """Records and arrays as plain JSON values; NaN becomes null."""
    if isinstance(value, Proportion):
        low, high = value.interval
        return plain({"value": value.value, "low": low, "high": high, "k": value.k, "n": value.n})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _method_entry(grid: Grid) -> dict[str, Any]:
    return {
        "name": grid.method.name,
        "kind": grid.method.kind,
        "agents": grid.method.agents,
        "uses_gold": grid.method.uses_gold,
        "accuracy": grid.accuracy,
        "prompt_tokens": grid.prompt_tokens,
        "completion_tokens": grid.completion_tokens,
        "tokens": grid.prompt_tokens + grid.completion_tokens,
        "seconds": grid.seconds,
        "unscored": int(np.isnan(grid.outcomes_P_S).sum()),
        "stages": grid.stages,
    }


def _outcomes(plan: Plan, outcomes_P_S: np.ndarray) -> dict[str, list[float]]:
    rows = zip(plan.sets.test, outcomes_P_S, strict=True)
    return {problem.id: list(row) for problem, row in rows}


@dataclasses.dataclass(frozen=True)
class _Counted:
    """Counts what concerns two agents."""

    plan: Plan
    played: Replies
    prompts: Prompts
    grids: Grids

    def direction(self, drafter: str, solver: str) -> dict[str, Any]:
        """One ordered pair on the test problems."""
        drafts = self.grids[methods.solo_name(drafter)].outcomes_P_S
        name = methods.cascade_name(drafter, solver)
        solutions = self.grids[name].outcomes_P_S
        against = {
            "vs_drafter_alone": methods.solo_name(drafter),
            "vs_solver_alone": methods.solo_name(solver),
            "vs_no_draft": methods.unread_name(solver),
            "vs_draft_of_another_problem": methods.other_name(drafter, solver),
        }
        return {
            "drafter": drafter,
            "solver": solver,
            "method": name,
            "conversion": conversion(drafts, solutions),
            "corruption": corruption(drafts, solutions),
            "copying": self._copying(drafter, solver, drafts),
            **{
                key: difference(solutions, self.grids[other].outcomes_P_S)
                for key, other in against.items()
                if other in self.grids
            },
        }

    def couple(self, first: str, second: str) -> dict[str, Any]:
        """One unordered pair: overlap, and the direction chosen on the validation problems.

        Without validation problems nothing is chosen, and the first direction is reported.
        """
        solos = [self.grids[methods.solo_name(label)].outcomes_P_S for label in (first, second)]
        names = [methods.cascade_name(first, second), methods.cascade_name(second, first)]
        validation = {name: self._validated(name) for name in names}
        alone = {label: self._validated(methods.solo_name(label)) for label in (first, second)}
        best = max(names, key=lambda name: _value(validation[name]))
        single = methods.solo_name(max(alone, key=lambda label: _value(alone[label])))
        return {
            "agents": [first, second],
            "overlap": overlap(*solos),
            "validation": validation,
            "validation_alone": alone,
            "chosen": best if self.plan.sets.validation else None,
            "reported": best,
            "accuracy": self.grids[best].accuracy,
            "best_single": single,
            "vs_best_single": difference(
                self.grids[best].outcomes_P_S, self.grids[single].outcomes_P_S
            ),
        }

    def curve(self, name: str) -> list[dict[str, Any]]:
        """pass@k, pass^k and maj@k of one agent over all of its attempts at each test problem."""
        by_problem: dict[str, list[Job]] = {problem.id: [] for problem in self.plan.sets.test}
        for job in sorted(self.played, key=lambda job: (job.seed, job.sample)):
            if job.agent == name and job.stage == "solo" and job.problem in by_problem:
                by_problem[job.problem].append(job)
        rows = list(by_problem.values())
        answers = [[answer_of(self.played[job]) for job in row] for row in rows]
        rights = np.array([[is_right(self.played[job]) for job in row] for row in rows])
        return [
            {"k": k, **curve(answers, rights, k)}
            for k in range(1, min(rights.shape[1], MOST_K) + 1)
        ]

    def _validated(self, name: str) -> Estimate:
        """Accuracy on the validation problems, whose methods are named as the test's."""
        problems = self.plan.sets.validation
        if not problems:
            return Estimate(math.nan, math.nan, math.nan, 0)
        return grid_of(self._method(name), problems, self.plan.seeds, self.played).accuracy

    def _method(self, name: str) -> methods.Method:
        return next(method for method in self.plan.methods if method.name == name)

    def _copying(self, drafter: str, solver: str, drafts: np.ndarray) -> Any:
        names = (self.plan.labels[drafter], self.plan.labels[solver])
        problems, seeds = self.plan.sets.test, self.plan.seeds

        def solution(p: Problem, s: int) -> Job:
            return jobs.solve(*names, p.id, s)

        def grid(job: Callable[[Problem, int], Job]) -> np.ndarray:
            found = [[answer_of(self.played[job(p, s)]) for s in seeds] for p in problems]
            return np.array(found, dtype=object)

        answers = (
            grid(lambda p, s: jobs.solo(names[0], p.id, s)),
            grid(solution),
            grid(lambda p, s: jobs.solo(names[1], p.id, s)),
        )
        texts = [
            (
                [self._shown(solution(p, s)) for s in seeds],
                [self.played[solution(p, s)].reply.text for s in seeds],
            )
            for p in problems
        ]
        return copying(answers, drafts, texts)

    def _shown(self, job: Job) -> str:
        return self.prompts.shown(job, {read: self.played[read].reply.text for read in job.reads})


def _value(estimate: Estimate) -> float:
    """For a choice: nothing measured is worse than anything."""
    return -1.0 if math.isnan(estimate.value) else estimate.value
