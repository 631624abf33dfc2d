"""ModChain: (start value, chain of operations mod 11) -> problems, verifier and prompts.

A problem `3 +4 *2` asks for a derivation `+4 7 *2 3`: every operation restated in order, each
followed by the value reached. The last value is the answer (3 + 4 = 7, 7 * 2 = 14 = 3 mod 11).
One token per value and per operation, so a model of 0.2M parameters can learn to derive, to read
a rival's derivation and to be wrong about single facts: the whole game at the scale of a CPU.

The verifier reads the last value and that the operations are restated; it does not check the
values inside the chain. A check of the outcome alone is not enough: trained against it, models
skip the derivation and guess (1 in 11 is right). Where the derivation is complete, the reply is
well formed. The solver is shown a draft with its last value replaced by `?`.

Left out: a grammar for prose. A reply is a chain and nothing else, after any thinking block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from agon_env.extract import thinking, visible_text
from agon_env.prompts import Messages, Reply
from agon_env.tasks.procedural import Sketch, register_procedural
from agon_env.types import Problem, Verdict
from agon_env.verifiers.registry import register

MODULUS = 11
VALUES = tuple(str(value) for value in range(MODULUS))
OPERATIONS = tuple(f"+{a}" for a in range(1, MODULUS)) + tuple(f"*{a}" for a in range(2, MODULUS))
"""No two are the same function, and none is the identity."""
END = "!"
"""Closes a derivation; optional, because it is the stop token of the tiny models."""
WITHHELD = "?"
LENGTHS = {"easy": (2, 3), "medium": (4, 5, 6), "hard": (8,)}
"""Number of operations per level."""

INSTRUCTIONS = (
    f"Apply the operations to the first number, in order and modulo {MODULUS}. Reply with every "
    "operation followed by the value it leads to, separated by spaces, and with nothing else. "
    "Example: for 3 +4 *2 reply +4 7 *2 3. After D: stands the derivation of another solver, "
    f"which may be wrong; its last value is withheld as {WITHHELD}."
)
"""First line of every prompt. The tiny models, who learn the rules in their warm-up, skip it."""


@dataclass(frozen=True)
class Chain:
    """The content of a problem: where to start and what to apply."""

    start: int
    """In [0, MODULUS)."""
    operations: tuple[str, ...]
    """Members of OPERATIONS, at least one."""

    @property
    def question(self) -> str:
        """The problem as text, `3 +4 *2`."""
        return " ".join((str(self.start), *self.operations))

    def values(self) -> tuple[int, ...]:
        """The value after each operation; the last one is the answer."""
        reached, value = [], self.start
        for operation in self.operations:
            value = apply(operation, value)
            reached.append(value)
        return tuple(reached)

    def answer(self) -> str:
        """The value after the last operation, as text."""
        return str(self.values()[-1])


def apply(operation: str, value: int) -> int:
    """One step of a chain: `apply("+4", 9) == 2`, `apply("*2", 7) == 3`."""
    operand = int(operation[1:])
    return (value + operand if operation[0] == "+" else value * operand) % MODULUS


def read_question(question: str) -> Chain | None:
    """Text of a problem -> its chain; None when it is not one."""
    start, *operations = question.split() or [""]
    if start not in VALUES or not operations or not set(operations) <= set(OPERATIONS):
        return None
    return Chain(int(start), tuple(operations))


def write_derivation(operations: Sequence[str], values: Sequence[int | str]) -> str:
    """Operations and the values they lead to -> `+4 7 *2 3`; as long as the shorter of the two."""
    steps = zip(operations, values, strict=False)
    return " ".join(f"{operation} {value}" for operation, value in steps)


def read_derivation(chain: Chain, text: str) -> tuple[tuple[str, ...], bool]:
    """Follow a reply for as long as it restates the chain's operations with a value after each.

    Returns:
        The values read, and whether the reply is the whole derivation and nothing else.
    """
    tokens = text.split()
    if tokens and tokens[-1] == END:
        tokens.pop()
    values: list[str] = []
    pairs = zip(tokens[0::2], tokens[1::2], strict=False)
    for (operation, value), expected in zip(pairs, chain.operations, strict=False):
        if operation != expected or value not in VALUES:
            break
        values.append(value)
    complete = len(values) == len(chain.operations) and len(tokens) == 2 * len(values)
    return tuple(values), complete


def judge_modchain(problem: Problem, text: str) -> Verdict:
    """Judge a reply: right when the derivation is complete and its last value is the answer."""
    chain = read_question(problem.question)
    if chain is None or problem.answer != chain.answer():
        return Verdict(correct=None, reason="unscorable")
    values, complete = read_derivation(chain, visible_text(text) or "")
    if not complete:
        return Verdict(correct=False, reason="no_answer")
    correct = values[-1] == problem.answer
    return Verdict(correct, "match" if correct else "mismatch", answer=values[-1])


@dataclass(frozen=True)
class ModchainTemplate:
    """Prompts and replies of ModChain (a `Template`)."""

    name: str = "modchain"

    def messages(self, observation: Mapping[str, str]) -> Messages:
        """One user message: the instructions, then a line `<question>` or `<question> D: <draft>`.

        A solver whose rival left nothing to show gets the plain line.
        """
        draft = " ".join(observation["draft"].split())
        line = f"{observation['problem']} D: {draft}" if draft else observation["problem"]
        return [{"role": "user", "content": f"{INSTRUCTIONS}\n{line}"}]

    def read(self, problem: Problem, text: str) -> Reply:
        """Reply -> its answer, and the summary that a rival may see.

        The summary is the derivation as far as it restates the operations, with the last value
        withheld; whatever else a reply says never reaches the rival.
        """
        chain = read_question(problem.question)
        if chain is None:
            return Reply(thinking(text), answer=None, summary="", well_formed=False)
        values, complete = read_derivation(chain, visible_text(text) or "")
        shown = (*values[:-1], WITHHELD) if len(values) == len(chain.operations) else values
        return Reply(
            thinking=thinking(text),
            answer=values[-1] if complete else None,
            summary=write_derivation(chain.operations, shown),
            well_formed=complete,
        )


MODCHAIN_TEMPLATE = ModchainTemplate()


def _draw(lengths: tuple[int, ...], rng: np.random.Generator) -> Sketch:
    length = lengths[rng.integers(len(lengths))]
    chosen = rng.permutation(len(OPERATIONS))[:length]
    chain = Chain(int(rng.integers(MODULUS)), tuple(OPERATIONS[i] for i in chosen))
    return Sketch(
        question=chain.question,
        solve=chain.answer,
        topic="modular arithmetic",
        difficulty=float(length),
    )


register("modchain", judge_modchain, where="inline")
for _level, _lengths in LENGTHS.items():
    register_procedural(
        f"modchain-{_level}",
        partial(_draw, _lengths),
        verifier="modchain",
        template=MODCHAIN_TEMPLATE,
        description=f"{min(_lengths)} to {max(_lengths)} operations modulo {MODULUS}, step by step",
    )
