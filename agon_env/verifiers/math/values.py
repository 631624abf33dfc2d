r"""Canonical answer text -> a value of one kind: number, list, set, tuple, interval, equation, ...

The outer structure of an answer (brackets, commas, "or", relations, moduli, units) is read here;
only the pieces in between are expressions. What fits no kind is `Opaque`, which equals nothing but
its own spelling: "7 or more", "\neq 7" and "7 \to 8" never expose a 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from agon_env.verifiers.math.expression import Node, Unreadable, names, parse_expression
from agon_env.verifiers.math.normalize import canonical, squeeze
from agon_env.verifiers.math.numeric import approximate, same_value
from agon_env.verifiers.math.regions import REALS, Region, region_of_chain, region_of_interval
from agon_env.verifiers.math.units import Unit, split_quantity
from agon_env.verifiers.math.words import canonical_words, number_of_words, plain_words

MAX_ITEMS = 200
MAX_NESTING = 6


@dataclass(frozen=True)
class Opaque:
    """Text that fits no kind; equal only to the same spelling."""

    text: str


@dataclass(frozen=True)
class Words:
    """An answer in words."""

    text: str


@dataclass(frozen=True)
class Infinite:
    """Plus or minus infinity."""

    sign: int


@dataclass(frozen=True)
class Scalar:
    """One expression, with what stands around it."""

    text: str
    node: Node | None
    """None: an expression only math-verify may know, such as an integral."""
    places: int | None = None
    """Digits behind the point when it is written as a decimal."""
    percent: bool = False
    unit: Unit | None = None


@dataclass(frozen=True)
class Items:
    """Several values: an unordered list, a set, or an ordered tuple."""

    kind: Literal["list", "set", "tuple", "named"]
    """"named": values with different names, such as x=1, y=2."""
    items: tuple[Value, ...]
    closed: tuple[bool, bool] | None = None
    """Of a tuple of two, whether each bracket is square: it may be an interval."""


@dataclass(frozen=True)
class Grid:
    """A matrix, row by row."""

    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Named:
    """A value with a name: x = 5, f(x) = 2x + 1, D = (0, 2)."""

    name: str
    value: Value


@dataclass(frozen=True)
class Relation:
    """Two expressions and what holds between them, not solved for a name."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Residue:
    """A value (or list of values) modulo something."""

    value: Value
    modulus: Node


@dataclass(frozen=True)
class Numeral:
    """Digits in a stated base."""

    digits: str
    base: str


@dataclass(frozen=True)
class Ratio:
    """a:b or a:b:c; `clock` is the spelling when it may be a time of day."""

    parts: tuple[Node, ...]
    clock: str | None = None
    half: str = ""
    """ "am" or "pm"."""


@dataclass(frozen=True)
class Cases:
    """A piecewise value: rows of (value, condition)."""

    rows: tuple[tuple[str, ...], ...]


Value: TypeAlias = (
    Opaque | Words | Infinite | Scalar | Items | Grid | Named | Relation | Residue | Numeral
    | Ratio | Cases | Region
)  # fmt: skip


def read_value(text: str, depth: int = 0) -> Value:
    """The value of a canonical text. Total: what cannot be read is `Opaque`."""
    text = text.strip(" ,;")
    if not text or depth > MAX_NESTING:
        return Opaque(text)
    for reader in _READERS:
        value = reader(text, depth)
        if value is not None:
            return value
    return Opaque(text)


# --- splitting ---

_OPEN = re.compile(r"\\\{|\\langle(?![A-Za-z])|\\begin(?![A-Za-z])|\\lfloor|\\lceil|[(\[{]")
_CLOSE = re.compile(r"\\\}|\\rangle(?![A-Za-z])|\\end(?![A-Za-z])|\\rfloor|\\rceil|[)\]}]")


