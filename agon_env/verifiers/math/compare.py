r"""Two values -> equal or not, by kind. The gold comes first; the rules are tabled in the docs.

Between kinds only what the table allows is equal: an interval and an inequality, a list and a set,
a named and a bare value. A list is never a single value, a number is never an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from agon_env.verifiers.math.exact import exact_value
from agon_env.verifiers.math.expression import Node, names
from agon_env.verifiers.math.kinds import (
    Cases,
    Grid,
    Infinite,
    Items,
    Named,
    Numeral,
    Opaque,
    Ratio,
    Relation,
    Residue,
    Scalar,
    Value,
    Words,
)
from agon_env.verifiers.math.normalize import squeeze
from agon_env.verifiers.math.numeric import (
    constant_ratio,
    same_value,
)
from agon_env.verifiers.math.regions import Region
from agon_env.verifiers.math.scalars import same_scalar
from agon_env.verifiers.math.values import as_region
from agon_env.verifiers.math.words import same_words


def same(gold: Value, answer: Value) -> bool:
    """Whether an answer of any kind is the gold."""
    if isinstance(gold, Opaque) or isinstance(answer, Opaque):
        return type(gold) is type(answer) and squeeze(gold.text) == squeeze(answer.text)  # type: ignore[union-attr]
    wanted, given = _without_names(gold, answer)
    if wanted is None or given is None:
        return False
    if type(wanted) is type(given):
        return _SAME_KIND[type(wanted)](wanted, given)
    return _same_across(wanted, given)


def _without_names(gold: Value, answer: Value) -> tuple[Value | None, Value | None]:
    """Strip names that agree, or that only one side has; (None, None) when they differ."""
    if isinstance(gold, Named) and isinstance(answer, Named):
        if gold.name == answer.name:
            return gold.value, answer.value
        renamed = _rename_argument(gold, answer)
        if renamed is not None:
            return gold.value, renamed
        if isinstance(gold.value, Scalar) and isinstance(answer.value, Scalar):
            return _equation(gold), _equation(answer)
        return None, None
    if isinstance(gold, Named) and not isinstance(answer, Relation | Region):
        return gold.value, answer
    if isinstance(answer, Named) and not isinstance(gold, Relation | Region):
        return gold, answer.value
    return gold, answer


def _rename_argument(gold: Named, answer: Named) -> Value | None:
    """The value of f(t) = ... written in the argument of the gold's f(x)."""
    (f, _, x), (g, _, t) = gold.name.partition("("), answer.name.partition("(")
    x, t = x.rstrip(")"), t.rstrip(")")
    bare = f == g and x.isalpha() and t.isalpha() and len(x) == len(t) == 1
    if not bare or not isinstance(answer.value, Scalar) or answer.value.node is None:
        return None
    if x in names(answer.value.node):
        return None
    return Scalar(answer.value.text, _substitute(answer.value.node, t, x))


def _substitute(node: Node, old: str, new: str) -> Node:
    if node == ("sym", old):
        return ("sym", new)
    return tuple(_substitute(part, old, new) if isinstance(part, tuple) else part for part in node)


def _equation(value: Value) -> Relation | None:
    r"""y = 2x+1 as an equation; None for a name with a constant: x = 5 is an answer for x."""
    if isinstance(value, Relation):
        return value if value.operator == "=" else None
    if not isinstance(value, Named) or not isinstance(value.value, Scalar):
        return None
    node = value.value.node
    if node is None or not names(node) or not value.name.isalpha() or len(value.name) != 1:
        return None
    return Relation("=", ("sym", value.name), node)


# --- one kind ---


def _same_words(gold: Words, answer: Words) -> bool:
    return same_words(gold.text, answer.text)


def _same_items(gold: Items, answer: Items) -> bool:
    if gold.kind == "named" or answer.kind == "named":
        return _same_named(gold, answer)
    if "tuple" in (gold.kind, answer.kind):
        if "set" in (gold.kind, answer.kind):
            return False
        if gold.closed and answer.closed and gold.closed != answer.closed:
            return False
        return _in_order(gold.items, answer.items)
    if any(_is_ellipsis(item) for item in (*gold.items, *answer.items)):
        return _in_order(gold.items, answer.items)
    a, b = list(gold.items), list(answer.items)
    if gold.kind == "set":
        a, b = _distinct(a), _distinct(b)
    return _in_any_order(a, b)


