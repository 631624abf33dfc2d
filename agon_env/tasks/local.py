"""A file or folder of the user -> a task: .jsonl, .json, .csv, .parquet, or a `datasets` folder.

A file is one set of problems, its "train" split. Held-out problems come from a column `split`, from
a second file (`test.jsonl?split=test`), from a folder with a file per split, or from
`problems.jsonl?holdout=0.1`, which takes that share for validation and again for test by content
hash. What never happens is that a problem silently is both trained on and tested on.
Options stand behind the path: `my.csv?question=text&answer=key&verifier=math`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os import fspath
from pathlib import Path
from typing import Any, TypeAlias

from agon_env.tasks.columns import ALIASES, map_columns, read_rows
from agon_env.tasks.procedural import content_hash
from agon_env.tasks.query import parse_name
from agon_env.tasks.registry import SPLITS, Task, register_family
from agon_env.types import Problem

ENDINGS = (".jsonl", ".json", ".csv", ".parquet")
OPTIONS = (*ALIASES, "holdout")
FILE_NAMES = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
"""Split -> file names (without ending) that hold it in a folder."""

_LONGEST_CELL = 2**31 - 1

Table: TypeAlias = list[tuple[str, Mapping[str, Any]]]
"""(how the row is called in messages, its fields)."""


def read_jsonl(path: Path) -> Table:
    """One JSON object per line; empty lines are passed over."""
    table: Table = []
    for number, line in enumerate(io.StringIO(_text(path)), start=1):
        if line.strip():
            table.append((f"line {number}", _object(line, path, f"line {number}")))
    return table


def read_json_file(path: Path) -> Table:
    """A list of objects, or an object whose first list holds them (`{"data": [...]}`)."""
    value = _parse(_text(path), path, "the file")
    if isinstance(value, Mapping):
        value = next((v for v in value.values() if isinstance(v, list)), None)
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        raise ValueError(f"{path} must hold a list of JSON objects, one per problem")
    return [(f"row {i}", row) for i, row in enumerate(value)]


def read_csv(path: Path) -> Table:
    """A header line and rows; a row with more or fewer cells than the header is an error."""
    rows = _csv_rows(path)
    _, header = next(rows, ("", []))
    if twice := [name for name in dict.fromkeys(header) if header.count(name) > 1]:
        raise ValueError(f"{path}: the names of columns must differ, {twice} stand more than once")
    table: Table = []
    for name, cells in rows:
        if not cells:
            continue
        if len(cells) != len(header):
            raise ValueError(
                f"{path} {name}: has {len(cells)} cells, the header {len(header)}: {header}; "
                'put quotes (") around text with commas'
            )
        table.append((name, dict(zip(header, cells, strict=True))))
    return table


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """(how the row is called, its cells); tests of programs may fill cells of any length."""
    reader = csv.reader(io.StringIO(_text(path), newline=""))
    while True:
        usual = csv.field_size_limit(_LONGEST_CELL)  # of the process: set for one row at a time
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path} line {reader.line_num}: is no CSV: {error}") from None
        finally:
            csv.field_size_limit(usual)
        yield f"line {reader.line_num}", cells


def read_parquet(path: Path) -> Table:
    """Every row of a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no readable parquet file: {error}") from None
    return [(f"row {i}", row) for i, row in enumerate(rows)]


READERS: dict[str, Callable[[Path], Table]] = {
    ".jsonl": read_jsonl,
    ".json": read_json_file,
    ".csv": read_csv,
    ".parquet": read_parquet,
}


def read_table(path: Path) -> Table:
    """The rows of a file by its ending."""
    table = READERS[path.suffix.lower()](path)
    if not table:
        raise ValueError(f"{path} holds no rows")
    return table


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text: {error}; save it as UTF-8") from None


def _parse(text: str, path: Path, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} {name}: is no JSON: {error}") from None


def _object(line: str, path: Path, name: str) -> Mapping[str, Any]:
    value = _parse(line, path, name)
    if not isinstance(value, Mapping):
        raise ValueError(f"{path} {name}: must be a JSON object, got {type(value).__name__}")
    return value


def _problems(table: Table, where: str, options: Mapping[str, str]) -> list[Problem]:
    found = list(dict.fromkeys(column for _, row in table for column in row))
    chosen = {k: v for k, v in options.items() if k in ALIASES and k not in ("verifier", "split")}
    columns = map_columns(found, chosen, where=where)
    return list(read_rows(table, columns, verifier=options.get("verifier")))


def _split_column(table: Table) -> str | None:
    """The column that says the split of each row: its values are names of splits."""
    names = {name for group in FILE_NAMES.values() for name in group}
    for column in table[0][1]:
        if column.lower() == "split" and all(
            str(row.get(column, "")).lower() in names for _, row in table
        ):
            return column
    return None


