"""What was measured so far, in a file beside the results: a stopped run goes on from it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from learners.run_folder import write_atomically
from learners.throughput.records import Measured, Step

Rounds = defaultdict[str, list[Measured]]
"""Contender -> what it measured, a round each."""


class Kept:
    """A JSON file with a line of settings and one for each finished contender of a round."""

    def __init__(self, file: Path, settings: Mapping[str, Any]) -> None:
        """Read the file, if it is there and has the same settings.

        Args:
            file: It need not exist, nor its folder.
            settings: All that makes two measurements comparable.
        """
        self.file = file
        self.found: Rounds = defaultdict(list)
        head = json.dumps(settings)
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

    def drop_last(self, contender: str) -> None:
        """Measure it anew, with the others kept."""
        del self.found[contender][-1]
        head = self.file.read_text().splitlines(keepends=True)[0]
        kept = [json.dumps(asdict(one)) for found in self.found.values() for one in found]
        write_atomically(self.file, head + "".join(line + "\n" for line in kept))

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