def _same_named(gold: Items, answer: Items) -> bool:
    if gold.kind == answer.kind:
        return _in_any_order(list(gold.items), list(answer.items), named=True)
    ordered, named = (answer, gold) if gold.kind == "named" else (gold, answer)
    if ordered.kind != "tuple" or ordered.closed not in (None, (False, False)):
        return False
    values = [item.value for item in sorted(named.items, key=lambda n: n.name)]  # type: ignore[union-attr]
    return _in_order(ordered.items, values)


def _is_ellipsis(value: Value) -> bool:
    return isinstance(value, Opaque) and value.text == "\\ldots"


def _in_order(gold: Sequence[Value], answer: Sequence[Value]) -> bool:
    return len(gold) == len(answer) and all(same(a, b) for a, b in zip(gold, answer, strict=True))


def _in_any_order(gold: list[Value], answer: list[Value], *, named: bool = False) -> bool:
    """A perfect matching; greedy, because equality of values is transitive up to rounding."""
    if len(gold) != len(answer):
        return False
    left = list(answer)
    for item in gold:
        for candidate in left:
            if named and (not isinstance(candidate, Named) or candidate.name != item.name):  # type: ignore[union-attr]
                continue
            if same(item, candidate):
                left.remove(candidate)
                break
        else:
            return False
    return True


