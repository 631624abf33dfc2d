"""One submission and the inputs of its tests -> what each run printed, from inside a sandbox.

A sandbox is one process tree that lives for one submission: started, fed over a pipe, killed. Its
first process, whose interpreter has started and imported once, runs each test in a forked child,
for about an eighth of the time of a new sandbox. After a test that leaves files behind the next
one gets a new sandbox. Expected outputs stay out here.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

from agon_env.verifiers.jail.wire import GarbageError, pack, unpack
from agon_env.verifiers.walls import Isolation

START_LIMIT_S = 30.0
COMPILE_LIMIT_S = 10.0
GRACE_S = 3.0
"""How much longer than a program's own limit its sandbox may take to answer, seconds."""
PROCESSES = 64
INTERPRETER_MB = 64
"""Address space of the interpreter itself, which does not count as the submission's, MiB."""
OUT_OF_MEMORY, NOT_PLAIN = 86, 87
"""Exit codes of `jail/program.py`."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""All that a submission finds in its environment; nothing is inherited."""

End = Literal["finished", "crashed", "time", "memory", "output", "not_plain"]


class SandboxError(RuntimeError):
    """The sandbox itself failed before the submission ran: our fault, not the submission's."""


@dataclass(frozen=True)
class Limits:
    """What one program may use."""

    time_s: float = 10.0
    """Wall-clock time of one run, seconds."""
    memory_mb: int = 512
    """Address space of one process, MiB; all of its processes together may fill four times that."""
    output_kb: int = 4096
    """Standard output, KiB."""
    file_mb: int = 16
    """Size of any file, MiB."""


@dataclass(frozen=True)
class Run:
    """How one program ended."""

    end: End
    output: bytes
    """Standard output of a run; the result as JSON of a call."""
    seconds: float


class Sandbox:
    """A submission behind walls. Use it as a context manager: leaving it kills everything."""

    def __init__(self, source: bytes, limits: Limits, way: Isolation) -> None:
        """Start it.

        Raises:
            SandboxError: It does not start.
        """
        self._source, self._limits, self._way = source, limits, way
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self._start()

    def compiles(self) -> bool:
        """Whether the source is Python. Compiled inside: a source can crash the compiler."""
        return self._ask("compile", b"", COMPILE_LIMIT_S).end == "finished"

    def run(self, stdin: bytes, time_s: float | None = None) -> Run:
        """Run the submission as a program."""
        return self._ask("run", stdin, time_s or self._limits.time_s)

    def call(self, fn_name: str, arguments: list[Any], time_s: float | None = None) -> Run:
        """Call a function of the submission, or a method of its class Solution."""
        data = json.dumps(arguments).encode()
        return self._ask("call", data, time_s or self._limits.time_s, fn_name=fn_name)

    def close(self) -> None:
        """Kill every process of the sandbox, wait until they are gone, remove its folder."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        if self._way.way == "none":
            self._folder = _scratch_folder(self._way)
        with _deep_stack():
            self._process = subprocess.Popen(
                self._way.command(self._folder or ""),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        os.set_blocking(self._pipes()[0].fileno(), False)
        self._answers: list[bytes] = []
        self._buffer = bytearray()
        try:
            end = time.monotonic() + START_LIMIT_S
            self._send(pack(self._source), end)
            ready = b"ready" in self._receive(2, end)[0]
        except (EOFError, TimeoutError, GarbageError, OSError) as error:
            self.close()
            raise SandboxError(f"the {self._way.way} sandbox does not start: {error}") from error
        if not ready:
            self.close()
            raise SandboxError(f"the {self._way.way} sandbox does not report ready")

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process is not None, "a sandbox is started before it is asked"
        return pipes_of(self._process)

    def _ask(self, do: str, data: bytes, time_s: float, **more: str) -> Run:
        if self._process is None:
            self._start()
        request = {"do": do, "time_s": time_s, **more, **self._request_limits()}
        start = time.monotonic()
        end = start + time_s + GRACE_S
        try:
            self._send(pack(json.dumps(request).encode()) + pack(data), end)
            header, output = self._receive(2, end)
            answer = json.loads(header)
            run = Run(_end_of(answer), output, float(answer["seconds"]))
            reusable = answer["reusable"]
        except TimeoutError:
            run, reusable = Run("time", b"", time.monotonic() - start), False
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            # the submission has brought down its own sandbox
            run, reusable = Run("crashed", b"", time.monotonic() - start), False
        if not reusable:
            self.close()
        return run

    def _request_limits(self) -> dict[str, int]:
        memory, output = self._limits.memory_mb, self._limits.output_kb << 10
        return {
            "memory_bytes": memory + INTERPRETER_MB << 20,
            "total_mb": memory * 4,
            "output_bytes": output,
            "file_bytes": max(output + 1, self._limits.file_mb << 20),
            "processes": 0 if self._way.way == "none" else PROCESSES,
        }

    def _send(self, data: bytes, end: float) -> None:
        fd = self._pipes()[0].fileno()
        view = memoryview(data)
        while view:
            _wait_for(fd, select.POLLOUT, end)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(fd, view[: 1 << 16]) :]

    def _receive(self, count: int, end: float) -> list[bytes]:
        fd = self._pipes()[1].fileno()
        while len(self._answers) < count:
            _wait_for(fd, select.POLLIN, end)
            data = os.read(fd, 1 << 16)
            if not data:
                raise EOFError("the sandbox is gone")
            self._buffer += data
            self._answers += unpack(self._buffer)
        taken, self._answers = self._answers[:count], self._answers[count:]
        return taken


@contextlib.contextmanager
def _deep_stack() -> Iterator[None]:
    """Let a child start with as much stack as the system allows; contest programs recurse."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def _end_of(answer: dict[str, Any]) -> End:
    """How a program ended, from what its sandbox reports; the most specific reason first."""
    status = answer["status"]
    if answer["timed_out"] or status == -signal.SIGXCPU:
        return "time"
    if answer["overflow"]:
        return "output"
    if answer["overweight"] or status == OUT_OF_MEMORY:
        return "memory"
    if status == NOT_PLAIN:
        return "not_plain"
    return "finished" if status == 0 else "crashed"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the first process, which takes all others with it, and see that they are gone.

    The first process leaves when its stdin ends; one that cannot is killed. The end of its stdout
    says that it is gone, as no submission holds that pipe.
    """
    stdin, stdout = pipes_of(process)
    stdin.close()
    end = time.monotonic() + 0.5
    with contextlib.suppress(TimeoutError):
        while True:
            _wait_for(stdout.fileno(), select.POLLIN, end)
            if not os.read(stdout.fileno(), 1 << 16):
                break
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=max(end - time.monotonic(), 0.01))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also where the leader has gone already
    process.wait()
    stdout.close()


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output of a child that was started with pipes."""
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _wait_for(fd: int, event: int, end: float) -> None:
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(end - time.monotonic(), 0) * 1000):
        raise TimeoutError("the sandbox does not answer")


def _scratch_folder(way: Isolation) -> str:
    folder = tempfile.mkdtemp(prefix="agon-")
    os.chmod(folder, 0o711)
    for name in ("work", "io"):
        os.mkdir(f"{folder}/{name}")
        os.chmod(f"{folder}/{name}", 0o1777)
    return folder
