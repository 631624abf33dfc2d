"""Expression trees -> exact fractions, with limits on size and on the number of steps.

2^{1000000} is compared digit for digit; a tower of powers is `TooBigError` before it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from agon_env.verifiers.math.expression import Node

MAX_BITS = 4_000_000
"""Largest exact integer, bits: 2^{1000000} is compared exactly, 9^{9^9} is not."""
MAX_FRACTION_BITS = 200_000
"""Largest numerator or denominator of a sum of true fractions, bits (gcd is quadratic)."""
MAX_TERMS = 5_000
MAX_STEPS = 60_000


class TooBigError(ArithmeticError):
    """The value exceeds the limits of this module."""


class UndefinedError(ArithmeticError):
    """No finite value: a division by zero, infinity minus infinity, an unknown operation."""


def exact_value(node: Node) -> Fraction | None:
    """The value as a fraction; None when it is irrational, unbounded or too big."""
    try:
        return _Exact().value(node, {})
    except (UndefinedError, TooBigError):
        return None


class _Exact:
    """Rational arithmetic with limits on sizes and on the number of steps."""

    def __init__(self) -> None:
        self.steps = 0

    def value(self, node: Node, env: Mapping[str, Fraction]) -> Fraction:
        found = self.computed(node, env)
        self.steps += 1 + _bits(found) // 256
        if self.steps > MAX_STEPS:
            raise TooBigError("too much work")
        return found

    def computed(self, node: Node, env: Mapping[str, Fraction]) -> Fraction:
        kind = node[0]
        if kind == "num":
            return node[1]
        if kind == "sym":
            if node[1] in env:
                return env[node[1]]
            raise UndefinedError(node[1])
        if kind in ("sum", "prod"):
            return self.series(node, env)
        if kind in ("call", "pm", "mp"):
            raise UndefinedError(kind)
        if kind == "fn":
            return _exact_function(node[1], [self.value(part, env) for part in node[2:]])
        parts = [self.value(part, env) for part in node[1:]]
        return _EXACT[kind](*parts)

    def series(self, node: Node, env: Mapping[str, Fraction]) -> Fraction:
        kind, body, variable, low, high = node
        first, last = self.value(low, env), self.value(high, env)
        if first.denominator != 1 or last.denominator != 1 or last - first > MAX_TERMS:
            raise TooBigError("a series needs integer limits, not too far apart")
        total = Fraction(kind == "prod")
        for index in range(int(first), int(last) + 1):
            term = self.value(body, {**env, variable: Fraction(index)})
            total = _add(total, term) if kind == "sum" else _mul(total, term)
            self.steps += _bits(total) // 256
        return total


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _add(a: Fraction, b: Fraction) -> Fraction:
    if max(_bits(a), _bits(b)) > MAX_FRACTION_BITS and a.denominator * b.denominator != 1:
        raise TooBigError("fraction")
    return a + b


def _mul(a: Fraction, b: Fraction) -> Fraction:
    if _bits(a) + _bits(b) > (MAX_BITS if a.denominator * b.denominator == 1 else 400_000):
        raise TooBigError("product")
    return a * b


def _div(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise UndefinedError("division by zero")
    if max(_bits(a), _bits(b)) > MAX_FRACTION_BITS and abs(a) != 1:
        raise TooBigError("quotient")
    return a / b


def _pow(a: Fraction, b: Fraction) -> Fraction:
    if b.denominator != 1:
        return _root_power(a, b)
    if a == 0 and b <= 0:
        raise UndefinedError("0^0 or division by zero")
    if a in (0, 1, -1):
        return a ** (int(b) % 2 if a == -1 else 1)
    if abs(b) * _bits(a) > MAX_BITS:
        raise TooBigError("power")
    return a ** int(b)


def _root_power(a: Fraction, b: Fraction) -> Fraction:
    """a^(p/q) where a is a perfect q-th power; UndefinedError otherwise."""
    q = b.denominator
    if a < 0 or q > 64 or _bits(a) > 20_000:
        raise UndefinedError("irrational or complex")
    above, below = _integer_root(a.numerator, q), _integer_root(a.denominator, q)
    if above is None or below is None:
        raise UndefinedError("irrational")
    return _pow(Fraction(above, below), Fraction(b.numerator))


def _integer_root(n: int, q: int) -> int | None:
    if q == 2:
        root = math.isqrt(n)
    else:
        low, high = 0, 1 << (n.bit_length() // q + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**q <= n else (low, middle - 1)
        root = low
    return root if root**q == n else None


def _exact_function(name: str, args: list[Fraction]) -> Fraction:
    if name == "abs":
        return abs(args[0])
    if name in ("floor", "ceil"):
        return Fraction(math.floor(args[0]) if name == "floor" else math.ceil(args[0]))
    if name in ("max", "min"):
        return max(args) if name == "max" else min(args)
    if name == "mod":
        if args[1] <= 0:
            raise UndefinedError("modulus")
        return args[0] % args[1]
    if any(arg.denominator != 1 for arg in args):
        raise UndefinedError(name)
    integers = [int(arg) for arg in args]
    if name in ("gcd", "lcm"):
        return Fraction(math.gcd(*integers) if name == "gcd" else math.lcm(*integers))
    if name in ("factorial", "factorial2", "binom") and min(integers) >= 0:
        return _counting(name, integers)
    raise UndefinedError(name)


def _counting(name: str, args: list[int]) -> Fraction:
    n = args[0]
    if name == "binom":
        if min(args[1], max(n - args[1], 0)) * max(n.bit_length(), 1) > 100_000:
            raise TooBigError("binomial")
        return Fraction(math.comb(n, args[1]))
    if n > 20_000:
        raise TooBigError("factorial")
    return Fraction(math.factorial(n) if name == "factorial" else math.prod(range(n, 0, -2)))


_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": _add,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "neg": lambda a: -a,
}
