"""Episodes <-> JSON lines: one finished match per line, whole, so that it can be judged again.

Lines are pure ASCII (any other character escaped), so lone surrogates and NULs survive. A run
that is killed may leave an unfinished last line; it is ignored when read and removed when written
on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import IO, Any

from agon_env.types import CodeTests, Episode, Outcome, Problem, Turn, Verdict


def episode_to_json(episode: Episode, extra: Mapping[str, Any] | None = None) -> str:
    """One line of JSON, without the line break.

    Args:
        episode: A finished match.
        extra: Plain values to store beside it, such as the step; `episode_from_json` ignores them.

    Raises:
        ValueError: A number is not finite.
    """
    line = {"extra": dict(extra)} if extra else {}
    return json.dumps(asdict(episode) | line, allow_nan=False)


def episode_from_json(line: str) -> Episode:
    """The episode of one line; the inverse of `episode_to_json`.

    Raises:
        ValueError: The line holds no episode.
    """
    try:
        raw = json.loads(line)
        return Episode(
            problem=_problem(raw["problem"]),
            turns=tuple(Turn(**turn) for turn in raw["turns"]),
            outcomes=tuple(_outcome(outcome) for outcome in raw["outcomes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not an episode ({type(error).__name__}: {error})") from error


def read_episodes(path: str | PathLike[str]) -> Iterator[Episode]:
    """Episodes of a file of JSON lines, one after the other; an unfinished last line is ignored.

    Raises:
        ValueError: A line holds no episode; names the file and the line.
    """
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith("\n"):
                return
            try:
                yield episode_from_json(line)
            except ValueError as error:
                raise ValueError(f"{os.fspath(path)}:{number}: {error}") from error


class EpisodeWriter:
    """Appends episodes to a file of JSON lines. A context manager; each line is flushed."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open for appending; makes the file, and removes an unfinished last line."""
        self._file: IO[bytes] = open(path, "ab")  # noqa: SIM115 - closed by `close`
        self._drop_unfinished_line(Path(path))

    def write(self, episode: Episode, extra: Mapping[str, Any] | None = None) -> None:
        """Append one episode; see `episode_to_json`."""
        self._file.write(episode_to_json(episode, extra).encode("ascii") + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EpisodeWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drop_unfinished_line(self, path: Path) -> None:
        with open(path, "rb") as file:
            keep = size = file.seek(0, os.SEEK_END)
            while keep > 0:
                start = max(0, keep - 65_536)
                file.seek(start)
                newline = file.read(keep - start).rfind(b"\n")
                keep = start + newline + 1 if newline >= 0 else start
                if newline >= 0:
                    break
        if keep < size:
            self._file.truncate(keep)


def _problem(raw: dict[str, Any]) -> Problem:
    tests = raw.get("tests")
    return Problem(**{**raw, "tests": None if tests is None else CodeTests(**tests)})


def _outcome(raw: dict[str, Any]) -> Outcome:
    verdicts = {name: Verdict(**raw[name]) for name in ("verdict", "rival_verdict")}
    return Outcome(**{**raw, **verdicts})
