"""Replies -> verdicts: the only teacher of the game.

`verify(problem, reply)` judges one reply, `VerifierPool` many at once. Judging happens in worker
processes with a hard limit, so no reply can raise, hang or crash the caller. `register` adds a
verifier of one's own. `isolation()` says how programs in replies are kept apart from the system.
"""

from __future__ import annotations

from agon_env.types import Problem, Verdict
from agon_env.verifiers.pool import VerifierPool, default_pool
from agon_env.verifiers.probe import isolation, require_isolation
from agon_env.verifiers.registry import Judge, Verifier, find_verifier, register, verifiers

__all__ = [
    "Judge",
    "Verifier",
    "VerifierPool",
    "default_pool",
    "find_verifier",
    "isolation",
    "register",
    "require_isolation",
    "verifiers",
    "verify",
]


def verify(problem: Problem, text: str) -> Verdict:
    """Judge one reply in the process-wide default pool and wait for the verdict.

    Args:
        problem: The problem; `problem.verifier` names the judge.
        text: The whole reply of the model; any string.

    Returns:
        The verdict. `correct` is None when the reply could not be judged through our fault.
    """
    return default_pool().submit(problem, text).result()
