r"""(answer, gold, question) -> whether the answer only repeats what the question asks to work out.

Equality is blind to work: `11 * 4` is 44, and so is the question itself. Copies are found up to
brackets, order and neutral elements, as trees, and by spelling where there is no tree. What is
itself a final form (a number, a fraction, a symbol) and what the gold copies too is no parrot.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from typing import Any

from agon_env.verifiers.math.brackets import split_top
from agon_env.verifiers.math.choices import choices
from agon_env.verifiers.math.expression import Node
from agon_env.verifiers.math.leaves import parse_or_none
from agon_env.verifiers.math.normalize import canonical, squeeze

_UNEVALUATED = re.compile(
    r"\\(?:i*int|oint|lim|sum|prod|mod|pmod|bmod|partial|nabla|det)(?![A-Za-z])"
    r"|\\frac\s*\{\s*d(?![A-Za-z]{2})[^{}]*\}\s*\{\s*d\s*[a-z]"
    r"|\bd\s*/\s*d\s*[a-z]\b|\)\s*\^?\{?\s*(?:'|\\prime)|[fgh]'"
)
_FINAL_FORM = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\\frac\{\d+\}\{\d+\}|\d+/\d+|\w|\\?\w+)")
_REMAINDER = re.compile(r"(?:[^=]*\\equiv)?\s*(-?\d+)\(?\\(?:p?mod).*")
"""The gold with its modulus, `x \\equiv 3 \\pmod 7`: worked out."""
_EQUALS = re.compile(r"\s*=")
_FORMULA = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_PLAIN = re.compile(r"[\d(\-][\d\s()+\-*/^.×·÷−]*[\d)!]")
MAX_QUESTION = 4000
"""Characters of a question that are searched for formulas."""


def is_unevaluated(answer: str) -> bool:
    r"""True for an integral, limit, derivative, sum or remainder that stands unevaluated."""
    return bool(_UNEVALUATED.search(answer))


def is_parrot(answer: str, gold: str, question: str) -> bool:
    """True for an answer that leaves the question's work undone.

    Args:
        answer: The canonical answer. Of a chain of equations the last side counts.
        gold: The canonical gold.
        question: The question; "" or one with lettered choices has no parrots.
    """
    if not question or choices(question):
        return False
    parts, _ = split_top(answer, _EQUALS)
    last = parts[-1].strip()
    copy, target = squeeze(last), squeeze(gold)
    remainder = _REMAINDER.fullmatch(copy)
    if remainder and remainder.group(1) == target:
        return False
    if is_unevaluated(last) and not is_unevaluated(gold):
        return True
    if _FINAL_FORM.fullmatch(copy):
        return False
    node, wanted = parse_or_none(last), parse_or_none(gold)
    tree = None if node is None else _normal(node)
    if tree is not None and _is_compound(tree):
        if wanted is not None and _normal(wanted) == tree:
            return False
        if tree in _trees_of(question):
            return True
    asked = squeeze(canonical(question))
    unfinished = len(copy) >= 5 and len(copy) > len(target)
    return unfinished and copy in asked and not (len(target) > 3 and target in asked)


# --- trees up to brackets, order and neutral elements ---


@functools.lru_cache(maxsize=1024)
def _trees_of(question: str) -> frozenset[Any]:
    """The compound expressions that a question shows, each whole and in its parts."""
    text = question[:MAX_QUESTION]
    formulas = [next(filter(None, m.groups())) for m in _FORMULA.finditer(text)]
    rest = _FORMULA.sub(" $ ", text)
    formulas += [m.group() for m in _PLAIN.finditer(rest)]
    found: set[Any] = set()
    for formula in formulas:
        sides, _ = split_top(canonical(formula), _EQUALS)
        for side in sides:
            node = parse_or_none(side.strip(" ,.;?"))
            if node is not None:
                found |= _compounds(node)
    return frozenset(found)


def _compounds(node: Node) -> set[Any]:
    trees = {_normal(node)}
    for part in node[1:]:
        if isinstance(part, tuple):
            trees |= _compounds(part)
    return {tree for tree in trees if _is_compound(tree)}


def _is_compound(tree: Any) -> bool:
    """True for what has to be worked out; numbers, symbols and plain fractions have not."""
    if tree[0] in ("num", "sym"):
        return False
    if tree[0] == "mul" and all(part[0] == "num" for part in tree[1]):
        return len(tree[1]) > 1
    plain_fraction = tree[0] == "div" and tree[1][0] == tree[2][0] == "num"
    return not plain_fraction


_NEUTRAL = {"add": Fraction(0), "mul": Fraction(1)}


def _normal(node: Node) -> Any:
    """A tree with sums and products flat, sorted, and without 0 and 1."""
    kind = node[0]
    if kind in ("num", "sym"):
        return node
    if kind == "neg":
        inner = _normal(node[1])
        if inner[0] == "num":
            return ("num", -inner[1])
        return inner[1] if inner[0] == "neg" else ("neg", inner)
    if kind in _NEUTRAL:
        flat: list[Any] = []
        for part in map(_normal, node[1:]):
            flat.extend(part[1] if part[0] == kind else (part,))
        flat = [part for part in flat if part != ("num", _NEUTRAL[kind])]
        if len(flat) < 2:
            return flat[0] if flat else ("num", _NEUTRAL[kind])
        return (kind, tuple(sorted(flat, key=repr)))
    parts = tuple(_normal(part) if isinstance(part, tuple) else part for part in node[1:])
    if kind in ("div", "pow") and parts[1] == ("num", Fraction(1)):
        return parts[0]
    return (kind, *parts)
