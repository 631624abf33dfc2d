"""Is the difference between two results of benchmarks/pairs.py significant? Paired by problem.

    python benchmarks/compare.py runs/a/results.json runs/b/results.json
    python benchmarks/compare.py r.json r.json --first "cascade A>B" --second "solo A"

Prints first minus second in percentage points with a 95% interval, the p-value of the paired
permutation test, and the same adjusted for all lines shown (Holm).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from learners.benchmark.compare import Compared, compare
from learners.benchmark.results import plain
from learners.benchmark.tables import percent, table


@dataclass(frozen=True)
class Args:
    """What to compare."""

    a: Annotated[Path, tyro.conf.Positional]
    """A results.json."""
    b: Annotated[Path, tyro.conf.Positional]
    """Another one, or the same."""
    first: str | None = None
    """Method of the first file; default: every method that both files have."""
    second: str | None = None
    """Method of the second file; default: as in the first."""


def line(found: Compared) -> list[str]:
    """One comparison as cells of a table."""
    name = found.first if found.first == found.second else f"{found.first} - {found.second}"
    return [
        name,
        percent(plain(found.found.difference)),
        f"{found.found.p:.3g}",
        f"{found.p_adjusted:.3g}",
        f"{found.found.only_first}:{found.found.only_second}",
        found.verdict,
    ]


def main(args: Args) -> None:
    """Compare and print."""
    pairs = None
    if args.first or args.second:
        first = args.first or args.second or ""
        pairs = [(first, args.second or first)]
    try:
        found = compare(json.loads(args.a.read_text()), json.loads(args.b.read_text()), pairs)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    header = ["method", "first - second", "p", "p (Holm)", "only first : only second", "verdict"]
    console = Console()
    console.print(f"{found[0].problems} common problems, {found[0].left_out} left out\n")
    for text in table(header, [line(entry) for entry in found]):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(tyro.cli(Args))
