"""One worker process as the pool sees it: non-blocking pipes, what it runs and until when.

Holds no policy: the pool decides what a death or a late answer means. Never waits for the worker,
so that a process that hangs, floods or ignores its pipe costs the pool nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agon_env.types import Verdict
from agon_env.verifiers.jail.wire import GarbageError, pack, unpack

LOAD_LIMIT_S = 60.0
"""Time for a worker to start and import a judge, before the clock of a verdict begins, seconds."""
_BOOT = Path(__file__).with_name("boot.py")


@dataclass(eq=False)
class Job:
    """A reply on its way to a verdict."""

    path: str
    """Import path of the judge."""
    payload: bytes
    """The pickled (problem, reply)."""
    limit_s: float
    """Running time that is left, seconds."""
    future: Future[Verdict] = field(default_factory=Future)
    deaths: int = 0
    """Workers that died while they ran it."""


class WorkerProcess:
    """A child that judges one job at a time."""

    def __init__(self, memory_mb: int) -> None:
        arguments = [
            json.dumps([os.fspath(path) for path in sys.path]),
            str(os.getpid()),
            str(memory_mb),
        ]
        # -P: the script's folder holds modules named like standard ones
        self._process = subprocess.Popen(
            [sys.executable, "-P", _BOOT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent; killpg reaches all of the child
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self.inbox, self.outbox = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self.inbox, False)
        os.set_blocking(self.outbox, False)
        self.job: Job | None = None
        self.served = 0
        self._unsent = bytearray()
        self._received = bytearray()
        self._loaded: set[str] = set()
        self._path = ""
        self._clock = 0.0

    def assign(self, job: Job) -> None:
        """Give the idle worker a job and start its clock."""
        self.job, self._path = job, job.path
        self.served += 1
        self._clock = time.monotonic()
        self._unsent += pack(pickle.dumps((self.served, job.path, job.payload)))
        self.push()

    def push(self) -> None:
        """Write what the pipe takes now."""
        while self._unsent:
            try:
                sent = os.write(self.inbox, self._unsent)
            except BlockingIOError:
                return
            except BrokenPipeError:  # dead: the end of its outbox will say so
                self._unsent.clear()
                return
            del self._unsent[:sent]

    @property
    def unsent(self) -> bool:
        """Whether bytes wait for room in the pipe."""
        return bool(self._unsent)

    @property
    def loading(self) -> bool:
        """Whether the worker is still starting or importing the judge of its job."""
        return self.job is not None and self._path not in self._loaded

    @property
    def ran_s(self) -> float:
        """Seconds since the job (or the import of its judge) began."""
        return time.monotonic() - self._clock

    @property
    def deadline(self) -> float:
        """When the present phase must be over (`time.monotonic`); never for an idle worker."""
        if self.job is None:
            return float("inf")
        return self._clock + (LOAD_LIMIT_S if self.loading else self.job.limit_s)

    def pull(self) -> dict[str, Any] | None:
        """Read what has arrived: the answer to the job, or None when it is not there yet.

        Raises:
            EOFError: The worker is gone.
            GarbageError: It sent something that is no answer to its job.
        """
        try:
            data = os.read(self.outbox, 1 << 16)
        except BlockingIOError:
            return None
        if not data:
            raise EOFError(f"worker {self.pid} is gone")
        self._received += data
        answer = None
        for body in unpack(self._received):
            message = _decode(body)
            if self.loading and message == {"loaded": self._path}:
                self._loaded.add(self._path)
                self._clock = time.monotonic()
            elif self.job is not None and answer is None and message.get("job") == self.served:
                answer = message
            else:
                raise GarbageError(f"worker {self.pid} answered a question that nobody asked")
        return answer

    def kill(self) -> None:
        """Kill the worker's whole process group and close its pipes; does not wait."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
        self.close_pipes()

    def close_pipes(self) -> None:
        """Close this side's ends; an idle worker leaves by itself when its stdin ends."""
        for pipe in self._pipes:
            pipe.close()

    def reaped(self) -> bool:
        """Whether the process has ended and left no zombie; does not wait."""
        return self._process.poll() is not None


def _decode(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise GarbageError(f"a worker must answer in JSON, got {body[:40]!r}") from error
    if not isinstance(message, dict):
        raise GarbageError(f"a worker must answer with an object, got {body[:40]!r}")
    return message
