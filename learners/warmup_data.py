"""What a tiny model is taught before the game: rules of chains, a seed -> examples.

Two things make a pair worth training, and both are in this data.

Knowledge gaps. The step facts `(operation, state) -> value` are a table of 200 or so. Each model
has its own gaps: some facts never appear in its corpus, others carry a misconception, a wrong
value that is shown more often than the right one. Two models err on different facts, so there is
something to learn from a rival's draft.

A reading curriculum. Pretrained language models can read a draft; a model that was only shown
drafts which the target ignores does not discover reading within hundreds of updates. So the
targets follow the draft at first, values that contradict the facts included; later a draft errs
now and then and the target follows it in part of the cases.

Pure: numpy arrays from a generator; no model, no tokenizer, no files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agon_env.tasks.chains import Chain, ChainRules
from agon_env.tasks.procedural import content_split


@dataclass(frozen=True)
class Knowledge:
    """What one model is shown about the facts."""

    rules: ChainRules
    known: np.ndarray
    """(operations, states) of bool: does the fact appear in the corpus?"""
    belief: np.ndarray
    """(operations, states) of int: the misconception where there is one, else the fact."""

    @classmethod
    def draw(
        cls, rules: ChainRules, rng: np.random.Generator, *, unknown: float, mistaken: float
    ) -> Knowledge:
        """Random gaps: disjoint shares `unknown` and `mistaken` of the facts, rounded down."""
        facts = rules.facts
        order = rng.permutation(facts.size)
        n_unknown, n_mistaken = int(unknown * facts.size), int(mistaken * facts.size)
        known = np.ones(facts.size, dtype=bool)
        known[order[:n_unknown]] = False
        belief = facts.flatten()
        wrong = order[n_unknown : n_unknown + n_mistaken]
        belief[wrong] = another_value(rules, belief[wrong], rng)
        return cls(rules, known.reshape(facts.shape), belief.reshape(facts.shape))

    @property
    def mistaken(self) -> np.ndarray:
        """(operations, states) of bool: the facts with a misconception."""
        return self.belief != self.rules.facts


@dataclass(frozen=True)
class Curriculum:
    """How the examples of a warm-up are drawn. Shares are of 1."""

    unknown: float = 0.15
    """Share of the facts that never appear."""
    mistaken: float = 0.15
    """Share of the facts that carry a misconception."""
    mistake_shown: float = 0.55
    """How often a misconception is shown instead of its fact."""
    levels: tuple[tuple[str, float], ...] = (("easy", 0.25), ("medium", 0.45), ("hard", 0.3))
    """Share of each level. Without hard lengths a model skips steps of long chains."""
    with_draft: float = 0.5
    """Share of the examples that carry a draft."""
    copy_until: float = 0.3
    """Share of the steps in which the target follows the draft to the letter."""
    copy_noise: float = 0.5
    """In those steps: the share of a draft's values that are random."""
    draft_error: float = 0.3
    """Afterwards: the share of a draft's values that are wrong."""
    follow: float = 0.2
    """Afterwards: how often the target takes the draft's value where it disagrees."""


@dataclass(frozen=True)
class Examples:
    """B chains with their targets and drafts; row b is valid up to `lengths[b]`."""

    rules: ChainRules
    start_B: np.ndarray
    operations_BL: np.ndarray
    """Indices into the rules' operations."""
    values_BL: np.ndarray
    """The target: the value to write after each operation."""
    draft_BL: np.ndarray
    """The values of the draft; the last valid one is withheld from the prompt."""
    has_draft_B: np.ndarray
    lengths_B: np.ndarray

    def chain(self, row: int) -> Chain:
        """The problem of one row."""
        chosen = self.operations_BL[row, : self.lengths_B[row]]
        operations = tuple(self.rules.operations[i] for i in chosen)
        return Chain(self.rules, int(self.start_B[row]), operations)


def another_value(rules: ChainRules, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each value a different one, uniform over the others."""
    return (values + rng.integers(1, rules.n_values, size=values.shape)) % rules.n_values


def draw_examples(
    knowledge: Knowledge,
    curriculum: Curriculum,
    rng: np.random.Generator,
    *,
    size: int,
    copy: bool,
) -> Examples:
    """Draw `size` examples; with `copy` the targets follow their drafts to the letter.

    An operation is chosen among those whose fact at the value reached is known, so that an
    unknown fact never appears, whichever way the target went before.
    """
    rules, rows = knowledge.rules, np.arange(size)
    states = np.array(rules.states)
    lengths = _draw_lengths(rules, curriculum, rng, size)
    longest = int(lengths.max())
    has_draft = rng.random(size) < curriculum.with_draft
    start = rng.integers(rules.n_starts, size=size)
    operations, values, drafts = (np.zeros((size, longest), dtype=int) for _ in range(3))
    free = np.ones((size, len(rules.operations)), dtype=bool)
    value = start
    for step in range(longest):
        state = states[value]
        allowed = free & knowledge.known[:, state].T  # (B, operations)
        operation = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)  # (B,)
        free[rows, operation] = False
        readable = has_draft & (step < lengths - 1)
        draft = _draft_step(rules, operation, state, curriculum, rng, copy=copy)
        own = _own_step(operation, state, knowledge, curriculum, rng)
        taken = readable & (copy | (rng.random(size) < curriculum.follow))
        value = np.where(taken, draft, own)
        operations[:, step], values[:, step], drafts[:, step] = operation, value, draft
    return Examples(rules, start, operations, values, drafts, has_draft, lengths)


def training_rows(examples: Examples) -> np.ndarray:
    """Rows whose problem belongs to the train split; the others are not to be shown."""
    rows = range(len(examples.lengths_B))
    return np.array([row for row in rows if content_split(examples.chain(row).question) == "train"])


def _draw_lengths(
    rules: ChainRules, curriculum: Curriculum, rng: np.random.Generator, size: int
) -> np.ndarray:
    names, shares = zip(*curriculum.levels, strict=True)
    levels = rng.choice(len(names), p=shares, size=size)
    return np.array([rng.choice(rules.lengths[names[level]]) for level in levels])


def _own_step(
    operation: np.ndarray,
    state: np.ndarray,
    knowledge: Knowledge,
    curriculum: Curriculum,
    rng: np.random.Generator,
) -> np.ndarray:
    mistaken = rng.random(state.shape) < curriculum.mistake_shown
    facts = knowledge.rules.facts
    return np.where(mistaken, knowledge.belief[operation, state], facts[operation, state])


def _draft_step(
    rules: ChainRules,
    operation: np.ndarray,
    state: np.ndarray,
    curriculum: Curriculum,
    rng: np.random.Generator,
    *,
    copy: bool,
) -> np.ndarray:
    right = rules.facts[operation, state]
    wrong = rng.random(state.shape) < (curriculum.copy_noise if copy else curriculum.draft_error)
    return np.where(wrong, another_value(rules, right, rng), right)
