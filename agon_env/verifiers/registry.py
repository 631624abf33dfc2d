"""Verifier name -> how replies of that kind are judged: by which function, where, for how long.

A `Problem` names its verifier; the pool looks the name up here. Judges that may hang, crash or eat
memory run in a worker process ("worker", "sandbox") and are therefore named by import path;
"inline" is for judges that are pure and bounded, such as a string comparison.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agon_env.types import Problem, Verdict

Judge: TypeAlias = Callable[[Problem, str], Verdict]
"""(problem, whole reply) -> verdict. Any string is a legal reply."""
Where = Literal["worker", "inline", "sandbox"]


@dataclass(frozen=True)
class Verifier:
    """One kind of judging."""

    name: str
    """What `Problem.verifier` says."""
    judge: Judge | str
    """The function; for "worker" and "sandbox" its import path, "module:function"."""
    where: Where
    """"inline": in the caller. "worker": in a pool process. "sandbox": there, and it runs code."""
    limit_s: float = 5.0
    """Running time of one verdict, seconds; the worker is killed at the end of it."""


_VERIFIERS: dict[str, Verifier] = {}


def register(
    name: str, judge: Judge | str, *, where: Where = "worker", limit_s: float = 5.0
) -> Verifier:
    """Make `Problem(verifier=name)` known. Registering a name again replaces it.

    Args:
        name: What `Problem.verifier` says.
        judge: A module-level function (problem, reply) -> Verdict, or its path "module:function".
        where: "worker" (own process, hard kill), "inline" (in the caller, for judges that cannot
            hang) or "sandbox" (as "worker", and refused where no isolation is available).
        limit_s: Running time of one verdict, seconds. Time in the queue does not count.

    Raises:
        ValueError: `where` is unknown, `limit_s` is no positive number, or a worker could not
            import the judge (a lambda, a nested function, a function of `__main__`).
    """
    if where not in ("worker", "inline", "sandbox"):
        raise ValueError(f"where must be 'worker', 'inline' or 'sandbox', got {where!r}")
    check_limit(limit_s)
    if where != "inline" and not isinstance(judge, str):
        judge = _import_path(judge)
    entry = Verifier(name, judge, where, limit_s)
    _VERIFIERS[name] = entry
    return entry


def check_limit(limit_s: float) -> None:
    """ValueError unless it is a positive, finite number of seconds."""
    if not (isinstance(limit_s, int | float) and math.isfinite(limit_s) and limit_s > 0):
        raise ValueError(f"limit_s must be a positive number of seconds, got {limit_s!r}")


def check_gold(problem: Problem, *, where: str = "") -> None:
    """ValueError with the problem's id when a built-in verifier has nothing to judge by."""
    if problem.verifier == "code" and not (problem.tests and problem.tests.cases):
        raise ValueError(
            f"{where}problem {problem.id!r}: the verifier 'code' needs tests, got none"
        )
    if problem.verifier == "math" and not problem.answer.strip():
        raise ValueError(
            f"{where}problem {problem.id!r}: the verifier 'math' needs a gold answer, got none"
        )


def verifiers() -> dict[str, Verifier]:
    """All registered verifiers by name (a copy)."""
    return dict(_VERIFIERS)


def find_verifier(name: str) -> Verifier:
    """The verifier of that name; ValueError with the close matches when there is none."""
    entry = _VERIFIERS.get(name)
    if entry is None:
        close = difflib.get_close_matches(name, _VERIFIERS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(
            f"unknown verifier {name!r}{hint}; choose one of {sorted(_VERIFIERS)} "
            "or add it with agon_env.verifiers.register"
        )
    return entry


def load_judge(judge: Judge | str) -> Judge:
    """The function behind "module:function"; a function is returned as it is.

    The module's `warm_up()`, if it has one, is called: what a first call would pay for (grammars,
    a probe of the system) belongs there, where no verdict's clock runs.
    """
    return _imported(judge) if isinstance(judge, str) else judge


@functools.cache
def _imported(path: str) -> Judge:
    module_name, _, function = path.partition(":")
    module = importlib.import_module(module_name)
    getattr(module, "warm_up", lambda: None)()
    return getattr(module, function)


def _import_path(judge: Judge) -> str:
    module = getattr(judge, "__module__", None)
    name = getattr(judge, "__qualname__", "")
    if module in (None, "__main__") or not name.isidentifier():
        raise ValueError(
            f"a judge that runs in a worker must be a module-level function of an importable "
            f"module, got {judge!r}; move it into a module or register it with where='inline'"
        )
    return f"{module}:{name}"


register("math", "agon_env.verifiers.math:judge_math")
register("code", "agon_env.verifiers.code:judge_code", where="sandbox", limit_s=60.0)