def _distinct(values: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for value in values:
        if not any(same(other, value) for other in kept):
            kept.append(value)
    return kept


def _same_grid(gold: Grid, answer: Grid) -> bool:
    return len(gold.rows) == len(answer.rows) and all(
        _in_order(a, b) for a, b in zip(gold.rows, answer.rows, strict=True)
    )


def same_relation(gold: Relation, answer: Relation) -> bool:
    """Equations up to a constant factor; strict and weak inequalities up to a positive one."""
    if gold.operator != answer.operator:
        return False
    f: Node = ("add", gold.left, ("neg", gold.right))
    g: Node = ("add", answer.left, ("neg", answer.right))
    if not (names(f) and names(f) == names(g)) or same_value(f, ("num", Fraction(0))):
        return False
    ratio = constant_ratio(f, g)
    if ratio is None:
        return False
    return ratio > 0 if gold.operator in ("<", "\\le") else True


def _same_residue(gold: Residue, answer: Residue) -> bool:
    if not same_value(gold.modulus, answer.modulus):
        return False
    return same(gold.value, answer.value) or same(_reduced(gold), _reduced(answer))


def _reduced(residue: Residue) -> Value:
    """The value with every whole number replaced by its remainder."""
    if isinstance(residue.value, Items):
        items = tuple(_reduced(Residue(item, residue.modulus)) for item in residue.value.items)
        return Items(residue.value.kind, items)
    if isinstance(residue.value, Scalar) and residue.value.node is not None:
        rest = exact_value(("fn", "mod", residue.value.node, residue.modulus))
        if rest is not None:
            return Scalar(str(rest), ("num", rest))
    return residue.value


def _same_numeral(gold: Numeral, answer: Numeral) -> bool:
    return gold.base == answer.base and gold.digits.lstrip("0") == answer.digits.lstrip("0")


def _same_ratio(gold: Ratio, answer: Ratio) -> bool:
    if gold.half and answer.half and gold.half != answer.half:
        return False
    if gold.clock and answer.clock:
        return gold.clock.lstrip("0") == answer.clock.lstrip("0")
    a, b = gold.parts, answer.parts
    return len(a) == len(b) and all(
        same_value(("mul", a[0], y), ("mul", x, b[0])) for x, y in zip(a[1:], b[1:], strict=True)
    )


def _same_cases(gold: Cases, answer: Cases) -> bool:
    return len(gold.rows) == len(answer.rows) and set(gold.rows) == set(answer.rows)


_SAME_KIND = {
    Scalar: same_scalar,
    Words: _same_words,
    Infinite: lambda a, b: a.sign == b.sign,
    Items: _same_items,
    Grid: _same_grid,
    Relation: same_relation,
    Residue: _same_residue,
    Numeral: _same_numeral,
    Ratio: _same_ratio,
    Cases: _same_cases,
    Region: lambda a, b: a.same(b),
    Named: lambda a, b: a.name == b.name and same(a.value, b.value),
}


# --- across kinds ---


def _same_across(gold: Value, answer: Value) -> bool:
    """Kinds that differ, in either direction where the table allows both."""
    if isinstance(gold, Region) or isinstance(answer, Region):
        return _same_region(gold, answer)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        a, b = _equation(gold), _equation(answer)
        if a is not None and b is not None:
            return same_relation(a, b)
        return _states(answer, gold)
    for one, two in ((gold, answer), (answer, gold)):
        if isinstance(one, Items) and isinstance(two, Words):
            empty = not one.items and same_words("no solution", two.text)
            return empty or _word_list(one, two)
        if isinstance(one, Grid):
            return _grid_is(one, two)
        if isinstance(one, Items) and len(one.items) == 1 and one.kind == "set":
            return same(one.items[0], two)
        if isinstance(one, Residue):
            bare = two.value if isinstance(two, Named) else two
            stated = one is gold and same(one.value, bare)
            return stated or same(_reduced(one), bare)
        if isinstance(one, Numeral) and isinstance(two, Scalar):
            return squeeze(two.text).upper() == one.digits
        if isinstance(one, Ratio) and isinstance(two, Scalar) and two.node is not None:
            quotient = len(one.parts) == 2 and not one.half
            return quotient and bool(same_value(("div", one.parts[0], one.parts[1]), two.node))
    return False


def _states(answer: Value, gold: Value) -> bool:
    """ "x + y = 5" for a gold of 5: a term of several unknowns and its value."""
    if not isinstance(answer, Relation) or answer.operator != "=" or not isinstance(gold, Scalar):
        return False
    bare = not _has_coefficient(answer.left) and len(names(answer.left)) > 1
    if names(answer.right) or not bare:
        return False
    return gold.node is not None and bool(same_value(gold.node, answer.right))


def _has_coefficient(node: Node) -> bool:
    """True for a number outside an exponent: 2x + y = 5 is a line, x + y = 5 states a value."""
    if node[0] == "num":
        return True
    parts = node[1:2] if node[0] == "pow" else node[1:]
    return any(_has_coefficient(part) for part in parts if isinstance(part, tuple))


def _word_list(items: Items, words: Words) -> bool:
    parts = [item.text for item in items.items if isinstance(item, Words)]
    return len(parts) == len(items.items) > 0 and same_words(" and ".join(parts), words.text)


def _same_region(gold: Value, answer: Value) -> bool:
    """An interval, inequality or union against a pair of brackets or a finite set."""
    for one, two in ((gold, answer), (answer, gold)):
        if isinstance(one, Region) and isinstance(two, Items | Scalar | Named | Region):
            other = as_region(two)
            if isinstance(two, Items) and two.kind == "list":
                return False
            return other is not None and not isinstance(two, Scalar) and one.same(other)
    return False


def _grid_is(grid: Grid, other: Value) -> bool:
    """A vector against a tuple; the identity matrix against its name I."""
    if (
        isinstance(other, Items)
        and other.kind == "tuple"
        and other.closed in (None, (False, False))
    ):
        column = [row[0] for row in grid.rows] if len(grid.rows[0]) == 1 else None
        row = grid.rows[0] if len(grid.rows) == 1 else None
        entries = column if column is not None else row
        return entries is not None and _in_order(other.items, entries)
    if isinstance(other, Scalar) and squeeze(other.text) in ("I", f"I_{len(grid.rows)}"):
        return _is_identity(grid)
    return False


def _is_identity(grid: Grid) -> bool:
    return all(
        isinstance(cell, Scalar)
        and cell.node is not None
        and exact_value(cell.node) == (1 if i == j else 0)
        for i, row in enumerate(grid.rows)
        for j, cell in enumerate(row)
    ) and len(grid.rows) == len(grid.rows[0])