def _load_file(split: str, *, path: Path, options: Mapping[str, str]) -> Iterator[Problem]:
    table = read_table(path)
    where = str(path)
    if (column := _split_column(table)) and "split" not in options:
        wanted = FILE_NAMES[split]
        table = [(name, row) for name, row in table if str(row[column]).lower() in wanted]
        yield from _problems(table, where, options) if table else ()
        return
    problems = _problems(table, where, options)
    if "holdout" in options:
        share = float(options["holdout"])
        yield from (p for p in problems if held_out_split(p.question, share) == split)
    elif split == options.get("split", "train"):
        yield from problems
    else:
        raise ValueError(
            f"{where} is one set of problems, its {options.get('split', 'train')!r} split. For "
            f"{split!r} name another file ('other.jsonl?split={split}'), add a column 'split', use "
            f"a folder with train, validation and test files, or hold some out by content: "
            f"'{where}?holdout=0.1'"
        )


def held_out_split(question: str, share: float) -> str:
    """The split of a question when `share` is held out for validation and again for test."""
    position = int(content_hash(question.strip())[:12], 16) / 16**12
    return "test" if position < share else "validation" if position < 2 * share else "train"


def _folder_files(folder: Path) -> dict[str, Path]:
    return {
        split: path
        for split, names in FILE_NAMES.items()
        for name in names
        for ending in ENDINGS
        if (path := folder / f"{name}{ending}").exists()
    }


def _load_folder(split: str, *, path: Path, options: Mapping[str, str]) -> Iterator[Problem]:
    """A folder with one file per split, or one that `datasets` saved."""
    if files := _folder_files(path):
        if split not in files:
            raise ValueError(f"{path} has no file for {split!r}, only for {sorted(files)}")
        yield from _problems(read_table(files[split]), str(files[split]), options)
        return
    from datasets import DatasetDict, load_from_disk

    saved = load_from_disk(str(path))
    if isinstance(saved, DatasetDict):
        name = next((n for n in FILE_NAMES[split] if n in saved), None)
        if name is None:
            raise ValueError(f"{path} has no split {split!r}, only {sorted(saved)}")
        saved = saved[name]
    elif split != options.get("split", "train"):
        raise ValueError(f"{path} is one set of problems; it has no split {split!r}")
    table: Table = [(f"row {i}", dict(row)) for i, row in enumerate(saved)]
    yield from _problems(table, str(path), options)


def _is_saved(path: Path) -> bool:
    return any((path / name).exists() for name in ("dataset_dict.json", "state.json"))


def claims(name: str) -> bool:
    """Whether a name is meant as a path: by its ending, or because it is there."""
    path = Path(name.partition("?")[0])
    return path.suffix.lower() in ENDINGS or path.is_dir() or path.exists()


def resolve(name: str) -> Task:
    """The task of a file or folder.

    Raises:
        ValueError: It is not there, or of no known kind, or an option is wrong.
    """
    text, options = parse_name(fspath(name), allowed=OPTIONS)
    path = Path(text).expanduser()
    if "split" in options and options["split"] not in SPLITS:
        raise ValueError(f"{name!r}: split must be one of {SPLITS}, got {options['split']!r}")
    _check_holdout(name, options)
    if not path.exists():
        raise ValueError(f"there is no file {path} (looked in {Path.cwd()})")
    if path.is_dir():
        if not _folder_files(path) and not _is_saved(path):
            names = "train.jsonl, validation.jsonl, test.jsonl"
            raise ValueError(f"{path} must hold {names} (or .json, .csv, .parquet) or a dataset")
        load: Callable[..., Iterator[Problem]] = _load_folder
    elif path.suffix.lower() in ENDINGS:
        load = _load_file
    else:
        raise ValueError(f"{path} must end in one of {', '.join(ENDINGS)}")
    loader = partial(load, path=path, options=options)
    return Task(
        name=name,
        load=lambda split, seed: loader(split),
        sizes=dict.fromkeys(SPLITS),
        verifier=options.get("verifier", "math"),
        source=str(path),
        description="a file of the user",
        checks_golds=True,
    )


def _check_holdout(name: str, options: Mapping[str, str]) -> None:
    if "holdout" not in options:
        return
    try:
        share = float(options["holdout"])
    except ValueError:
        share = -1.0
    if not 0 < share < 0.5:
        raise ValueError(f"{name!r}: holdout must be a share between 0 and 0.5")
    if "split" in options:
        raise ValueError(f"{name!r}: give either split or holdout, not both")


register_family("a file (.jsonl, .json, .csv, .parquet) or folder", resolve, claims=claims)
