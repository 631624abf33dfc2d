"""What was measured so far, in a file beside the results: a stopped run goes on from it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from learners.throughput.records import Measured, Step, Work

Rounds = defaultdict[str, list[Measured]]
"""Contender -> what it measured, a round each."""


class Kept:
    """A JSON file with a line for the work and one for each finished contender of a round."""

    def __init__(self, file: Path, model: str, work: Work) -> None:
        """Read the file, if it is there and is about the same work.

        Args:
            file: It need not exist, nor its folder.
            model: Name of the model; the folder that `work` names is another in every run.
            work: What is measured.
        """
        self.file = file
        self.found: Rounds = defaultdict(list)
        head = json.dumps(asdict(work) | {"model": model})
        lines = _whole_lines(file)
        if not lines or lines[0] != head:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(head + "\n")
            return
        for line in lines[1:]:
            measured = _measured(line)
            self.found[measured.contender].append(measured)

    def add(self, measured: Measured) -> None:
        """Keep one more."""
        self.found[measured.contender].append(measured)
        with self.file.open("a") as file:
            file.write(json.dumps(asdict(measured)) + "\n")

    def forget(self) -> None:
        """Remove the file: the results are written."""
        self.file.unlink(missing_ok=True)


def _whole_lines(file: Path) -> list[str]:
    """Without a last one that a kill has cut, which is dropped from the file, too."""
    if not file.exists():
        return []
    text = file.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole)
    return whole.splitlines()


def _measured(line: str) -> Measured:
    fields = json.loads(line)
    fields["steps"] = tuple(Step(**step) for step in fields["steps"])
    return Measured(**fields)
