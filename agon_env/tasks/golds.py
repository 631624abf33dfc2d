"""Problems -> those whose gold answer verifies against itself, the others counted by reason.

A gold that the verifier cannot read, or that does not equal itself, would pay nobody or anybody.
Each gold is checked once per machine in the worker pool (a broken gold may hang) and remembered
under `$HF_HOME/agon/golds`; the memory belongs to one version of the math verifier.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from agon_env.tasks.hub import home
from agon_env.types import Problem, Verdict
from agon_env.verifiers import default_pool, register

CHUNK = 512
"""Golds checked at a time; with a limit, no more chunks are checked than needed."""
BAD_GOLD = "gold does not verify against itself"
SLOW_GOLD = "gold takes too long to check"


def judge_gold(problem: Problem, text: str) -> Verdict:
    """Judge of the registry: whether the gold `problem.answer` can be used. `text` is ignored."""
    from agon_env.verifiers.math import gold_problem

    why = gold_problem(problem.answer)
    return Verdict(why is None, "match" if why is None else "mismatch", answer=why)


register("gold", "agon_env.tasks.golds:judge_gold", where="worker")


@lru_cache(maxsize=1)
def verifier_version() -> str:
    """A digest of the math verifier's source and of math-verify's version."""
    import agon_env.verifiers.math as package

    digest = hashlib.sha256(importlib.metadata.version("math-verify").encode())
    for path in sorted(Path(str(package.__file__)).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def usable(problems: Sequence[Problem], limit: int | None) -> tuple[list[Problem], Counter[str]]:
    """The first `limit` problems whose golds are sound, and the reasons of those passed over.

    Problems of other verifiers than "math" pass unchecked. An unscored check (our fault) passes.
    """
    good: list[Problem] = []
    rejected: Counter[str] = Counter()
    for start in range(0, len(problems), CHUNK):
        if limit is not None and len(good) >= limit:
            break
        wanted = CHUNK if limit is None else min(CHUNK, max(limit - len(good), 16))
        for first in range(start, min(start + CHUNK, len(problems)), wanted):
            if limit is not None and len(good) >= limit:
                break
            part = problems[first : min(first + wanted, start + CHUNK)]
            faults = _faults(p.answer for p in part if p.verifier == "math")
            for problem in part:
                fault = faults.get(problem.answer) if problem.verifier == "math" else None
                if fault:
                    rejected[fault] += 1
                else:
                    good.append(problem)
    return good[:limit], rejected


def _faults(golds: Iterable[str]) -> dict[str, str]:
    """Gold -> why it cannot be used; "" when it can."""
    known = _remembered()
    unknown = [gold for gold in dict.fromkeys(golds) if gold not in known]
    if unknown:
        pairs = [(Problem("gold", "gold", gold, verifier="gold"), "") for gold in unknown]
        fresh: dict[str, str] = {}
        for gold, verdict in zip(unknown, default_pool().verify_many(pairs), strict=True):
            if verdict.correct is not None:
                slow = verdict.reason in ("timeout", "error")
                fault = SLOW_GOLD if slow else BAD_GOLD
                fresh[gold] = "" if verdict.correct else fault
        _remember(fresh)
        known = {**known, **fresh}
    return known


def _memory() -> Path:
    return home() / "agon" / "golds" / f"{verifier_version()}.jsonl"


def _remembered() -> dict[str, str]:
    path = _memory()
    if not path.exists():
        return {}
    return _parsed(str(path), path.stat().st_size)


@lru_cache(maxsize=2)
def _parsed(path: str, size: int) -> dict[str, str]:
    """Complete lines of the memory; a line cut by a kill or mixed by two writers is passed over."""
    known: dict[str, str] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            gold, fault = json.loads(line)
        except ValueError:
            continue
        known[gold] = fault
    return known


def _remember(fresh: dict[str, str]) -> None:
    """Append, in one write, so that processes that load at the same time do not mix lines."""
    path = _memory()
    text = "".join(json.dumps(pair) + "\n" for pair in fresh.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
    except OSError:  # a read-only home: checked again next time
        return
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode())