def _top_level(text: str) -> Iterator[int]:
    """Positions outside every bracket."""
    depth, i = 0, 0
    while i < len(text):
        if m := _OPEN.match(text, i):
            depth += 1
            i = m.end()
        elif m := _CLOSE.match(text, i):
            depth -= 1
            i = m.end()
        else:
            if depth == 0:
                yield i
            m = re.compile(r"\\[A-Za-z]+|\\.").match(text, i)
            i = m.end() if m else i + 1


def split_top(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Split at separators outside brackets: (parts, separators)."""
    parts, found, start = [], [], 0
    for i in _top_level(text):
        if i >= start and (m := separator.match(text, i)) and m.end() > i:
            parts.append(text[start:i])
            found.append(m.group().strip())
            start = m.end()
    return [part.strip() for part in [*parts, text[start:]]], found


# --- readers, in order; each returns None when the text is not its kind ---

_REALS = re.compile(r"^\\R$")
_INFINITY = re.compile(r"^([+-]?)\s*\\infty$")


def _constant(text: str, depth: int) -> Value | None:
    flat = re.sub(r"\\text\{\s*(?:infinity|inf|infinite)\s*\}", r"\\infty", text)
    if m := _INFINITY.match(flat):
        return Infinite(-1 if m.group(1) == "-" else 1)
    if _REALS.match(text):
        return REALS
    if re.fullmatch(r"\\emptyset|\\\{\s*(?:\\emptyset)?\s*\\\}", text) and "{" not in text[-2:-1]:
        return Items("set", ())
    return None


def _words(text: str, depth: int) -> Value | None:
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


_ENVIRONMENT = re.compile(r"^\\begin\{\s*([a-z]*matrix|array|cases)\s*\}\s*(?:\{[clr| ]*\})?")


def _environment(text: str, depth: int) -> Value | None:
    """A matrix or a piecewise definition that is the whole text."""
    bare = re.sub(r"^[\[(](?=\s*\\begin)|(?<=\})\s*[\])]$", "", text)
    m = _ENVIRONMENT.match(bare)
    end = re.search(r"\\end\{\s*[a-z]*\s*\}$", bare)
    if not (m and end) or bare.count("\\begin") != 1:
        return None
    body = bare[m.end() : end.start()]
    rows = [row.split("&") for row in re.split(r"\\cr(?![A-Za-z])", body) if row.strip()]
    if m.group(1) == "cases":
        return Cases(tuple(tuple(squeeze(cell.strip(" ,;.")) for cell in row) for row in rows))
    return _grid([[cell.strip() for cell in row] for row in rows], depth)


def _grid(rows: list[list[str]], depth: int) -> Value | None:
    if not rows or len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MAX_ITEMS:
        return None
    return Grid(tuple(tuple(read_value(cell, depth + 1) for cell in row) for row in rows))


_REMARK = re.compile(
    r"(?:,|\(|\\text\{\s*(?:for|where|with)\b[^{}]*\}|\\forall)\s*(?:\\text\{[^{}]*\})?\s*"
    r"(?:[a-zA-Z](?:\s*,\s*[a-zA-Z])*\s*\\in\s*\\[ZNRQC](?:[\^_]\{?\w+\}?)?|[a-zA-Z]|"
    r"\\text\{[^{}]*integer[^{}]*\}|[a-zA-Z]\s*\\text\{[^{}]*integer[^{}]*\})?\s*\)?$"
)


def _remark(text: str, depth: int) -> Value | None:
    r"""Drop a remark on the domain of a symbol: "3k, k \in \Z", "n^2 for all n"."""
    m = _REMARK.search(text)
    if m is None or len(m.group().strip(" ,(")) < 5:
        return None
    rest = text[: m.start()].strip(" ,(")
    if not re.search(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])", rest):
        return None
    return read_value(rest, depth + 1)


_MOD = re.compile(
    r"\s*(?:\(\s*\\(?:mod|pmod)|\\pmod|\\mod|\(?\s*\\text\{\s*\(?\s*mod(?:ulo)?)(?![A-Za-z])\s*"
    r"(\{[^{}]*\}|[^(){}]*?)\s*\}?\s*\)*\s*\}?\s*$"
)


def _residue(text: str, depth: int) -> Value | None:
    m = _MOD.search(text)
    if m is None or not text[: m.start()].strip(" ("):
        return None
    modulus = _parse(m.group(1).strip("{} "))
    if modulus is None:
        return Opaque(text)
    left, _ = split_top(text[: m.start()].strip(" ,"), re.compile(r"\\equiv(?![A-Za-z])|="))
    value = read_value(left[-1].strip(), depth + 1)
    if len(left) == 1:
        return Residue(value, modulus)
    return Named(squeeze(left[0]), Residue(value, modulus)) if len(left) == 2 else Opaque(text)


_COMMA = re.compile(
    r"\s*(?:[,;]|\\(?:and|or)(?![A-Za-z]))(?:\s*(?:[,;]|\\(?:and|or)(?![A-Za-z])))*"
)


def _list(text: str, depth: int) -> Value | None:
    """Values joined by commas, "and" or "or", without brackets around them."""
    text = re.sub(r"^\\text\{\s*(?:either|both)\s*\}", "", text)
    parts, joints = split_top(text, _COMMA)
    if len(parts) == 1 or len(parts) > MAX_ITEMS:
        return None
    if not all(parts):
        return Opaque(text)
    values = [read_value(part, depth + 1) for part in parts]
    regions = [v for v in values if isinstance(v, Region)]
    if len(regions) == len(values) and not any(_is_bracketed(part) for part in parts):
        combined = regions[0]
        for region in regions[1:]:
            combined = combined.union(region) if "or" in joints[0] else combined.meet(region)
        return combined
    return _gather(values)


def _is_bracketed(part: str) -> bool:
    return part[:1] in ("(", "[", "]")


def _gather(values: list[Value]) -> Value:
    """One list; a name before the first value (or before each) names the whole list."""
    flat: list[Value] = []
    for value in values:
        nested = isinstance(value, Items) and value.kind == "list"
        flat.extend(value.items if nested else (value,))  # type: ignore[union-attr]
    named = [value for value in flat if isinstance(value, Named)]
    if len(named) == len(flat) and len({value.name for value in named}) == len(named):
        return Items("named", tuple(flat))
    if len(named) == len(flat) and len({value.name for value in named}) == 1:
        return Named(named[0].name, _gather([value.value for value in named]))
    if len(named) == 1 and flat[0] is named[0]:
        return Named(named[0].name, _gather([named[0].value, *flat[1:]]))
    return Items("list", tuple(flat))


_SET_OPERATOR = re.compile(r"\s*\\(?:cup|cap|setminus)(?![A-Za-z])")
_MINUS_SET = re.compile(r"^\\R\s*-\s*(\\\{.*\\\})$")


def _set_operation(text: str, depth: int) -> Value | None:
    if m := _MINUS_SET.match(text):
        text = f"\\R\\setminus{m.group(1)}"
    parts, operators = split_top(text, _SET_OPERATOR)
    if len(parts) == 1 or len(parts) > MAX_ITEMS:
        return None
    values = [read_value(part, depth + 1) for part in parts]
    if all(isinstance(v, Items) and v.kind == "set" for v in values) and "\\cap" not in operators:
        if "\\setminus" in operators:
            return Opaque(text)
        return Items("set", tuple(item for v in values for item in v.items))  # type: ignore[union-attr]
    regions = [as_region(value) for value in values]
    if any(region is None for region in regions):
        return Opaque(text)
    result = regions[0]
    for operator, region in zip(operators, regions[1:], strict=True):
        if operator == "\\cup":
            result = result.union(region)  # type: ignore[union-attr, arg-type]
        elif operator == "\\cap":
            result = result.meet(region)  # type: ignore[union-attr, arg-type]
        else:
            result = result.minus(region)  # type: ignore[union-attr, arg-type]
    return result


def as_region(value: Value) -> Region | None:
    """An interval, a finite set of numbers or a number as a set of reals; None otherwise."""
    if isinstance(value, Region):
        return value
    if isinstance(value, Named):
        region = as_region(value.value)
        return None if region is None else replace(region, name=value.name)
    if isinstance(value, Scalar):
        return None if value.node is None else Region.of_points([value.node])
    if isinstance(value, Items) and value.closed is not None:
        low, high = value.items
        return region_of_interval(_endpoint(low), _endpoint(high), value.closed)
    if isinstance(value, Items) and value.kind in ("set", "list"):
        nodes = [item.node for item in value.items if isinstance(item, Scalar)]
        if len(nodes) == len(value.items) and None not in nodes:
            return Region.of_points(nodes)  # type: ignore[arg-type]
    return None


def _endpoint(value: Value) -> Node | int | None:
    if isinstance(value, Infinite):
        return value.sign
    return value.node if isinstance(value, Scalar) else None


_BUILDER = re.compile(r"\\(?:mid|vert|Vert)(?![A-Za-z])|\||:")
_ISO = re.compile(r"^([\[\]])([^\[\]]*)([\[\]])$")


def _bracketed(text: str, depth: int) -> Value | None:
    """A set, tuple, interval or nested list that is the whole text."""
    if (m := _ISO.match(text)) and text[0] + text[-1] in ("][", "]]", "[["):
        opener = "(" if m.group(1) == "]" else "["
        text = opener + m.group(2) + (")" if m.group(3) == "[" else "]")
    for opener, closer in _PAIRS:
        if text.startswith(opener) and text.endswith(closer) and len(text) > len(opener):
            inner = text[len(opener) : -len(closer)].strip()
            if not _balanced(inner):
                continue
            if opener == "\\{":
                return _set(inner, depth)
            return _tuple(inner, opener, closer, depth)
    return None


_PAIRS = [("\\{", "\\}"), ("\\langle", "\\rangle"), ("(", ")"), ("[", "]"), ("(", "]"), ("[", ")")]


def _balanced(text: str) -> bool:
    depth, i = 0, 0
    while i < len(text):
        if m := _OPEN.match(text, i):
            depth += 1
        elif m := _CLOSE.match(text, i):
            depth -= 1
            if depth < 0:
                return False
        i = m.end() if m else i + 1
    return depth == 0


def _set(inner: str, depth: int) -> Value:
    parts, _ = split_top(inner, _BUILDER)
    if len(parts) == 2 and "," not in parts[0]:
        condition = read_value(parts[1], depth + 1)
        return condition if isinstance(condition, Region) else Opaque(inner)
    items, _ = split_top(inner, re.compile(r"[,;]"))
    if not all(items) or len(items) > MAX_ITEMS:
        return Opaque(inner)
    values = [read_value(item, depth + 1) for item in items]
    flat: list[Value] = []
    for value in values:
        both = isinstance(value, Items) and value.kind == "list"
        flat.extend(value.items if both else (value,))  # type: ignore[union-attr]
    return Items("set", tuple(flat))


def _tuple(inner: str, opener: str, closer: str, depth: int) -> Value | None:
    items, _ = split_top(inner, re.compile(r"[,;]"))
    if len(items) == 1 or len(items) > MAX_ITEMS:
        return None
    if not all(items):
        return Opaque(inner)
    values = tuple(read_value(item, depth + 1) for item in items)
    if opener == closer == "[" or (opener == "[" and all(i.startswith("[") for i in items)):
        rows = [value.items for value in values if isinstance(value, Items)]
        if len(rows) == len(values) and len({len(row) for row in rows}) == 1:
            return Grid(tuple(rows))
    if len(values) == 2 and opener in ("(", "["):
        closed = (opener == "[", closer == "]")
        pair = Items("tuple", values, closed)
        infinite = any(isinstance(value, Infinite) for value in values)
        return (as_region(pair) if infinite or closed[0] != closed[1] else None) or pair
    return Items("tuple", values)


_ORDER = re.compile(r"\s*(?:\\(?:le|ge)(?![A-Za-z])|<|>)")
_RELATION = re.compile(
    r"\s*(?:=|\\(?:ne|in|approx|equiv|to|mid|sim|subset|subseteq|ni)(?![A-Za-z]))"
)


def _inequality(text: str, depth: int) -> Value | None:
    parts, operators = split_top(text, _ORDER)
    if len(parts) == 1:
        return None
    nodes = [_limit(part) for part in parts]
    if any(node is None for node in nodes):
        return Opaque(text)
    region = region_of_chain(nodes, operators)  # type: ignore[arg-type]
    if region is not None:
        return region
    if len(parts) == 2 and all(isinstance(node, tuple) for node in nodes):
        left, right = nodes
        if operators[0] in (">", "\\ge"):
            left, right = right, left
        strict = "<" if operators[0] in ("<", ">") else "\\le"
        return Relation(strict, left, right)  # type: ignore[arg-type]
    return Opaque(text)


def _limit(part: str) -> Node | int | None:
    if m := _INFINITY.match(part):
        return -1 if m.group(1) == "-" else 1
    return _parse(part)


def _relation(text: str, depth: int) -> Value | None:
    parts, operators = split_top(text, _RELATION)
    if len(parts) == 1:
        return None
    if operators[-1] == "\\approx":
        return _approximate(text, parts, operators, depth)
    if operators == ["\\ne"] and all(parts):
        left, right = _parse(parts[0]), _parse(parts[1])
        if left is None or right is None:
            return Opaque(text)
        if left[0] == "sym" and not names(right) - {"e"}:
            return replace(REALS.minus(Region.of_points([right])), name=parts[0].strip())
        return Relation("\\ne", left, right)
    if operators == ["\\in"] and _name(parts[0]):
        return _named(parts[0], read_value(parts[1], depth + 1))
    if set(operators) != {"="} or not all(parts):
        return Opaque(text)
    return _equation(parts, depth, text)


def _named(name: str, value: Value) -> Value:
    if isinstance(value, Region):
        return replace(value, name=squeeze(name))
    return Opaque(name) if isinstance(value, Opaque) else Named(squeeze(name), value)


def _approximate(text: str, parts: list[str], operators: list[str], depth: int) -> Value:
    r"""`\sqrt{2} \approx 1.414` is its exact side, when the two agree to 5 percent."""
    if len(parts) < 2 or not parts[0] or operators.count("\\approx") != 1:
        return Opaque(text)
    exact = text[: text.rindex("\\approx")]
    value, rough = read_value(exact, depth + 1), _parse(parts[-1])
    core = value.value if isinstance(value, Named) else value
    if not isinstance(core, Scalar) or core.node is None or rough is None:
        return Opaque(text)
    a, b = approximate(core.node), approximate(rough)
    close = a is not None and b is not None and abs(a - b) <= abs(a) * 0.05
    return value if close else Opaque(text)


def _name(text: str) -> bool:
    """True for what can name a value: a symbol, f(x), an angle, a word, a determinant."""
    if plain_words(text) or re.fullmatch(r"\|?[A-Z]{2,4}\|?", text):
        return True
    node = _parse(text)
    return node is not None and node[0] in ("sym", "call") and text not in ("e", "i", "\\pi")


def _equation(parts: list[str], depth: int, text: str) -> Value:
    """a = b, a = b = c: a named value, one value written in several ways, or an equation."""
    if len(parts) == 2 and _name(parts[1]) and not _name(parts[0]):
        parts = parts[::-1]
    rest = parts[1:] if _name(parts[0]) else parts
    values = [read_value(part, depth + 1) for part in rest]
    if any(isinstance(value, Opaque) for value in values):
        return Opaque(text)
    nodes = [value.node if isinstance(value, Scalar) else None for value in values]
    if len(values) > 1:
        agree = None not in nodes and all(same_value(a, b) for a, b in zip(nodes, nodes[1:]))  # type: ignore[arg-type]  # noqa: B905
        if not agree:
            return _unsolved(nodes, text) if len(parts) == 2 else Opaque(text)
    if rest is parts:
        return values[-1]
    return _named(parts[0], values[-1])


def _unsolved(nodes: list[Node | None], text: str) -> Value:
    left, right = nodes
    if left is None or right is None or not names(left) | names(right):
        return Opaque(text)
    return Relation("=", left, right)


_NUMERAL = re.compile(
    r"^\(?\s*(?:\\text\{\s*)?([0-9A-F]{2,})\s*\}?\s*\)?\s*_\s*\{?\s*(?:\\text\{\s*)?(\d+|[a-z]+)\s*\}*$"
)
_BASES = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
          "eight": "8", "nine": "9", "ten": "10", "twelve": "12", "sixteen": "16"}  # fmt: skip
_BASE_WORDS = re.compile(
    r"^([0-9A-F]{1,})\s*\(?\s*\\text\{\s*\(?\s*(?:in\s+)?base[ -](\w+)\s*\)?\s*\}\s*\)?$"
)


def _numeral(text: str, depth: int) -> Value | None:
    m = _NUMERAL.match(text) or _BASE_WORDS.match(text)
    if m is None or not (m.group(2).isdecimal() or m.group(2) in _BASES):
        return None
    return Numeral(m.group(1).upper(), _BASES.get(m.group(2), m.group(2)))


_CLOCK = re.compile(r"^(\d{1,2}):([0-5]\d)(?::[0-5]\d)?$")
_HALF = re.compile(r"\s*\\?(?:text\{)?\s*([ap])\.?\s*m\.?\s*\}?$", re.IGNORECASE)


def _ratio(text: str, depth: int) -> Value | None:
    text = re.sub(r"\\text\{\s*:\s*\}", ":", text)
    half = _HALF.search(text) if ":" in text or re.match(r"^\d{1,2}\s*\\text", text) else None
    bare = text[: half.start()].strip() if half else text
    parts, operators = split_top(bare, re.compile(r"\s*:\s*|\\text\{\s*to\s*\}"))
    if len(parts) == 1 and not half:
        return None
    nodes = [_parse(part) for part in parts]
    if any(node is None for node in nodes):
        return Opaque(text)
    clock = bare if _CLOCK.match(bare) or half else None
    return Ratio(tuple(nodes), clock, f"{half.group(1).lower()}m" if half else "")  # type: ignore[arg-type]


_DECIMAL = re.compile(r"^[+-]?\s*\d*\.(\d+)$")
_FOREIGN = re.compile(
    r"\\(?:int|lim|iint|oint|frac\s*\{\s*d|sum|prod|det|Re|Im|arg|max|min|sup|inf|deg|partial|prime|"
    r"nabla|sgn|operatorname|infty|Li|erf|log|psi|zeta|Gamma)(?![A-Za-z])"
)


def _scalar(text: str, depth: int) -> Value | None:
    """One expression with its percent sign or unit."""
    quantity = split_quantity(text)
    if quantity is None:
        return Opaque(text)
    body = quantity.value.strip()
    percent = body.endswith("\\%")
    body = body[:-2].strip() if percent else body
    node = _parse(body)
    if node is None:
        foreign = _FOREIGN.search(body) and "\\text" not in body and "\\ldots" not in body
        return Scalar(body, None, None, percent, quantity.unit) if foreign else None
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


def _parse(text: str) -> Node | None:
    try:
        return parse_expression(text)
    except Unreadable:
        return None


def _ellipsis(text: str, depth: int) -> Value | None:
    return Opaque(text) if text == "\\ldots" else None


_READERS = (
    _constant, _ellipsis, _words, _environment, _residue, _remark, _set_operation, _bracketed,
    _list, _inequality, _numeral, _relation, _ratio, _scalar,
)  # fmt: skip


def value_of(text: str) -> Value:
    """The value of an answer as a model or a data set wrote it."""
    return read_value(canonical(text))
