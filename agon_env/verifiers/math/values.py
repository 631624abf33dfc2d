r"""Canonical answer text -> a value of one kind: number, list, set, tuple, interval, equation, ...

The outer structure of an answer (brackets, commas, "or", relations, moduli, units) is read here;
only the pieces in between are expressions. What fits no kind is `Opaque`, which equals nothing but
its own spelling: "7 or more", "\neq 7" and "7 \to 8" never expose a 7.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from agon_env.verifiers.math.brackets import balanced, split_top
from agon_env.verifiers.math.expression import Node, names
from agon_env.verifiers.math.kinds import (
    Cases,
    Grid,
    Infinite,
    Items,
    Named,
    Opaque,
    Relation,
    Residue,
    Scalar,
    Value,
)
from agon_env.verifiers.math.leaves import (
    parse_limit,
    parse_or_none,
    read_constant,
    read_ellipsis,
    read_numeral,
    read_ratio,
    read_scalar,
    read_words,
)
from agon_env.verifiers.math.normalize import squeeze
from agon_env.verifiers.math.numeric import approximate, same_value
from agon_env.verifiers.math.regions import REALS, Region, region_of_chain, region_of_interval
from agon_env.verifiers.math.words import HEDGES, plain_words, tokens_of

MAX_ITEMS = 64
MAX_NESTING = 6


def read_value(text: str, depth: int = 0) -> Value:
    """The value of a canonical text. Total: what cannot be read is `Opaque`."""
    text = text.strip(" ,;")
    if not text or depth > MAX_NESTING:
        return Opaque(text)
    for leaf in _LEAVES_FIRST:
        if (value := leaf(text)) is not None:
            return value
    for reader in _NESTED:
        if (value := reader(text, depth)) is not None:
            return value
    for leaf in _LEAVES_LAST:
        if (value := leaf(text)) is not None:
            return value
    return Opaque(text)


# --- readers, in order; each returns None when the text is not its kind ---

_ENVIRONMENT = re.compile(r"^\\begin\{\s*([a-z]*matrix|array|cases)\s*\}\s*(?:\{[clr| ]*\})?")


def _environment(text: str, depth: int) -> Value | None:
    """A matrix or a piecewise definition that is the whole text."""
    bare = re.sub(r"^[\[(](?=\s*\\begin)|(?<=\})\s*[\])]$", "", text)
    if scaled := _scaled_matrix(bare, depth):
        return scaled
    m = _ENVIRONMENT.match(bare)
    end = re.search(r"\\end\{\s*[a-z]*\s*\}$", bare)
    if not (m and end) or bare.count("\\begin") != 1:
        return None
    body = bare[m.end() : end.start()]
    rows = [row.split("&") for row in re.split(r"\\cr(?![A-Za-z])", body) if row.strip()]
    if m.group(1) == "cases":
        return Cases(tuple(tuple(squeeze(cell.strip(" ,;.")) for cell in row) for row in rows))
    return _grid([[cell.strip() for cell in row] for row in rows], depth)


_FACTOR = re.compile(r"^([^&]{1,80}?)\s*(?:\\cdot)?\s*(\\begin\{\s*[a-z]*matrix.*)$", re.DOTALL)
_TRANSPOSED = re.compile(r"(.*\})\s*\^\s*\{?\s*(?:T|\\top|\\intercal)\s*\}?$", re.DOTALL)


def _scaled_matrix(text: str, depth: int) -> Grid | None:
    """A number times a matrix, or a transposed matrix, entry by entry."""
    if m := _TRANSPOSED.match(text):
        grid = _environment(m.group(1), depth + 1) if depth <= MAX_NESTING else None
        return Grid(tuple(zip(*grid.rows, strict=True))) if isinstance(grid, Grid) else None
    if not (m := _FACTOR.match(text)):
        return None
    factor = ("neg", ("num", Fraction(1))) if m.group(1) == "-" else parse_or_none(m.group(1))
    grid = _environment(m.group(2), depth + 1) if depth <= MAX_NESTING else None
    if factor is None or not isinstance(grid, Grid):
        return None
    cells = [cell.node if isinstance(cell, Scalar) else None for row in grid.rows for cell in row]
    if None in cells:
        return None
    return Grid(
        tuple(
            tuple(replace(cell, node=("mul", factor, cell.node), places=None) for cell in row)  # type: ignore[union-attr, type-var]
            for row in grid.rows
        )
    )


def _grid(rows: list[list[str]], depth: int) -> Value | None:
    if not rows or len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MAX_ITEMS:
        return None
    return Grid(tuple(tuple(read_value(cell, depth + 1) for cell in row) for row in rows))


_REMARK = re.compile(
    r"(?:,|\(|\\text\{\s*(?:for|where|with)\b[^{}]*\}|\\forall)\s*(?:\\text\{[^{}]*\})?\s*"
    r"(?:[a-zA-Z](?:\s*,\s*[a-zA-Z])*\s*\\in\s*\\[ZNRQC](?:[\^_]\{?\w+\}?)?|"
    r"[a-zA-Z]\s*(?:\\(?:ge|le|ne)|[<>])\s*-?\d+|[a-zA-Z]|"
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
    modulus = parse_or_none(m.group(1).strip("{} "))
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
    text = re.sub(r"(?<=[)\]])\s*\^\s*\{?\s*(?:T|\\top)\s*\}?$", "", text)
    for opener, closer in _PAIRS:
        if text.startswith(opener) and text.endswith(closer) and len(text) > len(opener):
            inner = text[len(opener) : -len(closer)].strip()
            if not balanced(inner):
                continue
            if opener == "\\{":
                return _set(inner, depth)
            return _tuple(inner, opener, closer, depth)
    return None


_PAIRS = [("\\{", "\\}"), ("\\langle", "\\rangle"), ("(", ")"), ("[", "]"), ("(", "]"), ("[", ")")]


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
    nodes = [parse_limit(part) for part in parts]
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


def _relation(text: str, depth: int) -> Value | None:
    parts, operators = split_top(text, _RELATION)
    if len(parts) == 1:
        return None
    if operators[-1] == "\\approx":
        return _approximate(text, parts, operators, depth)
    if operators == ["\\ne"] and all(parts):
        left, right = parse_or_none(parts[0]), parse_or_none(parts[1])
        if left is None or right is None:
            return Opaque(text)
        excluded = Region.of_points([right]) if left[0] == "sym" else None
        if excluded is not None:
            return replace(REALS.minus(excluded), name=squeeze(parts[0]))
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
    value, rough = read_value(exact, depth + 1), parse_or_none(parts[-1])
    core = value.value if isinstance(value, Named) else value
    if not isinstance(core, Scalar) or core.node is None or rough is None:
        return Opaque(text)
    a, b = approximate(core.node), approximate(rough)
    close = a is not None and b is not None and abs(a - b) <= abs(a) * 0.05
    return value if close else Opaque(text)


_NAME = re.compile(
    r"\|?[A-Z]{2,4}\|?|\([a-z](?:\s*,\s*[a-z])+\)|m?\s*\\angle\s*[A-Z]{1,3}|\\frac\{d\w?\}\{d\w\}"
)
"""Names that are no symbols: a segment AB, a point (x, y), an angle, a derivative."""


def _name(text: str) -> bool:
    """True for what can name a value: a symbol, f(x), an angle, a word, a determinant."""
    if words := plain_words(text):
        return not HEDGES & set(tokens_of(words))
    if _NAME.fullmatch(text):
        return True
    node = parse_or_none(text)
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
        agree = all(a and b and same_value(a, b) for a, b in pairwise(nodes))
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


_LEAVES_FIRST = (read_constant, read_ellipsis, read_words, read_numeral)
_NESTED = (
    _environment, _residue, _remark, _set_operation, _bracketed, _list, _inequality, _relation,
)  # fmt: skip
_LEAVES_LAST = (read_ratio, read_scalar)
