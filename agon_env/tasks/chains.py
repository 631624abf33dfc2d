"""Chains: a start value, operations in a fixed order -> problems, verifier and prompts.

A problem `3 +4 *2` asks for a derivation `+4 7 *2 3`: every operation restated in order, each
followed by the value reached. One token per value and per operation, so a model of 0.2M parameters
can learn to derive, to read a rival's derivation and to be wrong about single facts: the whole game
at the scale of a CPU. What the operations do is a family's `ChainRules`: `modchain.py`, `carry.py`.

The verifier reads the answer and that the operations are restated; it does not check the values
inside the chain. A check of the outcome alone is not enough: trained against it, models skip the
derivation and guess. Where the derivation is complete, the reply is well formed. The solver is
shown a draft with its last value replaced by `?`.

Left out: a grammar for prose. A reply is a chain and nothing else, after any thinking block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from agon_env.extract import thinking, visible_text
from agon_env.prompts import Messages, Reply
from agon_env.tasks.procedural import Sketch, register_procedural
from agon_env.types import Problem, Verdict
from agon_env.verifiers.registry import register

END = "!"
"""Closes a derivation; optional, because it is the stop token of the tiny models."""
WITHHELD = "?"


@dataclass(frozen=True, eq=False)
class ChainRules:
    """A family of chains: its operations, and the value that each leads to."""

    name: str
    """Of the family and its verifier; the tasks are `name-easy`, `-medium`, `-hard`."""
    operations: tuple[str, ...]
    """Words; a problem holds none of them twice."""
    n_values: int
    """Values are 0 ... n_values - 1."""
    n_starts: int
    """A problem starts at one of the first so many values."""
    states: tuple[int, ...]
    """For each value, what of it the next step depends on: 0 ... max."""
    apply: Callable[[str, int], int]
    """(operation, state) -> the value reached."""
    answer: Callable[[Sequence[int]], str]
    """The values of a derivation -> its answer."""
    lengths: Mapping[str, tuple[int, ...]]
    """Number of operations per level."""
    topic: str
    instructions: str
    """First line of every prompt. The tiny models, who learn the rules in a warm-up, skip it."""

    @cached_property
    def facts(self) -> np.ndarray:
        """(operations, states): the value that each step really leads to."""
        states = range(max(self.states) + 1)
        return np.array([[self.apply(op, state) for state in states] for op in self.operations])

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The values as words."""
        return tuple(map(str, range(self.n_values)))

    @cached_property
    def template(self) -> ChainTemplate:
        """The prompts and replies of the family."""
        return ChainTemplate(self)


@dataclass(frozen=True)
class Chain:
    """The content of a problem: where to start and what to apply."""

    rules: ChainRules
    start: int
    """Below `rules.n_starts`."""
    operations: tuple[str, ...]
    """Members of `rules.operations`, at least one."""

    @property
    def question(self) -> str:
        """The problem as text, `3 +4 *2`."""
        return " ".join((str(self.start), *self.operations))

    def values(self) -> tuple[int, ...]:
        """The value after each operation."""
        reached, value = [], self.start
        for operation in self.operations:
            value = self.rules.apply(operation, self.rules.states[value])
            reached.append(value)
        return tuple(reached)

    def answer(self) -> str:
        """The right answer, as text."""
        return self.rules.answer(self.values())


def read_question(rules: ChainRules, question: str) -> Chain | None:
    """Text of a problem -> its chain; None when it is not one."""
    start, *operations = question.split() or [""]
    known = start in rules.values[: rules.n_starts] and set(operations) <= set(rules.operations)
    return Chain(rules, int(start), tuple(operations)) if known and operations else None


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
        if operation != expected or value not in chain.rules.values:
            break
        values.append(value)
    complete = len(values) == len(chain.operations) and len(tokens) == 2 * len(values)
    return tuple(values), complete


def judge(rules: ChainRules, problem: Problem, text: str) -> Verdict:
    """Judge a reply: right when the derivation is complete and gives the answer."""
    chain = read_question(rules, problem.question)
    if chain is None or problem.answer != chain.answer():
        return Verdict(correct=None, reason="unscorable")
    values, complete = read_derivation(chain, visible_text(text) or "")
    if not complete:
        return Verdict(correct=False, reason="no_answer")
    answer = rules.answer(tuple(map(int, values)))
    correct = answer == problem.answer
    return Verdict(correct, "match" if correct else "mismatch", answer=answer)


@dataclass(frozen=True)
class ChainTemplate:
    """Prompts and replies of a family (a `Template`)."""

    rules: ChainRules

    @property
    def name(self) -> str:
        """The family's name."""
        return self.rules.name

    def messages(self, observation: Mapping[str, str]) -> Messages:
        """One user message: the instructions, then a line `<question>` or `<question> D: <draft>`.

        A solver whose rival left nothing to show gets the plain line.
        """
        draft = " ".join(observation["draft"].split())
        line = f"{observation['problem']} D: {draft}" if draft else observation["problem"]
        return [{"role": "user", "content": f"{self.rules.instructions}\n{line}"}]

    def read(self, problem: Problem, text: str) -> Reply:
        """Reply -> its answer, and the summary that a rival may see.

        The summary is the derivation as far as it restates the operations, with the last value
        withheld; whatever else a reply says never reaches the rival.
        """
        chain = read_question(self.rules, problem.question)
        if chain is None:
            return Reply(thinking(text), answer=None, summary="", well_formed=False)
        values, complete = read_derivation(chain, visible_text(text) or "")
        shown = (*values[:-1], WITHHELD) if len(values) == len(chain.operations) else values
        return Reply(
            thinking=thinking(text),
            answer=self.rules.answer(tuple(map(int, values))) if complete else None,
            summary=write_derivation(chain.operations, shown),
            well_formed=complete,
        )


FAMILIES: dict[str, ChainRules] = {}
"""Registered rules by name."""


def register_chains(rules: ChainRules) -> ChainRules:
    """Make a family's verifier and tasks known."""
    FAMILIES[rules.name] = rules
    register(rules.name, partial(judge, rules), where="inline")
    for level, lengths in rules.lengths.items():
        count = " to ".join(map(str, dict.fromkeys((min(lengths), max(lengths)))))
        register_procedural(
            f"{rules.name}-{level}",
            partial(_draw, rules, lengths),
            verifier=rules.name,
            template=rules.template,
            description=f"{rules.topic}, {count} operations, step by step",
        )
    return rules


def rules_of(task: str) -> ChainRules:
    """The rules of a task such as "modchain-hard".

    Raises:
        ValueError: The task is no task of chains.
    """
    family = task.partition("-")[0]
    if family not in FAMILIES:
        raise ValueError(f"task must be of {sorted(FAMILIES)} (name-level), got {task!r}")
    return FAMILIES[family]


def _draw(rules: ChainRules, lengths: tuple[int, ...], rng: np.random.Generator) -> Sketch:
    length = lengths[rng.integers(len(lengths))]
    chosen = rng.permutation(len(rules.operations))[:length]
    start = int(rng.integers(rules.n_starts))
    chain = Chain(rules, start, tuple(rules.operations[i] for i in chosen))
    return Sketch(
        question=chain.question,
        solve=chain.answer,
        topic=rules.topic,
        difficulty=float(length),
    )
