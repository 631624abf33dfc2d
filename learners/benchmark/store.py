"""Every reply of a benchmark in one JSONL file, appended and flushed as it comes.

A line is found again by (agent, task, problem id, stage, draft key, seed) and by a digest of what
exactly was asked: the messages, the decoding and the random stream. So a killed benchmark goes on
where it stopped, a changed prompt is asked anew, and nothing is paid for twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from learners.agents import Decoding, Reply, Request

FIELDS = ("agent", "task", "problem", "stage", "draft", "seed")
"""Names of a key's parts in a line."""

Key = tuple[str, ...]


def digest(request: Request, decoding: Decoding) -> str:
    """What exactly was asked, in short."""
    asked = [[dict(m) for m in request.messages], request.seed, asdict(decoding)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:24]


class Store:
    """The replies in a file; open it with `with`, alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[tuple[Key, str], Reply] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Store:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open(self.path, "a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise BlockingIOError(
                f"another benchmark is writing {self.path}; wait for it or choose another --out"
            ) from error
        self._file = file
        self._found = _read(file, self.path)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Key, asked: str) -> Reply | None:
        """The stored reply to exactly this; None when it was never asked."""
        return self._found.get((key, asked))

    def add(self, key: Key, asked: str, reply: Reply) -> None:
        """Write a reply; it is in the file when this returns."""
        if self._file is None:
            raise RuntimeError("the store is closed; use it inside `with`")
        line = {**dict(zip(FIELDS, key, strict=True)), "asked": asked, **asdict(reply)}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._found[key, asked] = reply


def peek(path: Path) -> list[Mapping[str, Any]]:
    """The lines of a store that may be in use, without touching it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _read(file: IO[str], path: Path) -> dict[tuple[Key, str], Reply]:
    """Read all complete lines; a last one that a kill cut off is removed from the file.

    Raises:
        ValueError: A line in the middle is damaged.
    """
    file.seek(0)
    text = file.read()
    whole = text[: text.rfind("\n") + 1]
    if len(whole) < len(text):
        file.truncate(len(whole.encode()))
    found: dict[tuple[Key, str], Reply] = {}
    for number, line in enumerate(whole.split("\n")[:-1], 1):
        try:
            data = json.loads(line)
            key = tuple(data.pop(field) for field in FIELDS)
            asked = data.pop("asked")
            found[key, asked] = Reply(**data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} line {number} is damaged ({type(error).__name__}); remove that line, its "
                "reply is asked again"
            ) from error
    return found


def token_means(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[float, float]]:
    """(agent, stage) -> mean prompt and completion tokens of stored replies."""
    sums: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        entry = sums.setdefault((line["agent"], line["stage"].partition("#")[0]), [0, 0, 0])
        for i, value in enumerate((line["prompt_tokens"], line["completion_tokens"], 1)):
            entry[i] += value
    return {key: (prompt / n, completion / n) for key, (prompt, completion, n) in sums.items()}
