"""Task names -> problems: who registers what, and one door to load it.

A task is a name, a loader and the facts a reader wants to know (splits and sizes, verifier,
source, licence). Names are looked up in a table; names with a prefix (`hf:`, `reasoning-gym/`) and
paths are resolved by families, which make a `Task` on demand. What a loader rejects it says by
yielding a `Rejected`; nothing is dropped uncounted.
Leaves out: where the data lie and how it is read. Each source has its own file beside this one.
"""

from __future__ import annotations

import difflib
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from agon_env.types import Problem
from agon_env.verifiers.registry import check_gold

SPLITS = ("train", "validation", "test")
ENDLESS_CAP = 5_000_000
"""Problems after which a loader without a declared size is taken for one that never ends."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rejected:
    """A row of a data set that is no usable problem, and why."""

    row: str
    """Where it stands: an id, or "row 17"."""
    reason: str
    """Short and countable, such as "binary answer"."""


Loader: TypeAlias = Callable[[str, int], Iterable[Problem | Rejected]]


@dataclass(frozen=True)
class Task:
    """A named set of problems with splits."""

    name: str
    load: Loader
    """(split, seed) -> problems. May be endless when `seeded`; see `load_problems`."""
    sizes: Mapping[str, int | None]
    """Split -> problems of it; None: as many as the data hold. For endless tasks the default."""
    verifier: str = "math"
    source: str = "user"
    licence: str = "unknown"
    template: Any = None
    """A `Template` (see `agon_env.prompts`) that replaces the built-in one; None: by verifier."""
    description: str = ""
    seeded: bool = False
    """True: the loader draws by the seed itself. False: it yields the stored order."""
    checks_golds: bool = False
    """True: problems whose gold does not verify against itself are rejected at load."""
    offline: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Whether the problems are on this machine now."""


@dataclass(frozen=True)
class Loaded:
    """What one load gave: the problems, and what was left out and why."""

    problems: list[Problem]
    rejected: Counter[str]
    """Reason -> rows."""


_TASKS: dict[str, Task] = {}
_FAMILIES: dict[str, tuple[Callable[[str], Task], Callable[[str], bool]]] = {}
_LISTENERS: list[Callable[[Task], None]] = []


