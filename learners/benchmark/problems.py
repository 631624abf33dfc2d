"""A task -> the problems of a benchmark: test problems, and others to choose the direction on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agon_env.prompts import Template
from agon_env.tasks import find_task, load_problems
from agon_env.types import Problem


@dataclass(frozen=True)
class ProblemSets:
    """Test and validation problems, without a common question."""

    test: tuple[Problem, ...]
    validation: tuple[Problem, ...]
    """Empty when there is but one problem; then no direction is chosen."""
    test_split: str
    validation_split: str
    """Of the task; "rest of ..." when it has none and the test's split was divided."""
    template: Template | None
    """The task's own; None: by verifier."""

    @property
    def all(self) -> tuple[Problem, ...]:
        """Both, test first."""
        return self.test + self.validation


def load_sets(task: str, n: int, n_validation: int, split: str | None) -> ProblemSets:
    """Load a benchmark's problems.

    Args:
        task: A name of `agon_env.tasks()` or a file.
        n: Most test problems.
        n_validation: Most validation problems. Where the task has no validation split they are
            taken from the end of the test's split, at most a quarter of it.
        split: Of the test problems; None: "test", or all of a single file.

    Raises:
        ValueError: There is no such task or split, or it holds no problem.
    """
    if n < 1 or n_validation < 0:
        raise ValueError(f"n must be at least 1 and n_validation 0, got {n} and {n_validation}")
    split, pool = _test_pool(task, n + n_validation, split)
    template = find_task(task).template
    validation = _validation_pool(task, n_validation) if split != "validation" else []
    source = "validation"
    if validation:
        test = pool[:n]
    else:
        share = min(n_validation, max(len(pool) - n, len(pool) // 4, int(len(pool) > 1)))
        test, validation = pool[: min(n, len(pool) - share)], pool[len(pool) - share :]
        source = f"rest of {split}"
    return ProblemSets(tuple(test), _apart(validation, test), split, source, template)


def _test_pool(task: str, limit: int, split: str | None) -> tuple[str, list[Problem]]:
    if split is not None:
        return split, load_problems(task, split, limit)
    try:
        return "test", load_problems(task, "test", limit)
    except ValueError:
        if not Path(task.partition("?")[0]).is_file():
            raise
        return "train", load_problems(task, "train", limit)  # a file without splits is all of them


def _validation_pool(task: str, limit: int) -> list[Problem]:
    if limit == 0 or "validation" not in find_task(task).sizes:
        return []
    try:
        return load_problems(task, "validation", limit)
    except ValueError:  # a file without that split
        return []


def _apart(validation: Sequence[Problem], test: Sequence[Problem]) -> tuple[Problem, ...]:
    """Validation problems that are no test problems, under ids that are not those of one."""
    asked, taken = {p.question for p in test}, {p.id for p in test}
    return tuple(
        replace(p, id=f"validation:{p.id}") if p.id in taken else p
        for p in validation
        if p.question not in asked
    )


def problem_hash(problem: Problem) -> str:
    """A digest of what is asked and what counts as right."""
    parts = {k: v for k, v in asdict(problem).items() if k in ("question", "answer", "tests")}
    text = json.dumps([parts, problem.verifier], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
