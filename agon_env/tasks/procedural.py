"""A generator of sketches -> an endless task whose splits cannot overlap.

The content of a question decides its split (`content_split`): whatever the seed, a question of the
test split is never drawn for training. So a generator first draws a `Sketch`, and only one that
falls into the wanted split is solved.
Leaves out: the mathematics (`arithmetic.py`, `algebra.py`, `chains.py`) and reading of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from agon_env.tasks.registry import SPLITS, Task, register_task
from agon_env.types import Problem
from agon_env.verifiers import register

DEFAULT_SIZES = {"train": 2000, "validation": 200, "test": 500}
TENTHS = ("test", "validation", *["train"] * 8)
"""Split of each tenth of the hash range."""
FINAL = "math-final"
"""Verifier of the mathematics made here: an equal answer counts once it is worked out."""
PATIENCE = 20_000
"""Draws in a row without a new question after which a task is said to be exhausted."""


@dataclass(frozen=True)
class Sketch:
    """A question before it is solved."""

    question: str
    solve: Callable[[], str]
    """Computes the gold answer; called only for questions that are kept."""
    topic: str
    difficulty: float
    key: str = ""
    """What makes two questions the same; "" means the question's text."""


register(FINAL, "agon_env.verifiers.math:judge_final")

Draw: TypeAlias = Callable[[np.random.Generator], Sketch]


def content_hash(text: str) -> str:
    """64 hex digits that depend on the text alone."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def content_split(text: str) -> str:
    """The split a question belongs to by its content: 80% train, 10% validation, 10% test.

    The same in every version of a data set, under every seed and row order.
    """
    return TENTHS[int(content_hash(text)[:16], 16) * len(TENTHS) >> 64]


def endless(name: str, draw: Draw, *, verifier: str = "math") -> Callable[..., Iterator[Problem]]:
    """A `loader(split, seed)` that draws problems of that split for ever, without repeats.

    Raises (while iterating):
        ValueError: No new question came in `PATIENCE` draws: the level holds no more.
    """

    def load(split: str, seed: int) -> Iterator[Problem]:
        rng = np.random.default_rng([seed, SPLITS.index(split), int(content_hash(name)[:8], 16)])
        seen: set[str] = set()
        idle = 0
        while idle < PATIENCE:
            sketch = draw(rng)
            digest = content_hash(sketch.key or sketch.question)
            idle += 1
            if digest in seen or content_split(sketch.key or sketch.question) != split:
                continue
            idle = 0
            seen.add(digest)
            yield Problem(
                id=f"{name}/{digest[:16]}",
                question=sketch.question,
                answer=sketch.solve(),
                verifier=verifier,
                difficulty=sketch.difficulty,
                topic=sketch.topic,
                source=name,
            )
        raise ValueError(
            f"{name}/{split} has only about {len(seen)} different questions; ask for fewer "
            "(limit=) or take a harder level"
        )

    return load


def register_procedural(
    name: str,
    draw: Draw,
    *,
    verifier: str = "math",
    template: Any = None,
    description: str,
    sizes: dict[str, int] | None = None,
) -> Task:
    """Register a task that is made on the spot: any size, any seed, nothing to download."""
    return register_task(
        name,
        endless(name, draw, verifier=verifier),
        sizes=sizes or DEFAULT_SIZES,
        verifier=verifier,
        template=template,
        source="generated",
        licence="Apache-2.0",
        description=description,
    )
