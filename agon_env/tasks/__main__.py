"""`python -m agon_env.tasks [NAME]`: all tasks in a table, or one task with examples.

With NAME the data are loaded (and fetched, the first time): five problems, the difficulties, the
topics and what was rejected. `--ids` prints the ids of a split, to record what a rule has chosen.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agon_env.tasks import families, find_task, load_report, tasks
from agon_env.tasks.registry import SPLITS, Loaded, Task
from agon_env.types import Problem

EXAMPLES = 5
BINS = 10
WIDE = 120
"""Columns of a terminal from which the table also says what a task is."""
BAR = 40
"""Characters of the longest bar."""


def task_table(width: int) -> Table:
    """All registered tasks: verifier, sizes, licence, source, whether they are on this machine."""
    table = Table(
        title="Tasks of agon_env",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        caption=escape("also: " + "; ".join(families())),
    )
    table.add_column("name", no_wrap=True)
    table.add_column("train/val/test", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("verifier", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    for column in ("source", "what")[: 1 if width < WIDE else 2]:
        table.add_column(column, overflow="fold")
    for task in tasks():
        sizes = "/".join(_size(task, split) for split in SPLITS)
        here = "[green]yes[/]" if task.offline() else "[yellow]fetch[/]"
        facts = [task.verifier, task.licence, task.source, task.description]
        cells = [task.name, sizes, here, *map(escape, facts)]
        table.add_row(*cells[: len(table.columns)])
    return table


def _size(task: Task, split: str) -> str:
    if split not in task.sizes:
        return "-"
    size = task.sizes[split]
    return "all" if size is None else str(size)


def histogram(values: Sequence[float]) -> Table:
    """Difficulties in at most `BINS` bins, as bars with counts."""
    table = Table(title="difficulty", show_header=False, box=None)
    low, high = min(values), max(values)
    width = (high - low) / BINS or 1.0
    bins = Counter(min(int((value - low) / width), BINS - 1) for value in values)
    for index in range(BINS if high > low else 1):
        count = bins[index]
        bar = "█" * round(BAR * count / max(bins.values()))
        label = f"{low + index * width:g}" if high > low else f"{low:g}"
        table.add_row(label, bar, str(count))
    return table


def shown(problem: Problem) -> Panel:
    """A problem in a frame; long texts are cut."""
    tests = len(problem.tests.cases) if problem.tests else 0
    gold = f"{tests} tests" if tests else f"answer: {problem.answer[:200]}"
    body = Text(problem.question[:1200] + ("..." if len(problem.question) > 1200 else ""))
    return Panel(body, title=escape(problem.id), subtitle=escape(gold))


def show_task(console: Console, name: str, split: str, loaded: Loaded) -> None:
    """Print examples, difficulties, topics and rejections."""
    task = find_task(name)
    facts = f"verifier {task.verifier}, {task.source}, licence {task.licence}"
    console.print(
        f"[bold]{escape(name)}[/] {split}: {len(loaded.problems)} problems, {escape(facts)}"
    )
    for problem in loaded.problems[:EXAMPLES]:
        console.print(shown(problem))
    difficulties = [p.difficulty for p in loaded.problems if p.difficulty is not None]
    if difficulties:
        console.print(histogram(difficulties))
    topics = Counter(p.topic for p in loaded.problems if p.topic)
    for title, counts in (("topics", topics), ("rejected rows", loaded.rejected)):
        if counts:
            table = Table(title=title, show_header=False, box=None)
            for label, count in counts.most_common(15):
                table.add_row(escape(label), str(count))
            console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m agon_env.tasks", description=__doc__)
    parser.add_argument("name", nargs="?", help="a task, a file, or hf:org/name?...")
    parser.add_argument("--split", default=None, help="default: the task's first split")
    parser.add_argument("--limit", type=int, default=None, help="load at most so many")
    parser.add_argument("--ids", action="store_true", help="print only the ids of the split")
    options = parser.parse_args(arguments)
    console = Console()
    if options.name is None:
        console.print(task_table(console.width))
        return 0
    try:
        split = options.split or next(iter(find_task(options.name).sizes))
        loaded = load_report(options.name, split, options.limit)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.ids:
        print("\n".join(problem.id for problem in loaded.problems))
    else:
        show_task(console, options.name, split, loaded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
