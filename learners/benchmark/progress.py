"""A bar while a benchmark runs: how many replies, how long still, how many right so far."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType

import rich.progress
from rich.console import Console

from agon_env.types import Verdict
from learners.benchmark.jobs import Job


class Bar:
    """Counts replies; its `update` is a runner's `progress`."""

    def __init__(self, total: int, console: Console, *, hidden: bool = False) -> None:
        """Make the bar.

        Args:
            total: Replies in all.
            console: Where it is drawn.
            hidden: Count without drawing, where a person types in the same terminal.
        """
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TextColumn("left"),
            rich.progress.TimeRemainingColumn(elapsed_when_finished=False),
            rich.progress.TextColumn("{task.fields[right]}"),
            console=console,
            disable=hidden,
        )
        self._task = self._bar.add_task("replies", total=total, right="")
        self._open: list[tuple[str, Future[Verdict]]] = []
        self._counts: dict[str, list[int]] = {}
        self.new = 0
        """Replies that were generated now."""

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(self, job: Job, verdict: Future[Verdict], new: bool) -> None:
        """Count one reply."""
        self.new += new
        if job.stage != "judge":
            self._open.append((job.stage, verdict))
        self._count()
        self._bar.update(self._task, advance=1, description=job.stage, right=self.running)

    @property
    def running(self) -> str:
        """Share right of each stage so far."""
        shares = (f"{stage} {100 * k / n:.0f}%" for stage, (k, n) in self._counts.items() if n)
        return "right: " + ", ".join(shares)

    def _count(self) -> None:
        waiting = []
        for stage, verdict in self._open:
            if not verdict.done():
                waiting.append((stage, verdict))
            elif (correct := verdict.result().correct) is not None:
                counts = self._counts.setdefault(stage, [0, 0])
                counts[0] += correct
                counts[1] += 1
        self._open = waiting