def _as_loader(loader: Callable[..., Iterable[Problem | Rejected]]) -> tuple[Loader, bool]:
    """Accept `loader(split)` and `loader(split, seed)`; the second owns its order."""
    parameters = list(inspect.signature(loader).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    takes_many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(required) > 2 or (not positional and not takes_many):
        raise TypeError(
            f"a loader must take (split) or (split, seed), got {loader!r} with the signature "
            f"{inspect.signature(loader)}; bind its other arguments with functools.partial"
        )
    if len(positional) >= 2 and (len(required) == 2 or positional[1].name == "seed"):
        return lambda split, seed: loader(split, seed), True
    return lambda split, seed: loader(split), False


def register_task(
    name: str,
    loader: Callable[..., Iterable[Problem | Rejected]],
    *,
    sizes: Mapping[str, int | None] | None = None,
    verifier: str = "math",
    source: str = "user",
    licence: str = "unknown",
    template: Any = None,
    description: str = "",
    checks_golds: bool | None = None,
    offline: Callable[[], bool] | None = None,
) -> Task:
    """Give a set of problems a name, for `load_problems`, the envs and the command line.

    Args:
        name: A new name, or one to replace. No `hf:` prefix and no file ending.
        loader: `loader(split)` yields the stored order, which is shuffled for seeds other than 0;
            `loader(split, seed)` draws by itself and may never end (then give `sizes`).
        sizes: Split -> number of problems, None where the data decide. Its keys are the splits
            the task has; default: all three.
        template: A `Template` of `agon_env.prompts`; None: the one of the verifier.
        checks_golds: Reject (and count) problems whose gold the math verifier cannot use; None:
            yes when `verifier` is "math" and the loader yields a stored order.
        offline: Whether the data are on this machine; default: always.

    Returns:
        The task as registered.
    """
    if not name or name != name.strip() or "?" in name or ":" in name:
        raise ValueError(f"a task name must be plain text without ':' and '?', got {name!r}")
    load, seeded = _as_loader(loader)
    task = Task(
        name=name,
        load=load,
        sizes=MappingProxyType(dict(sizes) if sizes is not None else dict.fromkeys(SPLITS)),
        verifier=verifier,
        source=source,
        licence=licence,
        template=template,
        description=description,
        seeded=seeded,
        checks_golds=verifier == "math" if checks_golds is None else checks_golds,
        offline=offline or (lambda: True),
    )
    _TASKS[name] = task
    for listener in _LISTENERS:
        listener(task)
    return task


def register_family(
    label: str, resolve: Callable[[str], Task], *, claims: Callable[[str], bool]
) -> None:
    """Names that are too many to list: `claims(name)` says whose it is, `resolve` makes the task.

    Args:
        label: How the family is shown to a user who mistyped, such as "hf:org/name?split=...".
    """
    _FAMILIES[label] = (resolve, claims)


def on_register(listener: Callable[[Task], None]) -> None:
    """Call `listener` for every task registered so far and from now on (the envs register it)."""
    for task in _TASKS.values():
        listener(task)
    _LISTENERS.append(listener)


def tasks() -> list[Task]:
    """All registered tasks, by name."""
    return [_TASKS[name] for name in sorted(_TASKS)]


def families() -> list[str]:
    """How names that are resolved on demand are written."""
    return list(_FAMILIES)


def find_task(name_or_path: str | PathLike[str]) -> Task:
    """The task of that name, file or hub id.

    Raises:
        ValueError: There is none; the message holds close matches and the list.
    """
    name = fspath(name_or_path)
    if not name.strip():
        raise ValueError(f"a task has a name or a path, got {name!r}; see agon_env.tasks()")
    if name in _TASKS:
        return _TASKS[name]
    for resolve, claims in _FAMILIES.values():
        if claims(name):
            return resolve(name)
    close = difflib.get_close_matches(name, _TASKS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise ValueError(
        f"unknown task {name!r}; {hint}Choose one of {', '.join(sorted(_TASKS))}; "
        f"or {', '.join(_FAMILIES)}"
    )


def load_problems(
    name_or_path: str | PathLike[str],
    split: str = "train",
    limit: int | None = None,
    seed: int = 0,
) -> list[Problem]:
    """The problems of a task, a file or a hub data set.

    Args:
        name_or_path: A name of `tasks()`, a .jsonl, .json, .csv or .parquet file, a folder written
            by `datasets`, or `hf:org/name?question=problem&answer=solution&split=test`.
        split: "train", "validation" or "test". A single file is all of them.
        limit: At most so many; None: all, or the task's default size when it is procedural.
        seed: Procedural tasks: another draw inside the same split. Stored ones: another order
            (0 is the stored order), of which `limit` takes the first.

    Raises:
        ValueError: Unknown task or split, or a problem that is none; names the row and the field.
    """
    return load_report(name_or_path, split, limit, seed).problems


def load_report(
    name_or_path: str | PathLike[str],
    split: str = "train",
    limit: int | None = None,
    seed: int = 0,
) -> Loaded:
    """Like `load_problems`, with the count of what was rejected beside the problems."""
    task = find_task(name_or_path)
    _check_request(task, split, limit)
    rejected: Counter[str] = Counter()
    if task.seeded:
        size = task.sizes[split] if limit is None else limit
        problems = list(islice(_checked(task, split, seed, rejected), size))
    else:
        problems = list(_checked(task, split, seed, rejected))
        if seed:
            order = np.random.default_rng(seed).permutation(len(problems))
            problems = [problems[i] for i in order]
        if task.checks_golds:
            from agon_env.tasks.golds import usable

            problems, bad_golds = usable(problems, limit)
            rejected += bad_golds
        problems = problems[:limit]
    _report(task, split, rejected)
    if not problems and limit != 0:
        raise ValueError(
            f"{task.name}/{split} holds no problem"
            + (f"; all rows were rejected: {dict(rejected)}" if rejected else "")
        )
    return Loaded(problems, rejected)


def _report(task: Task, split: str, rejected: Counter[str]) -> None:
    """Log what was left out: as a warning where the user owns the data and can mend them."""
    if rejected:
        shown = ", ".join(f"{n} {reason}" for reason, n in rejected.most_common())
        level = logging.WARNING if task.name not in _TASKS else logging.INFO
        logger.log(level, "%s/%s: %d rows rejected: %s", task.name, split, rejected.total(), shown)


def _check_request(task: Task, split: str, limit: int | None) -> None:
    if split not in task.sizes:
        raise ValueError(f"{task.name} has no split {split!r}; choose one of {list(task.sizes)}")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be None or >= 0, got {limit}")


def _checked(task: Task, split: str, seed: int, rejected: Counter[str]) -> Iterator[Problem]:
    """Problems of the loader, each checked; rejected rows are counted into `rejected`."""
    seen: dict[str, int] = {}
    for row, item in enumerate(task.load(split, seed)):
        if isinstance(item, Rejected):
            rejected[item.reason] += 1
            continue
        where = f"{task.name}/{split} row {row}"
        if not isinstance(item, Problem):
            raise TypeError(f"{where}: a loader must yield Problem, got {type(item).__name__}")
        if not item.id:
            raise ValueError(f"{where}: field 'id' must not be empty")
        if item.id in seen:
            raise ValueError(
                f"{where}: field 'id' must be unique, {item.id!r} is row {seen[item.id]} too"
            )
        if not item.question.strip():
            raise ValueError(f"{where} (id {item.id!r}): field 'question' must not be empty")
        if not item.answer.strip() and not (item.tests and item.tests.cases):
            raise ValueError(
                f"{where} (id {item.id!r}): a problem needs an answer (field 'answer') or tests "
                "(field 'tests'), got neither"
            )
        check_gold(item, where=f"{where} ")
        if len(seen) >= ENDLESS_CAP:
            raise ValueError(f"{where}: the loader does not end; pass limit= or register sizes=")
        seen[item.id] = row
        yield item
