r"""Two expressions with units, percent signs and decimals -> equal or not.

A missing unit is fine and a different one is not; 35\%, 35 and 0.35 are one answer when the gold
has the percent sign; a decimal counts for an exact gold when it is right to six decimals.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath

from agon_env.verifiers.math.algebra import same_algebra
from agon_env.verifiers.math.exact import exact_value
from agon_env.verifiers.math.expression import Node
from agon_env.verifiers.math.kinds import Scalar
from agon_env.verifiers.math.normalize import squeeze
from agon_env.verifiers.math.numeric import approximate, is_undefined, same_value

_HUNDRED: Node = ("num", Fraction(100))


def same_scalar(gold: Scalar, answer: Scalar) -> bool:
    """Numbers and expressions with units, percent signs and decimals."""
    if gold.node is None or answer.node is None:
        if squeeze(gold.text) == squeeze(answer.text):
            return gold.unit == answer.unit and gold.percent == answer.percent
        units = (gold.unit is None) == (answer.unit is None) and gold.percent == answer.percent
        return units and same_algebra(gold.text, answer.text)
    pairs = _readings(gold, answer)
    if any(a == b and not is_undefined(a) for a, b in pairs):
        return True
    return any(_same_number(a, b, gold, answer) for a, b in pairs)


def _readings(gold: Scalar, answer: Scalar) -> list[tuple[Node, Node]]:
    """The pairs of values of which one has to be equal, after units and percent signs."""
    wanted, given = gold.node, answer.node
    if wanted is None or given is None:
        return []
    if gold.percent != answer.percent:
        if gold.unit or answer.unit:
            return []
        plain, percent = (given, wanted) if gold.percent else (wanted, given)
        scaled: Node = ("div", percent, _HUNDRED)
        return ([(percent, plain), (scaled, plain)] if gold.percent
                else [(plain, percent), (plain, scaled)])  # fmt: skip
    a, b = gold.unit, answer.unit
    if a and b and not (a.generic or b.generic):
        if a.dimensions != b.dimensions:
            return []
        return [(("mul", wanted, a.factor), ("mul", given, b.factor))]
    pairs = [(wanted, given)]
    for unit, (x, y) in ((a, (1, 0)), (b, (0, 1))):
        if unit and unit.dimensions == (("angle", 1),) and _has_pi(given if x else wanted):
            factor = unit.factor
            pairs.append((("mul", wanted, factor) if x else wanted,
                          ("mul", given, factor) if y else given))  # fmt: skip
    return pairs


def _has_pi(node: Node) -> bool:
    return node == ("sym", "\\pi") or any(_has_pi(n) for n in node[1:] if isinstance(n, tuple))


def _same_number(a: Node, b: Node, gold: Scalar, answer: Scalar) -> bool:
    if same_value(a, b):
        return True
    if answer.places is not None:
        return _rounds_to(b, answer.places, a, gold_places=gold.places)
    if gold.places is not None:
        return _is_rounded(a, gold.places, b)
    return False


def _rounds_to(decimal: Node, places: int, exact: Node, *, gold_places: int | None) -> bool:
    """A decimal answer for an exact gold: right to six decimals, or to float precision.

    An integer gold is exact. A gold that is itself a decimal is only rounded, never blurred; and
    values too small for six decimals to mean anything need every digit.
    """
    a, b = exact_value(decimal), approximate(exact)
    whole = exact_value(exact)
    if (
        a is None
        or b is None
        or mpmath.im(b) != 0
        or (whole is not None and whole.denominator == 1)
    ):
        return False
    with mpmath.mp.workdps(50):
        value = mpmath.mpf(a.numerator) / a.denominator
        size = abs(b)
        if abs(value - b) <= size * mpmath.mpf(10) ** -10:
            return True
        if places < 6 or size < mpmath.mpf(10) ** -4:
            return False
        if gold_places is not None:
            return gold_places > places and abs(value - b) <= mpmath.mpf(10) ** -places / 2
        return mpmath.nint(value * 10**6) == mpmath.nint(b * 10**6)


def _is_rounded(decimal: Node, places: int, exact: Node) -> bool:
    """A gold such as 33.3 that is an exact answer rounded to three or more significant digits."""
    a, b = exact_value(decimal), approximate(exact)
    if a is None or b is None or mpmath.im(b) != 0 or abs(a) * 10**places < 100:
        return False
    with mpmath.mp.workdps(50):
        return mpmath.nint(b * 10**places) == int(a * 10**places)
