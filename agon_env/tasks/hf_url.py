"""`hf:org/name?question=problem&answer=solution&split=test` -> a task of any hub data set.

Loaded through `datasets`, so every layout it knows works, lands in the Hugging Face cache and is
there offline. Columns are found by their usual names or given in the url; so are `config`,
`revision` (give a commit for a result that should stay), `verifier` and the hub's own `split`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from agon_env.tasks.columns import ALIASES, map_columns, read_rows
from agon_env.tasks.hub import DataNotHereError, is_offline
from agon_env.tasks.local import FILE_NAMES
from agon_env.tasks.query import parse_name
from agon_env.tasks.registry import SPLITS, Task, register_family, tasks
from agon_env.types import Problem

PREFIX = "hf:"
OPTIONS = (*ALIASES, "config", "revision")


def _load(split: str, *, name: str, repo: str, options: Mapping[str, str]) -> Iterator[Problem]:
    data = _fetch(split, name=name, repo=repo, options=options)
    chosen = {k: v for k, v in options.items() if k in ALIASES and k not in ("verifier", "split")}
    columns = map_columns(data.column_names, chosen, where=name)
    needed = data.select_columns(sorted(set(columns.of.values())))
    rows = ((f"row {i}", row) for i, row in enumerate(needed))
    return read_rows(rows, columns, verifier=options.get("verifier"))


def _fetch(split: str, *, name: str, repo: str, options: Mapping[str, str]) -> Any:
    """The `datasets.Dataset` of a split."""
    import datasets
    from datasets.exceptions import DatasetNotFoundError

    place = {"path": repo, "name": options.get("config"), "revision": options.get("revision")}
    try:
        if "split" in options:
            return datasets.load_dataset(**place, split=options["split"])
        found = datasets.load_dataset(**place)
    except (DatasetNotFoundError, ConnectionError, FileNotFoundError) as error:
        raise DataNotHereError(_not_here(name, repo, error)) from error
    hub_split = next((n for n in FILE_NAMES[split] if n in found), None)
    if hub_split is None:
        raise ValueError(f"{repo} has no split {split!r}, only {sorted(found)}; choose with split=")
    return found[hub_split]


def _not_here(name: str, repo: str, error: Exception) -> str:
    works = ", ".join(t.name for t in tasks() if t.offline())
    why = "HF_HUB_OFFLINE is set" if is_offline() else str(error).splitlines()[0][:160]
    return (
        f"the data set {repo} is not on this machine and could not be fetched ({why}). With a net, "
        f"run once: python -m agon_env.tasks '{name}'   Tasks that work now: {works}"
    )


def resolve(name: str) -> Task:
    """The task of a `hf:` url.

    Raises:
        ValueError: The url is none, or an option is unknown.
    """
    repo, options = parse_name(name.removeprefix(PREFIX), allowed=OPTIONS)
    if len([part for part in repo.split("/") if part]) != 2 or repo.count("/") != 1:
        raise ValueError(f"a hub task is written hf:org/name?option=value, got {name!r}")
    loader = partial(_load, name=name, repo=repo, options=options)
    revision = options.get("revision", "main")
    return Task(
        name=name,
        load=lambda split, seed: loader(split),
        sizes=dict.fromkeys(SPLITS),
        verifier=options.get("verifier", "math"),
        source=f"hf:{repo}@{revision}",
        description="a data set of the hub",
        checks_golds=True,
    )


register_family(
    "hf:org/name?question=COLUMN&answer=COLUMN&split=test",
    resolve,
    claims=lambda name: name.startswith(PREFIX),
)
