r"""Expression trees -> equal or not, by exact rational arithmetic and by high-precision values.

Constants are compared exactly where both are rational of bounded size, else at 60 and 250 digits
with a *relative* tolerance and no chopping: `e^{-50}` and `e^{-60}` differ. Expressions
with symbols are compared at fixed pseudo-random points, positive and of mixed sign, again at two
precisions: two different expressions agree on all of them with negligible probability.
Where an expression is real at a point and the other is not, the point does not count
(`x^{2/3}` and `\sqrt[3]{x^2}` are taken to be equal).

Sizes are bounded before anything is computed: a tower of powers is `TooBigError`, never a hang.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath
from mpmath import mp

from agon_env.verifiers.math.exact import TooBigError, UndefinedError, exact_value
from agon_env.verifiers.math.expression import Node, names
from agon_env.verifiers.math.floating import FloatEvaluator

CONSTANTS = frozenset(("e", "i"))
_PRECISIONS = (60, 250)
_POINT_PRECISIONS = (40, 120)


def same_value(gold: Node, answer: Node) -> bool | None:
    r"""Whether two expressions are equal; None when neither could be evaluated.

    A bare `\log` is read with base e and with base 10, the same on both sides; either will do.
    """
    found: bool | None = None
    for log_base in (None, 10):
        found = _same_in_base(gold, answer, log_base)
        if found or not (_mentions(gold, "log") or _mentions(answer, "log")):
            return found
    return found


def _same_in_base(gold: Node, answer: Node, log_base: int | None) -> bool | None:
    symbols = (names(gold) | names(answer)) - CONSTANTS
    if not symbols:
        a, b = exact_value(gold), exact_value(answer)
        if a is not None and b is not None:
            return a == b
        if _far_apart(approximate(gold), approximate(answer)) and log_base is None:
            return False
        return _same_at(gold, answer, {}, _PRECISIONS, log_base)
    return _same_everywhere(gold, answer, sorted(symbols), log_base)


def _same_everywhere(
    gold: Node, answer: Node, symbols: list[str], log_base: int | None
) -> bool | None:
    variables = [name for name in symbols if not name.endswith("()")]
    real, other = [], []
    integers = _needs_integers(gold) or _needs_integers(answer)
    points = _points(variables, integers=integers)
    if not integers and (_has_kinks(gold) or _has_kinks(answer)):
        points += _far_points(variables, constants(gold) | constants(answer))
    for env in points:
        try:
            a, b = (_values(n, env, _POINT_PRECISIONS, log_base) for n in (gold, answer))
        except (UndefinedError, TooBigError, OverflowError):
            continue
        if any(mpmath.im(v) != 0 for v in (*a, *b)):
            other.append(_close(a, b, _POINT_PRECISIONS))
        elif not _close(a, b, _POINT_PRECISIONS):
            return False
        else:
            real.append(True)
    if len(real) >= 2:
        return True
    return all(other) if other or real else None


def _points(variables: list[str], *, integers: bool) -> list[dict[str, Any]]:
    generator = random.Random(20260707)
    if integers:
        return [
            {name: mpmath.mpf(generator.randint(2, 11)) for name in variables} for _ in range(8)
        ]
    ranges = [(0.05, 0.95), (0.05, 0.95), (1, 3), (2, 6), (0.3, 4), (-3, 3), (-3, 3), (-0.9, 0.9)]
    return [
        {name: mpmath.mpf(generator.randint(1, 10**9)) / 10**9 * (high - low) + low
         for name in variables}
        for low, high in ranges
    ]  # fmt: skip


_KINKED = frozenset("abs max min floor ceil mod".split())
MAX_CORNERS = 12
MAX_MIXED = 6


def _has_kinks(node: Node) -> bool:
    """True for functions that are given piece by piece, and for even roots: sqrt((x - 7)^2)."""
    if node[0] == "fn" and node[1] in _KINKED:
        return True
    if node[0] == "pow":
        exponent = exact_value(node[2])
        if exponent is not None and exponent.denominator % 2 == 0:
            return True
    return any(_has_kinks(part) for part in node[1:] if isinstance(part, tuple))


def constants(node: Node) -> frozenset[Fraction]:
    """Sizes of the numbers in a tree: where a function may change its piece."""
    if node[0] == "num":
        return frozenset((abs(node[1]),))
    parts = [constants(part) for part in node[1:] if isinstance(part, tuple)]
    return frozenset().union(*parts)


def _far_points(variables: list[str], corners: frozenset[Fraction]) -> list[dict[str, Any]]:
    """Points on both sides of the constants and far out, the same for all symbols and mixed."""
    ends = [mpmath.mpf(c.numerator) / c.denominator for c in sorted(corners)[:MAX_CORNERS]]
    steps = [mpmath.mpf(1) / 3, -mpmath.mpf(2) / 7]
    values = [sign * end + step for end in ends for sign in (1, -1) for step in steps]
    values += [mpmath.mpf(n) + mpmath.mpf(1) / 7 for n in (50, -50, 1000, -1000)]
    points = [dict.fromkeys(variables, value) for value in values]
    if len(variables) > 1:
        turned = values[1:] + values[:1]
        for place, name in enumerate(variables[:MAX_MIXED]):
            points += [
                {**dict.fromkeys(variables, b), name: a + place}
                for a, b in zip(values, turned, strict=True)
            ][-8:]
    return points


def _needs_integers(node: Node) -> bool:
    """True for sums up to a symbol, common divisors and powers of a negative constant."""
    if node[0] in ("sum", "prod") and names(node[3]) | names(node[4]):
        return True
    if node[0] == "fn" and node[1] in ("gcd", "lcm"):
        return True
    if node[0] == "pow" and names(node[2]) - CONSTANTS and not names(node[1]):
        base = exact_value(node[1])
        if base is not None and base < 0:
            return True
    return any(_needs_integers(part) for part in node[1:] if isinstance(part, tuple))


def _mentions(node: Node, function: str) -> bool:
    if node[0] == "fn" and node[1] == function:
        return True
    return any(_mentions(part, function) for part in node[1:] if isinstance(part, tuple))


def _values(
    node: Node, env: Mapping[str, Any], precisions: tuple[int, int], log_base: int | None
) -> tuple[Any, Any]:
    found = []
    for digits in precisions:
        with mp.workdps(digits):
            found.append(FloatEvaluator(log_base).value(node, env))
    return found[0], found[1]


def _same_at(
    gold: Node,
    answer: Node,
    env: Mapping[str, Any],
    precisions: tuple[int, int],
    log_base: int | None = None,
) -> bool | None:
    try:
        a = _values(gold, env, precisions, log_base)
        b = _values(answer, env, precisions, log_base)
    except (UndefinedError, TooBigError, OverflowError):
        return None
    return _close(a, b, precisions)


def _close(a: tuple[Any, Any], b: tuple[Any, Any], precisions: tuple[int, int]) -> bool:
    """Equal to a relative 0.6 of the digits, or both no more than rounding noise around zero."""
    low, high = precisions
    with mp.workdps(high):
        size = max(abs(a[1]), abs(b[1]))
        if abs(a[1] - b[1]) <= mpmath.mpf(10) ** (-0.6 * high) * size:
            return True
        noise = mpmath.mpf(10) ** (-(high - low) / 2)
        return all(
            value[1] == 0 or (abs(value[1]) < 1e-20 and abs(value[1]) < noise * abs(value[0]))
            for value in (a, b)
        )


def constant_ratio(f: Node, g: Node) -> float | None:
    """The constant c with f = c g as functions of their symbols.

    None when there is none, or when f is a constant: "1 = 0" is no multiple of "2 = 0".
    """
    variables = [name for name in sorted(names(f) | names(g)) if not name.endswith("()")]
    integers = _needs_integers(f) or _needs_integers(g)
    pairs = []
    for env in _points(variables, integers=integers):
        try:
            pairs.append(tuple(_values(n, env, _POINT_PRECISIONS, None)[1] for n in (f, g)))
        except (UndefinedError, TooBigError, OverflowError):
            continue
    pairs = [(a, b) for a, b in pairs if mpmath.im(a) == 0 and mpmath.im(b) == 0]
    if len(pairs) < 3:
        return None
    (a0, b0), rest = pairs[0], pairs[1:]
    with mp.workdps(_POINT_PRECISIONS[1]):
        tolerance = mpmath.mpf(10) ** -50
        if a0 == 0 or b0 == 0 or all(abs(a - a0) <= tolerance * abs(a0) for a, _ in rest):
            return None
        if any(abs(a * b0 - a0 * b) > tolerance * abs(a * b0) for a, b in rest):
            return None
        return float(a0 / b0)


def _far_apart(a: Any | None, b: Any | None) -> bool:
    """True when two values differ beyond any loss of digits; spares the high precision."""
    if a is None or b is None:
        return False
    size = max(abs(a), abs(b))
    return size > 1e-15 and abs(a - b) > 1e-12 * size


@functools.lru_cache(maxsize=4096)
def approximate(node: Node) -> Any | None:
    """The value of a constant at 80 digits (mpmath real or complex); None when it has none."""
    if names(node) - CONSTANTS:
        return None
    try:
        with mp.workdps(80):
            return FloatEvaluator().value(node, {})
    except (UndefinedError, TooBigError, OverflowError):
        return None


def is_undefined(node: Node) -> bool:
    """True for a constant without a value, such as 0/0; a value that is too big has one."""
    if names(node) - CONSTANTS:
        return False
    try:
        with mp.workdps(30):
            FloatEvaluator().value(node, {})
    except UndefinedError:
        return True
    except (TooBigError, OverflowError):
        return False
    return False


def real_value(node: Node, env: Mapping[str, Any]) -> Any:
    """The real value at a point, 50 digits. Raises UndefinedError or TooBigError without one."""
    with mp.workdps(50):
        value = FloatEvaluator().value(node, env)
        if mpmath.im(value) != 0:
            raise UndefinedError("not real")
        return mpmath.re(value)
