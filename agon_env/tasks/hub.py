"""A data set on the Hugging Face hub -> rows, reading only the columns that are needed.

Parquet shards are read by byte ranges: the footer and the wanted columns, never the rest (the
solutions are 98% of DeepMath's 2.1 GB). What was read is kept as small parquet files beside the hub
cache (`$HF_HOME/agon`), so a second load needs no net. Other files are fetched whole into the hub
cache. A snapshot that is already in the hub cache is read from there.
Leaves out: what the columns mean (`deepmath.py`, `codesets.py`, ...).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from agon_env.tasks.registry import tasks

logger = logging.getLogger(__name__)

PINNED = re.compile(r"[0-9a-f]{40}")
SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(.*)")


@dataclass(frozen=True)
class HubData:
    """Which files of which data set, and which of their columns."""

    repo: str
    """org/name of a data set."""
    revision: str
    """A commit. A branch name is resolved at the first load and stays at that commit here."""
    files: Mapping[str, tuple[str, ...]]
    """Split -> file names or globs inside the repository; .parquet or .jsonl."""
    columns: tuple[str, ...]
    """Columns to read; a parquet file's others are never downloaded."""


class DataNotHereError(FileNotFoundError):
    """The data are neither on this machine nor can they be fetched now."""


def home() -> Path:
    """The Hugging Face home folder, read at call time: $HF_HOME or ~/.cache/huggingface."""
    if "HF_HOME" in os.environ:
        return Path(os.environ["HF_HOME"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(base).expanduser() / "huggingface"


def hub_cache() -> Path:
    """The hub's download cache: $HF_HUB_CACHE or $HF_HOME/hub."""
    return Path(os.environ.get("HF_HUB_CACHE") or home() / "hub").expanduser()


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids the net, read at call time."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}


def kept_folder(data: HubData) -> Path:
    """Where the projected files and the list of files of a data set are kept."""
    name = "datasets--" + data.repo.replace("/", "--")
    return home() / "agon" / name / data.revision


def is_here(data: HubData) -> bool:
    """Whether every split can be read without the net."""
    return all(_local_files(data, split) is not None for split in data.files)


def rows(data: HubData, split: str, *, task: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, in the order of the files.

    Args:
        task: Name of the task that asks, for the error message.

    Raises:
        DataNotHereError: Nothing is cached and the hub does not answer. One line: what is missing,
            how to fetch it, what works without.
        ValueError: A file lacks a column.
    """
    local = _local_files(data, split)
    if local is None:
        try:
            local = _fetch(data, split)
        except _network_errors() as error:
            raise DataNotHereError(_not_here(data, split, task, error)) from error
    for path in local:
        yield from _read(path, data)


def _network_errors() -> tuple[type[Exception], ...]:
    from huggingface_hub.errors import HfHubHTTPError

    # The hub's error derives from the one of its HTTP library, whichever that is by version;
    # connection errors derive from the same.
    return (HfHubHTTPError.__bases__[0], OSError)


def _not_here(data: HubData, split: str, task: str, error: Exception) -> str:
    works = ", ".join(t.name for t in tasks() if t.offline())
    cause = str(error).strip().splitlines() or [type(error).__name__]
    return (
        f"{task} needs {', '.join(data.files[split])} of the data set {data.repo} (revision "
        f"{data.revision}), which is not on this machine and could not be fetched "
        f"({type(error).__name__}: {cause[0][:160]}). With a net, run once: "
        f"python -m agon_env.tasks '{task}'   Tasks that work now: {works}"
    )


def _local_files(data: HubData, split: str) -> list[Path] | None:
    """Files of a split that need no net, in order; None when any is missing."""
    listing = kept_folder(data) / "files.json"
    if listing.exists():
        names = _matching(json.loads(listing.read_text())["files"], data.files[split])
        paths = [_local_file(data, name) for name in names]
        return [p for p in paths if p] if names and all(paths) else None
    snapshot = _snapshot(data)
    if snapshot is None:
        return None
    names = [str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_file()]
    chosen = _matching(names, data.files[split])
    return [snapshot / n for n in chosen] if _complete(chosen, data.files[split]) else None


def _local_file(data: HubData, name: str) -> Path | None:
    """A projected file, or the whole file in the hub cache."""
    kept = _kept_path(data, name)
    if kept.exists():
        return kept
    snapshot = _snapshot(data)
    return snapshot / name if snapshot and (snapshot / name).exists() else None


def _snapshot(data: HubData) -> Path | None:
    """The data set's folder in the hub cache, which may be incomplete."""
    folder = hub_cache() / ("datasets--" + data.repo.replace("/", "--"))
    commit = _commit(data)
    reference = folder / "refs" / data.revision
    if not PINNED.fullmatch(commit) and reference.exists():
        commit = reference.read_text().strip()
    path = folder / "snapshots" / commit
    return path if path.is_dir() else None


def _commit(data: HubData) -> str:
    """The commit this machine reads: the pinned one, or what a branch was at the first load."""
    listing = kept_folder(data) / "files.json"
    if PINNED.fullmatch(data.revision) or not listing.exists():
        return data.revision
    return json.loads(listing.read_text())["commit"]


def _matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    return sorted(n for n in names if any(fnmatch(n, pattern) for pattern in patterns))


def _complete(names: list[str], patterns: tuple[str, ...]) -> bool:
    """Whether every pattern is met and no numbered shard is missing."""
    if not all(any(fnmatch(n, pattern) for n in names) for pattern in patterns):
        return False
    for name in names:
        shard = SHARD.fullmatch(name)
        if shard:
            start, _, total, end = shard.groups()
            expected = {f"{start}-{i:05d}-of-{total}{end}" for i in range(int(total))}
            if not expected <= set(names):
                return False
    return True


def _kept_path(data: HubData, name: str) -> Path:
    columns = hashlib.sha256("\0".join(data.columns).encode()).hexdigest()[:8]
    return kept_folder(data) / (name.removesuffix(".parquet") + f".{columns}.parquet")


def _fetch(data: HubData, split: str) -> list[Path]:
    """Bring a split onto this machine; returns its files."""
    from huggingface_hub import HfApi, hf_hub_download

    endpoint = os.environ.get("HF_ENDPOINT") or None
    if is_offline():
        raise ConnectionError("HF_HUB_OFFLINE is set")
    info = HfApi(endpoint=endpoint).dataset_info(data.repo, revision=_commit(data))
    names = [s.rfilename for s in info.siblings or []]
    chosen = _matching(names, data.files[split])
    if not _complete(chosen, data.files[split]):
        raise FileNotFoundError(f"the repository has only {chosen or 'none'} of these files")
    commit = info.sha or data.revision
    paths = []
    for name in chosen:
        if name.endswith(".parquet"):
            paths.append(_local_file(data, name) or _project(data, commit, name, endpoint))
        else:
            path = hf_hub_download(
                data.repo,
                name,
                repo_type="dataset",
                revision=commit,
                endpoint=endpoint,
                cache_dir=hub_cache(),
            )
            paths.append(Path(path))
    # Written last: a list of files says that the names are known, and a branch's commit.
    _write(kept_folder(data) / "files.json", json.dumps({"commit": commit, "files": names}))
    return paths


def _project(data: HubData, commit: str, name: str, endpoint: str | None) -> Path:
    """Read the wanted columns of a remote parquet file by byte ranges and keep them."""
    import pyarrow.parquet as pq
    from huggingface_hub import HfFileSystem

    target = _kept_path(data, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    system = HfFileSystem(endpoint=endpoint, skip_instance_cache=True)
    # No read-ahead: pyarrow asks for exactly the ranges of the columns, coalesced.
    with system.open(
        f"datasets/{data.repo}/{name}", "rb", revision=commit, cache_type="none"
    ) as remote:
        table = pq.ParquetFile(remote, pre_buffer=True)
        _check_columns(table.schema_arrow.names, data, name)
        wanted = table.read(columns=list(data.columns))
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    pq.write_table(wanted, temporary, compression="zstd")
    temporary.replace(target)
    logger.info("kept %d rows of %s/%s in %s", wanted.num_rows, data.repo, name, target)
    return target


def _check_columns(found: list[str], data: HubData, name: str) -> None:
    missing = [column for column in data.columns if column not in found]
    if missing:
        raise ValueError(
            f"{data.repo}/{name} must have the columns {list(data.columns)}; {missing} are missing "
            f"among {found}. Another revision than {data.revision}?"
        )


def _read(path: Path, data: HubData) -> Iterator[dict[str, Any]]:
    """Rows of a local file with the wanted columns."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.ParquetFile(path)
        _check_columns(table.schema_arrow.names, data, path.name)
        for batch in table.iter_batches(batch_size=256, columns=list(data.columns)):
            yield from batch.to_pylist()
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            if number == 0:
                _check_columns(list(row), data, path.name)
            yield {column: row.get(column) for column in data.columns}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(path)
