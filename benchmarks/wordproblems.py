"""Write word problems of one or two steps in GSM8K's format: one JSON object a line, `#### n`.

    python benchmarks/wordproblems.py runs/wordproblems.jsonl

Easier than GSM8K, for models of some 100M parameters. The same seed gives the same file. A problem
is a story with numbers; its answer shows the steps, as GSM8K's do.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

NAMES = ("Ada", "Ben", "Carla", "Dev", "Esra", "Finn", "Grace", "Hugo", "Ines", "Jonas")
THINGS = ("apples", "stickers", "marbles", "books", "shells", "coins", "stamps", "cards")

Story = tuple[str, list[str], int]
"""Question, steps of the solution, answer."""


@dataclass(frozen=True)
class Args:
    """What to write."""

    out: Annotated[Path, tyro.conf.Positional]
    """The JSONL file."""
    count: int = 130
    """Problems, each question once."""
    seed: int = 0
    """Of the stories and their numbers."""


def gives_away(rng: random.Random, name: str, thing: str) -> Story:
    """a - b."""
    a, b = rng.randint(11, 40), rng.randint(2, 10)
    question = f"{name} has {a} {thing} and gives {b} of them away. How many {thing} are left?"
    return question, [f"{a} - {b} = {a - b}"], a - b


def buys_packs(rng: random.Random, name: str, thing: str) -> Story:
    """a * b."""
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    question = f"{name} buys {a} packs of {thing}. A pack holds {b}. How many {thing} are that?"
    return question, [f"{a} * {b} = {a * b}"], a * b


def has_and_finds(rng: random.Random, name: str, thing: str) -> Story:
    """a + b."""
    a, b = rng.randint(5, 30), rng.randint(3, 20)
    question = f"{name} has {a} {thing} and finds {b} more. How many {thing} has {name} now?"
    return question, [f"{a} + {b} = {a + b}"], a + b


def fills_boxes(rng: random.Random, name: str, thing: str) -> Story:
    """a * b + c."""
    a, b, c = rng.randint(2, 6), rng.randint(2, 8), rng.randint(1, 9)
    question = (
        f"{name} fills {a} boxes with {b} {thing} each and has {c} {thing} over. "
        f"How many {thing} has {name} in all?"
    )
    return question, [f"{a} * {b} = {a * b}", f"{a * b} + {c} = {a * b + c}"], a * b + c


def pays(rng: random.Random, name: str, thing: str) -> Story:
    """a - b * c."""
    b, c = rng.randint(2, 5), rng.randint(2, 6)
    a = b * c + rng.randint(3, 20)
    question = (
        f"{name} has {a} dollars and buys {b} tickets for {c} dollars each. "
        f"How many dollars has {name} left?"
    )
    return question, [f"{b} * {c} = {b * c}", f"{a} - {b * c} = {a - b * c}"], a - b * c


def shares(rng: random.Random, name: str, thing: str) -> Story:
    """(a + b) / c."""
    c, each = rng.randint(2, 5), rng.randint(3, 9)
    b = rng.randint(1, c * each - 2)
    a = c * each - b
    question = (
        f"{name} has {a} {thing}, gets {b} more, and shares all of them equally among {c} friends. "
        f"How many {thing} does each friend get?"
    )
    return question, [f"{a} + {b} = {a + b}", f"{a + b} / {c} = {each}"], each


STORIES: tuple[Callable[[random.Random, str, str], Story], ...] = (
    gives_away,
    buys_packs,
    has_and_finds,
    fills_boxes,
    pays,
    shares,
)


def problems(count: int, seed: int) -> list[dict[str, str]]:
    """Rows of question and answer, the kinds of story in turn, no question twice."""
    rng = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        story = STORIES[len(found) % len(STORIES)]
        question, steps, answer = story(rng, rng.choice(NAMES), rng.choice(THINGS))
        found[question] = "\n".join([*steps, f"#### {answer}"])
    return [{"question": question, "answer": answer} for question, answer in found.items()]


def main(args: Args) -> None:
    """Write the file."""
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) + "\n" for row in problems(args.count, args.seed)]
    args.out.write_text("".join(lines))
    print(f"wrote {len(lines)} problems to {args.out}")


if __name__ == "__main__":
    main(tyro.cli(Args))
