"""Metrics of a run -> what a person sees while it trains. Nothing here changes the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from transformers.utils import logging as transformers_logging

from agon_env.types import AGENTS, AgentID
from learners.evaluate import Evaluation, Stage

_COLUMNS = (
    ("step", "step", "{:.0f}"),
    ("drafts right", "drafter/solve_rate", "{:.3f}"),
    ("solutions right", "solver/solve_rate", "{:.3f}"),
    ("conversion", "solver/conversion", "{:.3f}"),
    ("well-formed", "well_formed", "{:.2f}"),
    ("tokens", "tokens_per_reply", "{:.0f}"),
    ("entropy 0/1", ("agent_0/entropy", "agent_1/entropy"), "{:.2f}"),
    ("grad norm 0/1", ("agent_0/grad_norm", "agent_1/grad_norm"), "{:.2f}"),
    ("s/step", "seconds/step", "{:.2f}"),
)
_ROWS = 8


class Monitor:
    """A progress bar and a live table on a terminal; one line per report elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._recent: deque[Mapping[str, float]] = deque(maxlen=_ROWS)
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Monitor:
        transformers_logging.disable_progress_bar()  # the live display owns the terminal
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        transformers_logging.enable_progress_bar()
        if self.console.is_terminal:
            self._live.stop()

    def stage(self, name: str, total: int) -> Callable[[int, int], None]:
        """Start a progress bar; call the result with (done, total)."""
        for task in self._progress.tasks:
            self._progress.remove_task(task.id)
        task_id = self._progress.add_task(name, total=total)
        if not self.console.is_terminal:
            self.console.print(f"{name} ({total})")

        def advance(done: int, total: int) -> None:
            self._progress.update(task_id, completed=done, total=total)
            self._refresh()

        return advance

    def step(self, metrics: Mapping[str, float]) -> None:
        """Show the metrics of one training step."""
        self._recent.append(metrics)
        if self.console.is_terminal:
            self._refresh()
        else:
            cells = (f"{name} {_cell(metrics, key, form)}" for name, key, form in _COLUMNS)
            self.console.print("  ".join(cells), highlight=False, soft_wrap=True)

    def evaluation(self, step: int, split: str, evaluation: Evaluation) -> None:
        """Show one line per evaluation; stays on the screen."""
        alone = "  ".join(f"{a} {s.correct}" for a, s in evaluation.alone.items())
        both = "  ".join(
            f"{c.drafter}>{c.solver} {c.solution.correct}" for c in evaluation.cascades
        )
        self.console.print(
            f"step {step} {split} pass@1 %: {alone}  {both}", highlight=False, soft_wrap=True
        )

    def note(self, text: str) -> None:
        """Show one line; stays on the screen."""
        self.console.print(text, highlight=False, soft_wrap=True)

    def _refresh(self) -> None:
        if not self.console.is_terminal:
            return
        table = Table(title="training", title_justify="left")
        for name, _, _ in _COLUMNS:
            table.add_column(name, justify="right")
        for metrics in self._recent:
            table.add_row(*(_cell(metrics, key, form) for _, key, form in _COLUMNS))
        self._live.update(Group(table, self._progress) if self._recent else self._progress)


def _cell(metrics: Mapping[str, float], key: str | tuple[str, ...], form: str) -> str:
    keys = (key,) if isinstance(key, str) else key
    return "/".join(form.format(metrics[k]) if k in metrics else "-" for k in keys)


def evaluation_tables(before: Evaluation, after: Evaluation, drafter: AgentID, task: str) -> Group:
    """The tables of a finished run, 80 columns wide.

    Args:
        before: The untrained pair on the test problems.
        after: The trained pair on the same problems.
        drafter: Who drafts in the direction that validation chose; marked by a star.
        task: For the title.
    """
    unscored = sum(stage.unscored for stage in after.alone.values())
    cut = max(stage.unfinished.value for stage in after.alone.values())
    notes = (
        "* direction chosen on validation problems. form: well-formed replies. tokens: sampled per "
        "problem, all stages. conversion: P(right | draft wrong), corruption: P(wrong | draft "
        "right). "
        f"cut by the length limit: at most {100 * cut:.1f}%. unscored replies: {unscored}."
    )
    title = f"{task}: pass@1 on {after.problems} held-out problems, % [95% interval]"
    return Group(
        _accuracy_table(title, before, after, drafter), _reading_table(before, after), notes
    )


def _accuracy_table(title: str, before: Evaluation, after: Evaluation, drafter: AgentID) -> Table:
    """Pass@1 of each model alone and of both cascades."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    table.add_column("drafts > solves", no_wrap=True)
    for name in ("untrained", "trained", "form", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for agent in AGENTS:
        stages = (before.alone[agent], after.alone[agent])
        table.add_row(f"{agent} alone", *_accuracy_cells(stages, after.alone[agent].tokens))
    for old, new in zip(before.cascades, after.cascades, strict=True):
        chosen = new.drafter == drafter
        name = f"{new.drafter} > {new.solver}{' *' if chosen else ''}"
        cells = _accuracy_cells((old.solution, new.solution), new.tokens)
        table.add_row(name, *cells, style="bold" if chosen else None)
    return table


def _accuracy_cells(stages: tuple[Stage, Stage], tokens: float) -> tuple[str, ...]:
    old, new = stages
    form = f"{100 * new.well_formed.value:.0f}%"
    return str(old.correct), str(new.correct), form, f"{tokens:.0f}"


def _reading_table(before: Evaluation, after: Evaluation) -> Table:
    """What the solver makes of its draft."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("drafts > solves", no_wrap=True)
    for name in ("pair", "conversion", "corruption"):
        table.add_column(name, justify="left" if name == "pair" else "right", no_wrap=True)
    for name, evaluation in (("untrained", before), ("trained", after)):
        for c in evaluation.cascades:
            rates = (str(c.conversion), str(c.corruption))
            table.add_row(f"{c.drafter} > {c.solver}", name, *rates)
    return table
