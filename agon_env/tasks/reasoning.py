"""`reasoning-gym/<dataset>` -> puzzles of the package reasoning-gym, judged by its own scorers.

A dataset is drawn in chunks of its own seeds; the content of a question decides its split, as for
every procedural task here. The id holds the chunk's seed and the position, so the scorer gets back
the very entry (with its metadata) that made the question. Only a full score counts: the package's
partial scores reward a long answer that contains the right one.
reasoning-gym is imported when such a task is loaded: `pip install reasoning-gym`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from agon_env.extract import answer_span, visible_text
from agon_env.tasks.procedural import DEFAULT_SIZES, PATIENCE, content_hash, content_split
from agon_env.tasks.registry import Rejected, Task, register_family
from agon_env.types import Problem, Verdict
from agon_env.verifiers import register

PREFIX = "reasoning-gym/"
CHUNK = 64
"""Entries drawn from one seed of the package."""
FULL_SCORE = 0.999


def _package() -> Any:
    try:
        import reasoning_gym
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"tasks {PREFIX}... need the package reasoning-gym ({error}); run: "
            "pip install 'reasoning-gym>=0.1.25'"
        ) from error
    return reasoning_gym


def _names() -> list[str]:
    _package()
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - {"composite"})


@lru_cache(maxsize=8)
def _chunk(dataset: str, seed: int) -> Any:
    return _package().create_dataset(dataset, seed=seed, size=CHUNK)


def _load(split: str, seed: int, *, dataset: str) -> Iterator[Problem | Rejected]:
    """Endless puzzles of one dataset that fall into the split."""
    seen: set[str] = set()
    idle = 0
    chunk_seed = int(content_hash(f"{seed}")[:7], 16)
    while idle < PATIENCE // CHUNK:
        chunk = _chunk(dataset, chunk_seed)
        idle += 1
        for position in range(len(chunk)):
            entry = chunk[position]
            digest = content_hash(entry["question"])
            if digest in seen or content_split(entry["question"]) != split:
                continue
            if not isinstance(entry["answer"], str) or not entry["answer"].strip():
                raise ValueError(
                    f"{PREFIX}{dataset} gives no reference answers, which a problem needs; choose "
                    "another dataset"
                )
            seen.add(digest)
            idle = 0
            yield Problem(
                id=f"{PREFIX}{dataset}/{chunk_seed}.{position}",
                question=entry["question"].strip(),
                answer=entry["answer"],
                verifier="reasoning-gym",
                topic=dataset,
                source="reasoning-gym",
            )
        chunk_seed += 1
    raise ValueError(f"{PREFIX}{dataset}/{split} has only about {len(seen)} different questions")


def judge(problem: Problem, text: str) -> Verdict:
    """Score a reply with the dataset's own scorer; runs in a worker."""
    visible = visible_text(text)
    if visible is None:
        return Verdict(False, "truncated")
    span = answer_span(visible)
    if span is None:
        return Verdict(False, "no_answer")
    dataset, _, place = problem.id.removeprefix(PREFIX).rpartition("/")
    seed, _, position = place.partition(".")
    chunk = _chunk(dataset, int(seed))
    entry = chunk[int(position)]
    if entry["question"].strip() != problem.question:
        return Verdict(None, "unscorable", answer=span.text)
    right = chunk.score_answer(answer=span.text.strip(), entry=entry) >= FULL_SCORE
    return Verdict(right, "match" if right else "mismatch", answer=span.text)


def resolve(name: str) -> Task:
    """The task of one dataset of reasoning-gym.

    Raises:
        ValueError: There is no such dataset.
        ModuleNotFoundError: The package is not installed; says how to install it.
    """
    dataset = name.removeprefix(PREFIX)
    names = _names()
    if dataset not in names:
        close = difflib.get_close_matches(dataset, names, n=3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise ValueError(f"reasoning-gym has no dataset {dataset!r}; {hint}It has {names}")
    return Task(
        name=name,
        load=partial(_load, dataset=dataset),
        sizes=DEFAULT_SIZES,
        verifier="reasoning-gym",
        source="reasoning-gym (PyPI)",
        licence="Apache-2.0",
        description=f"puzzles: {dataset.replace('_', ' ')}",
        seeded=True,
    )


register("reasoning-gym", "agon_env.tasks.reasoning:judge", where="worker", limit_s=20.0)
register_family(f"{PREFIX}DATASET", resolve, claims=lambda name: name.startswith(PREFIX))
