"""The thread that feeds the workers: jobs -> settled futures.

Owns the workers and is the only one to touch them; other threads add jobs and ring a bell. It
waits for nothing but its selector, so a worker that hangs, floods or ignores its pipe delays no
other, and what happens to a job is decided in one place: its verdict, a second try, or the blame.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import selectors
import threading
import time
from collections import deque
from concurrent.futures import CancelledError
from typing import Any

from agon_env.types import Verdict
from agon_env.verifiers.jail.wire import GarbageError
from agon_env.verifiers.process import Job, WorkerProcess

logger = logging.getLogger("agon_env.verifiers")

MAX_DEATHS = 2
"""A job is blamed when this many workers died of it: one death may be somebody else's kill."""
STARTS_BEFORE_GIVING_UP = 3
"""Workers in a row that died before they judged anything; then waiting jobs become unscored."""


class Dispatcher:
    """At most `size` workers and the queue before them."""

    def __init__(self, size: int, memory_mb: int, recycle_after: int) -> None:
        self._size, self._memory_mb, self._recycle_after = size, memory_mb, recycle_after
        self._queue: deque[Job] = deque()
        self._workers: list[WorkerProcess] = []
        self._ended: list[WorkerProcess] = []
        self._failed_starts = 0
        self._stopping = False
        self._pid = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._bell_out, self._bell = os.pipe()
        os.set_blocking(self._bell_out, False)
        os.set_blocking(self._bell, False)
        self._selector.register(self._bell_out, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="agon-verifier", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Queue a job; from any thread."""
        self._queue.append(job)
        self._ring()
        if self._stopping:  # stopped by another thread in the meantime
            job.future.cancel()

    def stop(self) -> None:
        """End the thread and its workers; a no-op in a fork of the process that owns them."""
        if self._pid != os.getpid():
            return
        self._stopping = True
        self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    def abandon(self) -> None:
        """In a forked child: close its copies of the parent's pipes and touch nothing else."""
        if self._stopping:
            return  # the parent has closed them
        self._selector.close()
        os.close(self._bell)
        os.close(self._bell_out)
        for worker in self._workers:
            worker.close_pipes()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full: it rings already; closed: the thread has ended
            os.write(self._bell, b"!")

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._hand_out()
                for key, _ in self._selector.select(self._patience()):
                    if key.data is None:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._bell_out, 4096)
                    else:
                        self._attend(key.data)
                self._enforce_limits()
                self._ended = [worker for worker in self._ended if not worker.reaped()]
        finally:
            self._stopping = True
            self._shut_down()

    def _patience(self) -> float | None:
        """Seconds until something must be done without being called; None: never."""
        waits = [worker.deadline - time.monotonic() for worker in self._workers]
        waits += [0.05] * bool(self._ended)
        soonest = min(waits, default=float("inf"))
        return None if soonest == float("inf") else max(soonest, 0.0)

    def _hand_out(self) -> None:
        """Give waiting jobs to idle workers, starting workers as long as there is room."""
        while self._queue:
            worker = next((w for w in self._workers if w.job is None), None)
            if worker is None and len(self._workers) < self._size:
                worker = self._start_worker()
            if worker is None:
                return
            job = self._queue.popleft()
            if job.future.running() or job.future.set_running_or_notify_cancel():
                worker.assign(job)
                self._watch(worker)

    def _start_worker(self) -> WorkerProcess | None:
        if self._failed_starts >= STARTS_BEFORE_GIVING_UP:
            self._give_up("the verifier workers die while they start; see the messages above")
            return None
        try:
            worker = WorkerProcess(self._memory_mb)
        except OSError as error:
            self._give_up(f"no verifier worker can be started: {error}")
            return None
        self._workers.append(worker)
        self._selector.register(worker.outbox, selectors.EVENT_READ, worker)
        return worker

    def _give_up(self, why: str) -> None:
        """Nothing can be judged now: our fault, so the waiting jobs are unscored."""
        logger.error("%s; %d replies stay unscored", why, len(self._queue))
        self._failed_starts = 0  # the next batch may try again
        while self._queue:
            _settle(self._queue.popleft(), Verdict(None, "unscorable"))

    def _watch(self, worker: WorkerProcess) -> None:
        """Be called when the pipe has room, as long as something is unsent."""
        known = worker.inbox in self._selector.get_map()
        if worker.unsent and not known:
            self._selector.register(worker.inbox, selectors.EVENT_WRITE, worker)
        elif known and not worker.unsent:
            self._selector.unregister(worker.inbox)

    def _attend(self, worker: WorkerProcess) -> None:
        if worker not in self._workers:
            return  # dropped by an earlier event of the same round
        worker.push()
        self._watch(worker)
        try:
            answer = worker.pull()
            verdict = None if answer is None else _read_verdict(answer)
        except EOFError:
            self._after_death(worker)
            return
        except GarbageError as error:
            logger.warning("%s; it is replaced", error)
            self._after_death(worker)
            return
        if answer is not None and worker.job is not None:
            job, worker.job = worker.job, None
            self._failed_starts = 0
            if answer.get("retire") or worker.served >= self._recycle_after:
                self._drop(worker)
            _settle(job, verdict or Verdict(None, "unscorable"))

    def _after_death(self, worker: WorkerProcess) -> None:
        """Blame the job that ran, if one did; a first death is tried again on a fresh worker."""
        job, loading, ran_s = worker.job, worker.loading, worker.ran_s
        self._drop(worker)
        if job is None:
            return
        if loading:
            self._failed_starts += 1
            self._queue.appendleft(job)
            return
        job.deaths += 1
        job.limit_s -= ran_s
        if job.deaths < MAX_DEATHS and job.limit_s > 0:
            self._queue.appendleft(job)
        else:
            _settle(job, Verdict(False, "error", seconds=ran_s))

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        for worker in [w for w in self._workers if w.deadline <= now]:
            job, loading, ran_s = worker.job, worker.loading, worker.ran_s
            self._drop(worker)
            if job is not None and loading:
                logger.error("the judge %s did not load in %.0f s", job.path, ran_s)
                _settle(job, Verdict(None, "unscorable"))
            elif job is not None:
                _settle(job, Verdict(False, "timeout", seconds=ran_s))

    def _drop(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        for fd in (worker.outbox, worker.inbox):
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        worker.kill()
        self._ended.append(worker)

    def _shut_down(self) -> None:
        jobs = [worker.job for worker in self._workers if worker.job is not None]
        for worker in list(self._workers):
            self._drop(worker)
        for job in [*jobs, *self._queue]:
            if not job.future.cancel() and not job.future.done():
                job.future.set_exception(CancelledError())
        end = time.monotonic() + 2.0
        while self._ended and time.monotonic() < end:
            self._ended = [worker for worker in self._ended if not worker.reaped()]
            time.sleep(0.002)
        self._selector.close()
        os.close(self._bell)
        os.close(self._bell_out)


def _settle(job: Job, verdict: Verdict) -> None:
    if job.future.running() or job.future.set_running_or_notify_cancel():
        job.future.set_result(verdict)


def _read_verdict(answer: dict[str, Any]) -> Verdict | None:
    """The verdict in a worker's answer; None when the worker says that it could not judge."""
    if "failed" in answer:
        _log_once(f"a judge failed and the reply stays unscored:\n{answer['failed']}")
        return None
    if "raised" in answer:
        _log_once(f"a judge raised and the reply counts as wrong:\n{answer['raised']}")
    try:
        names = ("correct", "reason", "answer", "seconds", "score")
        return Verdict(**{name: answer[name] for name in names})
    except KeyError as error:
        raise GarbageError(f"a worker's answer must hold {error}, got {answer!r}") from error


@functools.lru_cache(maxsize=256)
def _log_once(message: str) -> None:
    """Thousands of replies can meet the same fault; one report of it is enough."""
    logger.error(message)
