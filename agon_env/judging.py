"""Replies -> verdicts, asked for early and read late.

`Judging` is the one place where an env meets a verifier: the shared worker pool, a pool of the
user's, or a user's function. `submit` returns a future at once, so that drafts are judged while
solvers generate. An exception in a user's function is the user's bug and is raised; model text
never raises in the pool.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agon_env.types import Problem, Verdict
from agon_env.verifiers import VerifierPool, default_pool


@runtime_checkable
class Pool(Protocol):
    """Whatever judges in the background, such as `agon_env.verifiers.VerifierPool`."""

    def submit(self, problem: Problem, text: str) -> Future[Verdict]:
        """Start judging one reply."""
        ...


Verifier: TypeAlias = Pool | Callable[[Problem, str], Verdict | bool | None]


class Judging:
    """Judges the replies of an env with one verifier."""

    def __init__(self, verifier: Verifier | None = None) -> None:
        """Choose the verifier.

        Args:
            verifier: None: by `problem.verifier`, in the shared pool. A pool: that one. A function
                (problem, text) -> Verdict, bool, or None for "unscored": called in this process.
        """
        if not (verifier is None or isinstance(verifier, Pool) or callable(verifier)):
            raise TypeError(
                "verifier must be None, a VerifierPool or a function (problem, text) -> Verdict | "
                f"bool, got {type(verifier).__name__}"
            )
        self.verifier = verifier

    def __deepcopy__(self, memo: dict[int, Any]) -> Judging:
        # Immutable, and the workers behind it serve every copy.
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Workers stay in their process. In another one the shared pool gives the same verdicts.
        return {"verifier": None if isinstance(self.verifier, VerifierPool) else self.verifier}

    def submit(self, problem: Problem, text: str) -> Future[Verdict]:
        """Start judging a reply; the future holds its verdict."""
        if self.verifier is None:
            return default_pool().submit(problem, text)
        if isinstance(self.verifier, Pool):
            return self.verifier.submit(problem, text)
        future: Future[Verdict] = Future()
        future.set_result(_as_verdict(self.verifier(problem, text), self.verifier))
        return future


def _as_verdict(result: Verdict | bool | None, verifier: object) -> Verdict:
    if isinstance(result, Verdict):
        return result
    if result is None:
        return Verdict(None, "unscorable")
    if isinstance(result, bool):
        return Verdict(result, "match" if result else "mismatch")
    raise TypeError(
        f"a verifier must return a Verdict, a bool or None, got {type(result).__name__} "
        f"from {verifier!r}"
    )
