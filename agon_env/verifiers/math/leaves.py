r"""Canonical text without inner structure -> a value: words, numerals, ratios, times, scalars.

Each reader returns None when the text is not its kind. None of them reads a part of a text: that is
`values.py`.
"""

from __future__ import annotations

import re
from fractions import Fraction

from agon_env.verifiers.math.brackets import balanced, split_top
from agon_env.verifiers.math.expression import Node, UnreadableError, parse_expression
from agon_env.verifiers.math.kinds import (
    Infinite,
    Items,
    Numeral,
    Opaque,
    Ratio,
    Scalar,
    Value,
    Words,
)
from agon_env.verifiers.math.regions import REALS
from agon_env.verifiers.math.units import split_quantity
from agon_env.verifiers.math.words import canonical_words, number_of_words, plain_words

_REALS = re.compile(r"^\\R$")
_NUMBER_SETS = {
    "\\Z": "all integers",
    "\\N": "natural numbers",
    "\\Q": "rational numbers",
    "\\C": "complex numbers",
}
_INFINITY = re.compile(r"^([+-]?)\s*\\infty$")


def read_constant(text: str) -> Value | None:
    flat = re.sub(r"\\text\{\s*(?:infinity|inf|infinite)\s*\}", r"\\infty", text)
    if m := _INFINITY.match(flat):
        return Infinite(-1 if m.group(1) == "-" else 1)
    if _REALS.match(text):
        return REALS
    if text in _NUMBER_SETS:
        return Words(_NUMBER_SETS[text])
    if re.fullmatch(r"\\emptyset|\\\{\s*\\\}", text):
        return Items("set", ())
    return None


_DECISION = re.compile(r"^(?:\\text\{)?\s*(?:yes|no|true|false)\s*(?:$|[,.;:}])", re.IGNORECASE)


def read_words(text: str) -> Value | None:
    if _DECISION.match(text):
        return Words(re.sub(r"\\text\{([^{}]*)\}", r"\1 ", text))
    words = plain_words(text)
    if words is None:
        return None
    name = canonical_words(words)
    if name in ("infinity", "negative infinity"):
        return Infinite(1 if name == "infinity" else -1)
    if name == "all real numbers":
        return REALS
    number = number_of_words(words)
    if number is not None:
        return Scalar(words, ("num", number))
    return Words(words)


def parse_limit(part: str) -> Node | int | None:
    if m := _INFINITY.match(part):
        return -1 if m.group(1) == "-" else 1
    return parse_or_none(part)


_NUMERAL = re.compile(
    r"^\(?\s*(?:\\text\{\s*)?([0-9A-Fa-f]+)\s*\}?\s*\)?\s*_\s*\{?\s*(?:\\text\{\s*)?(\d+|[a-z]+)[\s}]*$"
)
_BASES = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
          "eight": "8", "nine": "9", "ten": "10", "twelve": "12", "sixteen": "16"}  # fmt: skip
_BASE_WORDS = re.compile(
    r"^([0-9A-F]{1,})\s*\(?\s*\\text\{\s*\(?\s*(?:in\s+)?base[ -](\w+)\s*\)?\s*\}\s*\)?$"
)


def read_numeral(text: str) -> Value | None:
    m = _NUMERAL.match(text) or _BASE_WORDS.match(text)
    if m is None or not (m.group(2).isdecimal() or m.group(2) in _BASES):
        return None
    base = _BASES.get(m.group(2), m.group(2))
    try:
        int(m.group(1), int(base))
    except ValueError:
        return None
    if not m.group(1).isdecimal() and int(base) != 16:
        return None
    return Numeral(m.group(1).upper(), base)


_CLOCK = re.compile(r"^(\d{1,2}):([0-5]\d)(?::[0-5]\d)?$")
_HALF = re.compile(r"\s*\\?(?:text\{)?\s*([ap])\.?\s*m\.?\s*\}?$", re.IGNORECASE)


def read_ratio(text: str) -> Value | None:
    text = re.sub(r"\\text\{\s*:\s*\}", ":", text)
    half = _HALF.search(text) if ":" in text or re.match(r"^\d{1,2}\s*\\text", text) else None
    bare = text[: half.start()].strip() if half else text
    parts, _ = split_top(bare, re.compile(r"\s*:\s*|\\text\{\s*to\s*\}"))
    if len(parts) == 1 and not half:
        return None
    nodes = [parse_or_none(part) for part in parts]
    if any(node is None for node in nodes):
        return Opaque(text)
    clock = bare if _CLOCK.match(bare) or half else None
    if half and bare.isdecimal():
        clock = f"{bare}:00"
    return Ratio(tuple(nodes), clock, f"{half.group(1).lower()}m" if half else "")  # type: ignore[arg-type]


_DECIMAL = re.compile(r"^[+-]?\s*\d*\.(\d+)$")
_FOREIGN = re.compile(
    r"\\(?:int|iint|oint|lim|sum|prod|det|max|min|sup|inf|partial|Re|Im|arg|sgn|deg|nabla"
    r"|frac\s*\{\s*d)(?![A-Za-z])"
)
"""Operators that math-verify may know and `expression` does not."""


def _is_foreign(text: str) -> bool:
    """True for a well-formed use of such an operator: a differential, a limit, a range."""
    if not _FOREIGN.search(text) or not balanced(text):
        return False
    if re.search(r"\\(?:text|ldots|mod|pmod)(?![A-Za-z])", text):
        return False
    needs = {r"\\i*int": r"d\s*\\?[a-zA-Z]", r"\\lim": r"_.*\\to", r"\\(?:sum|prod)": r"_.*="}
    return all(
        re.search(mark, text) for operator, mark in needs.items()
        if re.search(operator + "(?![A-Za-z])", text)
    )  # fmt: skip


def read_scalar(text: str) -> Value | None:
    """One expression with its percent sign or unit."""
    quantity = split_quantity(text)
    if quantity is None:
        return Opaque(text)
    body = quantity.value.strip()
    percent = body.endswith("\\%")
    body = body[:-2].strip() if percent else body
    node = parse_or_none(body)
    if node is None:
        return Scalar(body, None, None, percent, quantity.unit) if _is_foreign(body) else None
    if quantity.scale != 1:
        node = ("mul", node, ("num", Fraction(quantity.scale)))
    if _has_sign(node):
        plus, minus = _signed(node, 1), _signed(node, -1)
        return Items("list", (Scalar(body, plus, None, percent, quantity.unit),
                              Scalar(body, minus, None, percent, quantity.unit)))  # fmt: skip
    m = _DECIMAL.match(body)
    return Scalar(body, node, len(m.group(1)) if m else None, percent, quantity.unit)


def _has_sign(node: Node) -> bool:
    return node[0] in ("pm", "mp") or any(_has_sign(n) for n in node[1:] if isinstance(n, tuple))


def _signed(node: Node, sign: int) -> Node:
    """The tree with every plus-minus read as `sign` (and every minus-plus as the opposite)."""
    parts = tuple(_signed(n, sign) if isinstance(n, tuple) else n for n in node[1:])
    if node[0] in ("pm", "mp"):
        positive = (node[0] == "pm") == (sign > 0)
        return parts[0] if positive else ("neg", parts[0])
    return (node[0], *parts)


def parse_or_none(text: str) -> Node | None:
    try:
        return parse_expression(text)
    except UnreadableError:
        return None


def read_ellipsis(text: str) -> Value | None:
    return Opaque(text) if text == "\\ldots" else None
