"""Questions -> the same questions without repeats, whatever order they come in.

Two questions are duplicates when they are equal after spelling is normalised, and near-duplicates
when they have the same answer, the same numbers and mostly the same words and symbols: a reworded
copy, not a variation of the theme. Of each set the one with the smallest content hash stays, so
the result does not depend on row order.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from agon_env.tasks.procedural import content_hash

SIMILAR = 0.8
"""Share of common tokens (of all tokens of both) from which two questions are the same."""

LAYOUT = re.compile(
    r"\\(?:left|right|displaystyle|quad|qquad|text|mathrm|operatorname|[,;:!()\[\] ])|[$~]"
)
TOKEN = re.compile(r"\\[a-z]+|[a-z]+|\d+(?:\.\d+)?|[^\s\w{}.,;:?!]")
FILLER = frozenset(
    re.findall(
        r"\w+",
        "a an the of is are be find determine compute evaluate calculate what which please value "
        "following given that let to for in and we you your",
    )
)
"""Words that a rewording changes; a question is known by the others."""


def tokens(question: str) -> list[str]:
    """Words, LaTeX commands, numbers and symbols; case and layout are ignored."""
    text = unicodedata.normalize("NFKC", question).lower()
    text = LAYOUT.sub(" ", text).replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac")
    return TOKEN.findall(text)


@dataclass(frozen=True)
class Candidate:
    """A question with its answer, in the forms that are compared."""

    question: str
    answer: str

    @cached_property
    def tokens(self) -> list[str]:
        """As `tokens` reads them."""
        return tokens(self.question)

    @cached_property
    def digest(self) -> str:
        """Content hash of the normalised question: the same for every spelling of it."""
        return content_hash(" ".join(self.tokens) or self.question)

    @cached_property
    def bag(self) -> frozenset[tuple[str, int]]:
        """The tokens without filler, each with its count so far: a multiset as a set."""
        seen: Counter[str] = Counter()
        marked = set()
        for token in self.tokens:
            if token not in FILLER:
                marked.add((token, seen[token]))
                seen[token] += 1
        return frozenset(marked)

    @cached_property
    def bucket(self) -> tuple[str, ...]:
        """Near-duplicates are looked for among equal answers and equal numbers only."""
        numbers = sorted(token for token in self.tokens if token[0].isdigit())
        return ("".join(tokens(self.answer)), *numbers)


def similarity(one: Candidate, other: Candidate) -> float:
    """Common tokens / all tokens, in [0, 1]."""
    a, b = one.bag, other.bag
    if not a or not b:
        return float(a == b)
    common = len(a & b)
    return common / (len(a) + len(b) - common)


def repeats(candidates: Sequence[Candidate]) -> dict[int, str]:
    """Which candidates repeat another one.

    Returns:
        Index -> "duplicate" or "near-duplicate", for those to leave out. The rest holds no two
        that are similar, and is the same set of questions for every order of `candidates`.
    """
    order = sorted(
        range(len(candidates)),
        key=lambda i: (candidates[i].digest, candidates[i].question, candidates[i].answer),
    )
    counts = Counter(mark for candidate in candidates for mark in candidate.bag)
    index: defaultdict[object, list[Candidate]] = defaultdict(list)
    digests: set[str] = set()
    found: dict[int, str] = {}
    for position in order:
        candidate = candidates[position]
        if candidate.digest in digests:
            found[position] = "duplicate"
            continue
        keys = _shared_keys(candidate, counts)
        if any(_near(candidate, other) for key in keys for other in index[key]):
            found[position] = "near-duplicate"
            continue
        digests.add(candidate.digest)
        for key in keys:
            index[key].append(candidate)
    return found


def _shared_keys(candidate: Candidate, counts: Counter[tuple[str, int]]) -> list[object]:
    """Keys of which two similar candidates have at least one in common.

    Sets with a Jaccard index of SIMILAR share one of their rarest (1 - SIMILAR) * size + 1
    elements (prefix filtering): looking only there misses none and compares few.
    """
    rarest = sorted(candidate.bag, key=lambda mark: (counts[mark], mark))
    length = len(rarest) - math.ceil(SIMILAR * len(rarest)) + 1
    return [(candidate.bucket, mark) for mark in rarest[:length]] or [candidate.bucket]


def _near(one: Candidate, other: Candidate) -> bool:
    shorter, longer = sorted((len(one.bag), len(other.bag)))
    return shorter >= SIMILAR * longer and similarity(one, other) >= SIMILAR
