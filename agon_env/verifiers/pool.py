"""(Problem, reply) pairs -> verdicts, judged in worker processes that can be killed.

A dispatcher thread feeds the workers one job at a time and enforces the limits: a limit counts the
running time of a verdict, never the time in the queue or the import of the judge. A worker that
hangs, dies or sends garbage is killed and replaced; only the job that it ran is affected. What a
reply causes counts against the reply (`correct=False`, reason "timeout" or "error"); what we cause
(a worker that cannot start, a judge that cannot be imported) is unscored (`correct=None`).

No signals, no `multiprocessing`: works from any thread, in forked and spawned processes, and
inside test runners and training ranks, each of which owns its own pool.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
import weakref
from collections.abc import Iterable
from concurrent.futures import Future

from agon_env.types import Problem, Verdict
from agon_env.verifiers.dispatch import Dispatcher
from agon_env.verifiers.probe import require_isolation
from agon_env.verifiers.process import Job
from agon_env.verifiers.registry import Judge, Verifier, check_limit, find_verifier, load_judge

logger = logging.getLogger("agon_env.verifiers")


class VerifierPool:
    """Worker processes that judge replies.

    Example:
        >>> with VerifierPool(workers=2) as pool:
        ...     future = pool.submit(problem, reply)     # returns at once
        ...     verdicts = pool.verify_many([(problem, reply), (problem, other_reply)])
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        limit_s: float | None = None,
        memory_mb: int = 2048,
        recycle_after: int = 10_000,
    ) -> None:
        """Workers start with the first job that needs them.

        Args:
            workers: Processes that judge at the same time.
            limit_s: Running time of one verdict, seconds; None: what each verifier asks for. Code
                problems keep the limits of their tests.
            memory_mb: Address space of one worker, MiB.
            recycle_after: Verdicts after which a worker is replaced by a fresh one.
        """
        counts = {"workers": workers, "memory_mb": memory_mb, "recycle_after": recycle_after}
        for name, count in counts.items():
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}")
        if limit_s is not None:
            check_limit(limit_s)
        self._size = workers
        self._limit_s = limit_s
        self._memory_mb = memory_mb
        self._recycle_after = recycle_after
        self._closed = False
        self._lock = threading.Lock()
        self._dispatcher: Dispatcher | None = None
        _POOLS.add(self)

    def submit(self, problem: Problem, text: str) -> Future[Verdict]:
        """Queue a reply for judging and return at once.

        Args:
            problem: Names its verifier.
            text: The whole reply; any string.

        Returns:
            A future of the verdict. It never holds an exception that the reply caused.

        Raises:
            TypeError: `problem` is no Problem or `text` no string: a mistake of the caller.
            ValueError: The problem's verifier is unknown.
            RuntimeError: The pool is closed, or the problem needs a sandbox and there is none.
        """
        if self._closed:
            raise RuntimeError("the VerifierPool is closed; open a new one")
        if not isinstance(problem, Problem) or not isinstance(text, str):
            raise TypeError(
                "the verifier judges a Problem and the text of a reply, "
                f"got {type(problem).__name__} and {type(text).__name__}"
            )
        verifier = find_verifier(problem.verifier)
        if verifier.where == "inline":
            return _judge_inline(verifier.judge, problem, text)
        if verifier.where == "sandbox":
            require_isolation()
        job = Job(
            path=str(verifier.judge),
            payload=pickle.dumps((problem, text)),
            limit_s=self._limit_of(verifier, problem),
        )
        self._own_dispatcher().add(job)
        return job.future

    def verify_many(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """Judge a batch; the verdicts come in the order of the pairs.

        The same reply to the same problem object is judged once.
        """
        futures: dict[tuple[int, str], Future[Verdict]] = {}
        keyed = [((id(problem), text), problem, text) for problem, text in pairs]
        try:
            for key, problem, text in keyed:
                if key not in futures:
                    futures[key] = self.submit(problem, text)
            return [futures[key].result() for key, _, _ in keyed]
        except BaseException:
            for future in futures.values():
                future.cancel()
            raise

    def close(self) -> None:
        """Kill the workers and cancel what is not judged yet. Never waits for a hung worker."""
        self._closed = True
        with self._lock:
            if self._dispatcher is not None:
                self._dispatcher.stop()
                self._dispatcher = None

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _limit_of(self, verifier: Verifier, problem: Problem) -> float:
        if verifier.where == "sandbox" and problem.tests is not None:
            return problem.tests.total_time_s + verifier.limit_s  # the sandbox keeps the real limit
        return verifier.limit_s if self._limit_s is None else self._limit_s

    def _own_dispatcher(self) -> Dispatcher:
        with self._lock:
            if self._dispatcher is None:
                self._dispatcher = Dispatcher(self._size, self._memory_mb, self._recycle_after)
                weakref.finalize(self, self._dispatcher.stop)  # also at interpreter exit
            return self._dispatcher

    def _forget_after_fork(self) -> None:
        """A forked child inherits the object, but neither the thread nor the workers."""
        self._lock = threading.Lock()
        if self._dispatcher is not None:
            self._dispatcher.abandon()
            self._dispatcher = None


_POOLS: weakref.WeakSet[VerifierPool] = weakref.WeakSet()


def _forget_workers_of_the_parent() -> None:
    for pool in _POOLS:
        pool._forget_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers_of_the_parent)


def _judge_inline(judge: Judge | str, problem: Problem, text: str) -> Future[Verdict]:
    future: Future[Verdict] = Future()
    start = time.perf_counter()
    judge = load_judge(judge)
    try:
        verdict = judge(problem, text)
    except Exception:  # model text is data: whatever it triggers is a verdict
        logger.warning("the judge %r raised and the reply counts as wrong", judge, exc_info=True)
        verdict = Verdict(False, "error", seconds=time.perf_counter() - start)
    future.set_result(verdict)
    return future


_DEFAULT: list[VerifierPool] = []


def default_pool() -> VerifierPool:
    """The pool of this process that `verify` uses: two workers, started when first needed."""
    if not _DEFAULT:
        _DEFAULT.append(VerifierPool(workers=2))
    return _DEFAULT[0]
