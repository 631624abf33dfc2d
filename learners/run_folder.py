"""A folder on disk that holds one run: config, metrics, evaluations, transcripts, checkpoints.

Lines are appended and flushed as they come; a checkpoint appears by one rename, so a run that is
killed at any moment finds a complete state here (pitfall 66).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar, cast

import torch

from learners import processes

CONFIG, METRICS, EVALUATIONS, EPISODES, ALARMS = (
    "config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "episodes.jsonl",
    "alarms.jsonl",
)
P = ParamSpec("P")
T = TypeVar("T")
_STEP = re.compile(r"step_(\d{8})")


def _on_main(method: Callable[P, T]) -> Callable[P, T]:
    """A method that only the first process of a shared folder carries out."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        folder = cast(RunFolder, args[0])
        if not folder.shared:
            return method(*args, **kwargs)

        def alone() -> T:
            folder.shared = False  # methods that call others do so on this process alone
            try:
                return method(*args, **kwargs)
            finally:
                folder.shared = True

        return processes.from_main(alone)

    return call


class RunFolder:
    """Reads and writes one run's folder."""

    def __init__(self, path: str | Path, *, shared: bool = False) -> None:
        """Name a folder.

        Args:
            path: The folder.
            shared: All processes of a run call the same methods in the same order; the first one
                alone touches the folder, and all get what it got.
        """
        self.path, self.shared = Path(path), shared
        self._lock: IO[str] | None = None

    @_on_main
    def refuse_existing(self) -> None:
        """Raise FileExistsError when there is a run in the folder already."""
        if (self.path / CONFIG).exists():
            raise FileExistsError(
                f"{self.path} already holds a run; continue it with --resume or name another folder"
            )

    @_on_main
    def create(self, config: Mapping[str, Any]) -> None:
        """Make the folder for a new run.

        Raises:
            FileExistsError: There is a run in it already.
        """
        self.refuse_existing()
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock()
        write_atomically(self.path / CONFIG, json.dumps(config, indent=2) + "\n")

    @_on_main
    def lock(self) -> None:
        """Keep other processes from training into this folder; released when the process ends.

        Raises:
            BlockingIOError: Another process has it.
        """
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held until the process ends)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                f"another process is training into {self.path}; wait for it or stop it"
            ) from error

    @_on_main
    def unlock(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @_on_main
    def config(self) -> dict[str, Any]:
        """The run's config.

        Raises:
            FileNotFoundError: The folder holds no run.
        """
        file = self.path / CONFIG
        if not file.is_file():
            raise FileNotFoundError(
                f"{self.path} is not a run folder (no {CONFIG}); name a folder that "
                "examples/train_pair.py wrote"
            )
        return json.loads(file.read_text())

    @_on_main
    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Add one JSON line to a file and flush it."""
        with open(self.path / name, "a") as file:
            file.write(json.dumps(line) + "\n")

    @_on_main
    def lines(self, name: str) -> list[dict[str, Any]]:
        """All complete JSON lines of a file; a last line cut by a kill is left out."""
        file = self.path / name
        if not file.exists():
            return []
        text = file.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @_on_main
    def rewind(self, step: int) -> None:
        """Drop the lines of steps after `step`: they will be written again."""
        for name in (METRICS, EVALUATIONS, EPISODES, ALARMS):
            if (self.path / name).exists():
                kept = [json.dumps(line) for line in self.lines(name) if _step(line) <= step]
                write_atomically(self.path / name, "".join(line + "\n" for line in kept))

    @_on_main
    def save_checkpoint(
        self, step: int, write: Callable[[Path], None], *, keep: int, best: int | None
    ) -> Path:
        """Let `write` fill a temporary folder, hash it, and rename it into place.

        Args:
            step: Training steps done.
            write: Writes the state into the folder it is given.
            keep: Newest checkpoints to keep.
            best: Step of a checkpoint that is kept beside them.
        """
        root = self.path / "checkpoints"
        root.mkdir(exist_ok=True)
        for leftover in root.glob(".writing_*"):
            shutil.rmtree(leftover)
        temporary, final = root / f".writing_{step:08d}", root / f"step_{step:08d}"
        temporary.mkdir()
        write(temporary)
        manifest = {str(p.relative_to(temporary)): _sha256(p) for p in _files(temporary)}
        (temporary / "manifest.json").write_text(json.dumps(manifest, indent=2))
        for file in _files(temporary):
            _sync(file)
        if final.exists():
            shutil.rmtree(final)
        temporary.rename(final)
        _sync(root)
        for old in self.checkpoints()[:-keep]:
            if step_of(old) != best:
                shutil.rmtree(old)
        return final

    @_on_main
    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        found = (self.path / "checkpoints").glob("step_*")
        return sorted(path for path in found if _STEP.fullmatch(path.name))

    @_on_main
    def checkpoint(self, step: int | None = None) -> Path | None:
        """A checkpoint with its files checked against their hashes; None without any.

        Args:
            step: Which one; None takes the newest.

        Raises:
            ValueError: There is none of that step, or a file is missing or not what was written.
        """
        found = {step_of(path): path for path in self.checkpoints()}
        if not found:
            return None
        if step is not None and step not in found:
            raise ValueError(f"{self.path} has no checkpoint of step {step}, only {list(found)}")
        chosen = found[max(found) if step is None else step]
        manifest = json.loads((chosen / "manifest.json").read_text())
        for name, digest in manifest.items():
            file = chosen / name
            if not file.is_file() or _sha256(file) != digest:
                raise ValueError(
                    f"checkpoint file {file} is missing or damaged; remove the folder {chosen} to "
                    "fall back to the one before"
                )
        return chosen


def step_of(checkpoint: Path) -> int:
    """Training steps done at a checkpoint, from its name."""
    match = _STEP.fullmatch(checkpoint.name)
    if match is None:
        raise ValueError(f"{checkpoint} is not named like a checkpoint (step_00000000)")
    return int(match[1])


def save_tensors(state: Mapping[str, Any], file: Path) -> None:
    """Write optimizer and generator states."""
    torch.save(dict(state), file)


def load_tensors(file: Path) -> dict[str, Any]:
    """Read what `save_tensors` wrote; no code in the file is run."""
    return torch.load(file, map_location="cpu", weights_only=True)


def _step(line: Mapping[str, Any]) -> int:
    """Step of a line; stored episodes keep it beside the record."""
    return line["step"] if "step" in line else line["extra"]["step"]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sha256(file: Path) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(file: Path, text: str) -> None:
    """Write a text so that the file is whole or absent, whenever the process ends."""
    temporary = file.with_name(f".{file.name}.writing")
    temporary.write_text(text)
    temporary.replace(file)
