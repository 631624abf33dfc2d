"""The process that judges: frames with (problem, reply) on stdin -> frames with verdicts.

Started by `process.py`, one per pool worker, from a fresh interpreter: no torch, nothing of the
user's main script. It trusts its parent (pickle in) and is not trusted by it (JSON out). Hangs and
deaths are the parent's business; this side only turns exceptions into answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from agon_env.types import Problem, Verdict
from agon_env.verifiers.jail.wire import pack, read_frame, write_all
from agon_env.verifiers.registry import Judge, load_judge

PR_SET_PDEATHSIG = 1


def main(parent: int, memory_mb: int) -> None:
    """Serve until stdin ends. `memory_mb` bounds this process's address space (soft limit)."""
    _die_with(parent)
    inbox, outbox = os.dup(0), os.dup(1)
    _detach_standard_streams()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_mb << 20 if hard == resource.RLIM_INFINITY else min(memory_mb << 20, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    judges: dict[str, Judge] = {}

    def reply(message: Mapping[str, Any]) -> None:
        write_all(outbox, pack(json.dumps(message).encode()))

    while (frame := read_frame(inbox)) is not None:
        job, path, payload = pickle.loads(frame)
        try:
            if path not in judges:
                judges[path] = load_judge(path)
                reply({"loaded": path})
            problem, text = pickle.loads(payload)
        except Exception:  # whatever a foreign module raises while it is imported
            reply({"job": job, "failed": traceback.format_exc()})
            continue
        reply({"job": job, **_judge(judges[path], problem, text)})


def _judge(judge: Judge, problem: Problem, text: str) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        verdict = judge(problem, text)
    except BaseException as error:  # math-verify's timeout is a BaseException
        healthy = isinstance(error, Exception) and not isinstance(error, MemoryError)
        trace = traceback.format_exc(limit=-4)
        verdict = Verdict(False, "error", seconds=time.perf_counter() - start)
        return {**_fields(verdict), "raised": trace, "retire": not healthy}
    if not isinstance(verdict, Verdict):
        return {"failed": f"the judge must return a Verdict, got {type(verdict).__name__}"}
    return {**_fields(verdict), "seconds": time.perf_counter() - start}


def _fields(verdict: Verdict) -> dict[str, Any]:
    names = ("correct", "reason", "answer", "seconds", "score")
    return {name: getattr(verdict, name) for name in names}


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies, even in the middle of a verdict."""
    with contextlib.suppress(AttributeError, OSError):  # not Linux: the end of stdin must do
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def _detach_standard_streams() -> None:
    """Nothing that a judge prints or reads may touch the pipes to the parent."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
