r"""Sets of real numbers: intervals, unions, inequalities in one unknown.

A region is a membership test with the finitely many points where it may change; two regions are
equal when they agree on all of these points, between them and beyond them. So `3<x<8` equals
`(3,8)`, `[1,3]\cup[2,5]` equals `[1,5]` and `2x<6` equals `x<3`, without solving anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import mpmath
from mpmath import mp

from agon_env.verifiers.math.exact import TooBigError, UndefinedError
from agon_env.verifiers.math.expression import Node, names
from agon_env.verifiers.math.numeric import approximate, constants, real_value

_SAME = mpmath.mpf(10) ** -30
_GRID = [mpmath.mpf(n) / 7 for n in (-7003, -71, -20, -13, -4, -1, 1, 3, 8, 15, 24, 76, 7001)]


@dataclass(frozen=True)
class Region:
    """A set of real numbers."""

    contains: Callable[[Any], bool]
    """Membership of a real number (mpmath)."""
    breaks: tuple[Any, ...]
    """Where membership may change, unsorted."""
    name: str | None = None
    """The unknown of an inequality; None for a bare interval."""

    @staticmethod
    def of_points(nodes: list[Node]) -> Region | None:
        """A finite set; None when a member is no real constant."""
        values = [_real(node) for node in nodes]
        if any(value is None for value in values):
            return None
        return Region(lambda x: any(_equal(x, value) for value in values), tuple(values))

    def union(self, other: Region) -> Region:
        """Points of either."""
        return self._with(other, lambda x: self.contains(x) or other.contains(x))

    def meet(self, other: Region) -> Region:
        """Points of both."""
        return self._with(other, lambda x: self.contains(x) and other.contains(x))

    def minus(self, other: Region) -> Region:
        """Points of the first that are not in the second."""
        return self._with(other, lambda x: self.contains(x) and not other.contains(x))

    def _with(self, other: Region, contains: Callable[[Any], bool]) -> Region:
        names_ = {self.name, other.name} - {None}
        name = self.name or other.name if len(names_) < 2 else "?"
        return Region(contains, self.breaks + other.breaks, name)

    def same(self, other: Region) -> bool:
        """Whether both hold the same numbers (and do not name different unknowns)."""
        if self.name and other.name and self.name != other.name:
            return False
        with mp.workdps(50):
            points = sorted({*self.breaks, *other.breaks})
            between = [(a + b) / 2 for a, b in pairwise(points)
                       if not _equal(a, b)]  # fmt: skip
            beyond = [points[0] - 1, points[-1] + 1] if points else []
            tests = [*points, *between, *beyond, *_GRID]
            return all(self.contains(x) == other.contains(x) for x in tests)


REALS = Region(lambda x: True, ())


def region_of_interval(
    low: Node | int | None, high: Node | int | None, closed: tuple[bool, bool]
) -> Region | None:
    """An interval between constants or infinities; None when an end is neither, or low > high."""
    a, b = _end(low), _end(high)
    if a is None or b is None or a > b or _equal(a, b):
        return None
    if (a == -mpmath.inf and closed[0]) or (b == mpmath.inf and closed[1]):
        closed = (closed[0] and a != -mpmath.inf, closed[1] and b != mpmath.inf)

    def contains(x: Any) -> bool:
        above = (closed[0] if _equal(x, a) else x > a)  # fmt: skip
        below = (closed[1] if _equal(x, b) else x < b)  # fmt: skip
        return above and below

    return Region(contains, tuple(v for v in (a, b) if mpmath.isfinite(v)))


def region_of_chain(sides: list[Node | int], operators: list[str]) -> Region | None:
    """A chain of inequalities in one unknown; None when there are more unknowns or none.

    Args:
        sides: Expressions, or +1/-1 for plus/minus infinity.
        operators: One of `<`, `>`, `\\le`, `\\ge` between each two sides.
    """
    unknowns: frozenset[str] = frozenset()
    for side in sides:
        if isinstance(side, tuple):
            unknowns |= names(side)
    if len(unknowns - {"e"}) == 1:
        unknowns -= {"e"}
    if len(unknowns) != 1 or any(name.endswith("()") for name in unknowns):
        return None
    (unknown,) = unknowns
    links = list(zip(sides, operators, sides[1:], strict=False))

    def contains(x: Any) -> bool:
        return all(_holds(_at(a, unknown, x), op, _at(b, unknown, x)) for a, op, b in links)

    breaks = tuple(b for a, _, c in links for b in _changes(a, c, unknown))
    return Region(contains, breaks, unknown)


def _at(side: Node | int, unknown: str, x: Any) -> Any:
    if isinstance(side, int):
        return side * mpmath.inf
    try:
        return real_value(side, {unknown: x})
    except (UndefinedError, TooBigError, OverflowError):
        return None


def _holds(a: Any, operator: str, b: Any) -> bool:
    if a is None or b is None:
        return False
    if _equal(a, b):
        return operator in ("\\le", "\\ge") and mpmath.isfinite(a)
    return bool(a < b) == (operator in ("<", "\\le"))


def _changes(a: Node | int, b: Node | int, unknown: str) -> list[Any]:
    """Where a - b may change sign: exact for a polynomial, else searched for.

    A point too many does no harm, membership is tested on both sides of each.
    """
    if isinstance(a, int) or isinstance(b, int):
        return []
    with mp.workdps(50):

        def difference(x: Any) -> Any:
            left, right = _at(a, unknown, x), _at(b, unknown, x)
            return None if left is None or right is None else left - right

        roots = _polynomial_roots(difference)
        if roots is not None:
            return roots
        sizes = [mpmath.mpf(c.numerator) / c.denominator for c in constants(a) | constants(b)]
        ends = [end for c in sizes for end in (c, mpmath.sqrt(c))]
        grid = sorted({*_SEARCHED, *(sign * end for end in ends for sign in (1, -1))})
        return [*ends, *(-end for end in ends), *_bisect(difference, grid)]


def _polynomial_roots(difference: Callable[[Any], Any]) -> list[Any] | None:
    """The real roots when the values at integers are those of a polynomial; None otherwise."""
    values = [difference(mpmath.mpf(n)) for n in range(-MAX_DEGREE, 3)]
    if None in values:
        return None
    coefficients, row = [], values
    while row and not all(_equal(1 + v, 1) for v in row):
        coefficients.append(row[0])
        row = [after - before for before, after in pairwise(row)]
    if len(row) < 3:
        return None
    power, basis = [mpmath.mpf(0)], [mpmath.mpf(1)]
    for place, coefficient in enumerate(coefficients):
        power = _added(power, [coefficient * c for c in basis])
        shift = mpmath.mpf(MAX_DEGREE - place)  # the next node is at -MAX_DEGREE + place
        basis = [c / (place + 1) for c in _added([*basis, 0], [shift * c for c in basis])]
    if any(not _equal(mpmath.polyval(power, x), difference(x)) for x in _FAR):
        return None
    while power and abs(power[0]) < _SAME:
        power = power[1:]
    if len(power) < 2:
        return []
    try:
        roots = mpmath.polyroots(power, maxsteps=200, extraprec=200)
    except (mp.NoConvergence, ZeroDivisionError):
        return None
    return [mpmath.re(root) for root in roots if abs(mpmath.im(root)) < mpmath.mpf(10) ** -12]


def _added(a: list[Any], b: list[Any]) -> list[Any]:
    """The sum of two polynomials, highest powers first."""
    size = max(len(a), len(b))
    pad = [[mpmath.mpf(0)] * (size - len(c)) + c for c in (a, b)]
    return [x + y for x, y in zip(*pad, strict=True)]


MAX_DEGREE = 8
_FAR = [mpmath.mpf(n) / 3 for n in (-30011, -77, 101, 29989)]
_SEARCHED = [
    *(mpmath.mpf(n) / 8 + mpmath.mpf(1) / 97 for n in range(-160, 161, 4)),
    *(sign * 20 * mpmath.mpf(2) ** k for k in range(30) for sign in (1, -1)),
]
"""Points between which a sign change is looked for: close near zero, then ever wider apart."""


def _bisect(difference: Callable[[Any], Any], grid: list[Any]) -> list[Any]:
    found = []
    values = [difference(x) for x in grid]
    for x, y, fx, fy in zip(grid, grid[1:], values, values[1:], strict=False):
        if fx is None or fy is None or fx * fy > 0:
            continue
        for _ in range(150):
            middle = (x + y) / 2
            fm = difference(middle)
            if fm is None:
                break
            x, y, fx = (middle, y, fm) if fx * fm > 0 else (x, middle, fx)
        found.append((x + y) / 2)
    return found


def _real(node: Node) -> Any | None:
    value = approximate(node)
    return None if value is None or mpmath.im(value) != 0 else mpmath.re(value)


def _end(end: Node | int | None) -> Any | None:
    if end is None:
        return None
    return end * mpmath.inf if isinstance(end, int) else _real(end)


def _equal(a: Any, b: Any) -> bool:
    if a == b:
        return True
    if not (mpmath.isfinite(a) and mpmath.isfinite(b)):
        return False
    return abs(a - b) <= _SAME * max(1, abs(a), abs(b))
