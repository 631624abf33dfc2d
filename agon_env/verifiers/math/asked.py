r"""(answer value, question) -> whether its names and units are those that were asked about.

A number may carry a unit of the table whatever the question; a plain noun ("9 apples"), a name in
words ("lower bound = 2") and a sum of unknowns ("x + y = 5") say something else unless the question
speaks of them. With no question at hand, names and nouns pass.
"""

from __future__ import annotations

import re

from agon_env.verifiers.math.kinds import (
    Grid,
    Items,
    Named,
    Relation,
    Residue,
    Scalar,
    Value,
    Words,
)
from agon_env.verifiers.math.normalize import canonical, squeeze
from agon_env.verifiers.math.units import singular
from agon_env.verifiers.math.words import TEXT

_COUNTED = frozenset(
    "way people person point student item object solution integer pair value outcome arrangement"
    " possibility choice element ordered distinct different positive unique".split()
)
"""Nouns that any count may carry, with what stands before them."""
_RESULTS = frozenset("answer total result value sum number of the count amount".split())
"""Names that any value may carry."""


def is_asked(answer: Value, gold: str, text: str, question: str) -> bool:
    """Whether the nouns and names of an answer occur in the question (or in the gold).

    Args:
        answer: The value that was read.
        gold: The canonical gold.
        text: The canonical answer.
        question: The question; "" when there is none.
    """
    if isinstance(answer, Relation):
        return _is_stated(text, gold, question)
    if isinstance(answer, Named) and isinstance(answer.value, Words) and len(answer.name) > 2:
        return False  # "even = odd" is two words
    if not question:
        return all(len(nouns - _COUNTED) < 2 for nouns in _nouns(answer))
    spoken = {singular(word) for word in re.findall(r"[a-z]+", f"{question} {gold}".lower())}
    nouns = {singular(noun) for words in _nouns(answer) for noun in words}
    run = re.sub(r"[^a-z]", "", question.lower())
    strange = nouns - spoken - _COUNTED - _RESULTS
    if any(noun.removeprefix("numberof") not in run for noun in strange):
        return False
    name = answer.name if isinstance(answer, Named) else ""
    segment = re.fullmatch(r"\|?([A-Z]{2,4})\|?", name)
    return segment is None or segment.group(1) in question or segment.group(1) in gold


def _nouns(value: Value) -> list[set[str]]:
    """The words of each unit that are no units, and those of a name in words."""
    if isinstance(value, Scalar):
        return [set(value.unit.nouns)] if value.unit else []
    if isinstance(value, Named):
        named = " ".join(TEXT.findall(value.name)) or _bare_words(value.name)
        words = set(re.findall(r"[a-z]{2,}", named.lower()))
        return [*_nouns(value.value), *({word} for word in words)]
    if isinstance(value, Residue):
        return _nouns(value.value)
    if isinstance(value, Items):
        return [words for item in value.items for words in _nouns(item)]
    if isinstance(value, Grid):
        return [words for row in value.rows for cell in row for words in _nouns(cell)]
    return []


def _bare_words(name: str) -> str:
    """A name such as "Area"; "" for one with commands, brackets or capitals such as "AB"."""
    return name if re.fullmatch(r"[A-Za-z][a-z]{2,}", name) else ""


def _is_stated(text: str, gold: str, question: str) -> bool:
    """True unless "x + y = 5" answers a gold of 5 and the question has no x + y."""
    if re.search(r"[=<>]|\\(?:le|ge|ne)(?![A-Za-z])", gold):
        return True
    left = squeeze(text.partition("=")[0])
    return bool(left) and left in squeeze(canonical(question))
