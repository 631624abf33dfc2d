r"""Expression trees -> equal or not, by exact rational arithmetic and by high-precision values.

Constants are compared exactly where both are rational of bounded size, else at 60 and 250 digits
with a *relative* tolerance and no chopping: `e^{-50}` and `e^{-60}` differ. Expressions with symbols
are compared at fixed pseudo-random points, positive and of mixed sign, again at two precisions:
two different expressions agree on all of them with negligible probability.
Where an expression is real at a point and the other is not, the point does not count
(`x^{2/3}` and `\sqrt[3]{x^2}` are taken to be equal).

Sizes are bounded before anything is computed: a tower of powers is `TooBig`, never a hang.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
from mpmath import mp

from agon_env.verifiers.math.expression import Node, names

MAX_BITS = 4_000_000
"""Largest exact integer, bits: 2^{1000000} is compared exactly, 9^{9^9} is not."""
MAX_FRACTION_BITS = 200_000
"""Largest numerator or denominator of a sum of true fractions, bits (gcd is quadratic)."""
MAX_EXPONENT = 1_000_000
"""Largest |ln| of a value computed in floating point."""
MAX_TERMS = 10_000
MAX_STEPS = 60_000


class TooBig(ArithmeticError):
    """The value exceeds the limits of this module."""


class Undefined(ArithmeticError):
    """No finite value: a division by zero, infinity minus infinity, an unknown operation."""


# --- exact ---


def exact_value(node: Node) -> Fraction | None:
    """The value as a fraction; None when it is irrational, unbounded or too big."""
    try:
        return _Exact().value(node, {})
    except (Undefined, TooBig):
        return None


class _Exact:
    """Rational arithmetic with limits on sizes and on the number of steps."""

    def __init__(self) -> None:
        self.steps = 0

    def value(self, node: Node, env: Mapping[str, Fraction]) -> Fraction:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooBig("too many steps")
        kind = node[0]
        if kind == "num":
            return node[1]
        if kind == "sym":
            if node[1] in env:
                return env[node[1]]
            raise Undefined(node[1])
        if kind in ("sum", "prod"):
            return self.series(node, env)
        if kind in ("call", "pm", "mp"):
            raise Undefined(kind)
        if kind == "fn":
            return _exact_function(node[1], [self.value(part, env) for part in node[2:]])
        parts = [self.value(part, env) for part in node[1:]]
        return _EXACT[kind](*parts)

    def series(self, node: Node, env: Mapping[str, Fraction]) -> Fraction:
        kind, body, variable, low, high = node
        first, last = self.value(low, env), self.value(high, env)
        if first.denominator != 1 or last.denominator != 1 or last - first > MAX_TERMS:
            raise TooBig("a series needs integer limits, not too far apart")
        total = Fraction(kind == "prod")
        for index in range(int(first), int(last) + 1):
            term = self.value(body, {**env, variable: Fraction(index)})
            total = _add(total, term) if kind == "sum" else _mul(total, term)
        return total


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _add(a: Fraction, b: Fraction) -> Fraction:
    if max(_bits(a), _bits(b)) > MAX_FRACTION_BITS and a.denominator * b.denominator != 1:
        raise TooBig("fraction")
    return a + b


def _mul(a: Fraction, b: Fraction) -> Fraction:
    if _bits(a) + _bits(b) > (MAX_BITS if a.denominator * b.denominator == 1 else 400_000):
        raise TooBig("product")
    return a * b


def _div(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Undefined("division by zero")
    if max(_bits(a), _bits(b)) > MAX_FRACTION_BITS and abs(a) != 1:
        raise TooBig("quotient")
    return a / b


def _pow(a: Fraction, b: Fraction) -> Fraction:
    if b.denominator != 1:
        return _root_power(a, b)
    if a == 0 and b <= 0:
        raise Undefined("0^0 or division by zero")
    if a in (0, 1, -1):
        return a ** (int(b) % 2 if a == -1 else 1)
    if abs(b) * _bits(a) > MAX_BITS:
        raise TooBig("power")
    return a ** int(b)


def _root_power(a: Fraction, b: Fraction) -> Fraction:
    """a^(p/q) where a is a perfect q-th power; Undefined otherwise."""
    q = b.denominator
    if a < 0 or q > 64 or _bits(a) > 20_000:
        raise Undefined("irrational or complex")
    above, below = _integer_root(a.numerator, q), _integer_root(a.denominator, q)
    if above is None or below is None:
        raise Undefined("irrational")
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
            raise Undefined("modulus")
        return args[0] % args[1]
    if any(arg.denominator != 1 for arg in args):
        raise Undefined(name)
    integers = [int(arg) for arg in args]
    if name in ("gcd", "lcm"):
        return Fraction(math.gcd(*integers) if name == "gcd" else math.lcm(*integers))
    if name in ("factorial", "factorial2", "binom") and min(integers) >= 0:
        return _counting(name, integers)
    raise Undefined(name)


def _counting(name: str, args: list[int]) -> Fraction:
    n = args[0]
    if name == "binom":
        if min(args[1], max(n - args[1], 0)) * max(n.bit_length(), 1) > 100_000:
            raise TooBig("binomial")
        return Fraction(math.comb(n, args[1]))
    if n > 20_000:
        raise TooBig("factorial")
    return Fraction(math.factorial(n) if name == "factorial" else math.prod(range(n, 0, -2)))


_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": _add,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "neg": lambda a: -a,
}


# --- floating point ---


def _check_size(value: Any) -> Any:
    if mpmath.isnan(value):
        raise Undefined("not a number")
    return value


def _fpow(a: Any, b: Any) -> Any:
    if a == 0:
        if mpmath.re(b) > 0:
            return mpmath.mpf(0)
        raise Undefined("0^0 or division by zero")
    if abs(b) * (abs(mpmath.log(abs(a))) + 4) > MAX_EXPONENT:
        raise TooBig("power")
    return mpmath.power(a, b)


def _fdiv(a: Any, b: Any) -> Any:
    if b == 0:
        raise Undefined("division by zero")
    return a / b


def _bounded(function: Callable[..., Any], limit: float) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if any(abs(arg) > limit for arg in args):
            raise TooBig("argument")
        return function(*args)

    return call


def _flog(a: Any) -> Any:
    if a == 0:
        raise Undefined("log 0")
    return mpmath.log(a)


def _fmod(a: Any, b: Any) -> Any:
    if b == 0 or abs(a) > abs(b) * mpmath.mpf(10) ** 30:
        raise Undefined("modulus")
    return a - b * mpmath.floor(a / b)


_TRIG = "sin cos tan cot sec csc sinh cosh tanh coth".split()
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _bounded(getattr(mpmath, name), 1e5) for name in _TRIG},
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "arccot": mpmath.acot,
    "arcsec": mpmath.asec, "arccsc": mpmath.acsc, "arcsinh": mpmath.asinh, "asin": mpmath.asin,
    "arccosh": mpmath.acosh, "arctanh": mpmath.atanh, "acos": mpmath.acos, "atan": mpmath.atan,
    "arsinh": mpmath.asinh, "arcosh": mpmath.acosh, "artanh": mpmath.atanh,
    "exp": _bounded(mpmath.exp, MAX_EXPONENT), "ln": _flog, "log": _flog,
    "logb": lambda a, b: _fdiv(_flog(a), _flog(b)),
    "Gamma": _bounded(mpmath.gamma, 1e5), "factorial": _bounded(mpmath.factorial, 1e5),
    "factorial2": _bounded(mpmath.fac2, 1e5), "zeta": _bounded(mpmath.zeta, 1e3),
    "binom": _bounded(mpmath.binomial, 1e4), "abs": abs, "floor": mpmath.floor,
    "ceil": mpmath.ceil, "max": max, "min": min, "mod": _fmod,
    "cbrt": lambda a: mpmath.sign(a) * mpmath.cbrt(abs(a)) if mpmath.im(a) == 0 else mpmath.cbrt(a),
    "degrees": lambda a: a * mpmath.pi / 180,
}  # fmt: skip


class _Float:
    """Values at the current mpmath precision."""

    def __init__(self, log_base: int | None = None) -> None:
        self.steps = 0
        self.log_base = log_base

    def value(self, node: Node, env: Mapping[str, Any]) -> Any:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooBig("too many steps")
        kind = node[0]
        if kind == "num":
            return mpmath.mpf(node[1].numerator) / node[1].denominator
        if kind == "sym":
            return _symbol(node[1], env)
        if kind in ("sum", "prod"):
            return self.series(node, env)
        if kind in ("pm", "mp"):
            raise Undefined("two values")
        args = [self.value(part, env) for part in node[(1 if kind in _FLOAT else 2) :]]
        if kind == "call":
            return _unknown_function(node[1], args)
        if kind == "fn":
            return _check_size(self.function(node[1], args))
        return _check_size(_FLOAT[kind](*args))

    def function(self, name: str, args: list[Any]) -> Any:
        if name == "log" and self.log_base:
            return _flog(args[0]) / mpmath.log(self.log_base)
        try:
            return _FUNCTIONS[name](*args)
        except (ValueError, ZeroDivisionError, TypeError) as error:
            raise Undefined(f"{name}: {error}") from None

    def series(self, node: Node, env: Mapping[str, Any]) -> Any:
        kind, body, variable, low, high = node
        first, last = self.value(low, env), self.value(high, env)
        if not (mpmath.isint(first) and mpmath.isint(last)) or last - first > MAX_TERMS:
            raise TooBig("a series needs integer limits, not too far apart")
        total = mpmath.mpf(kind == "prod")
        for index in range(int(first), int(last) + 1):
            term = self.value(body, {**env, variable: mpmath.mpf(index)})
            total = total + term if kind == "sum" else total * term
        return total


_FLOAT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": _fdiv,
    "pow": _fpow,
    "neg": lambda a: -a,
}


def _symbol(name: str, env: Mapping[str, Any]) -> Any:
    if name in env:
        return env[name]
    if name == "\\pi":
        return +mpmath.pi
    if name == "e":
        return +mpmath.e
    if name == "i":
        return mpmath.mpc(0, 1)
    raise Undefined(name)


def _unknown_function(name: str, args: list[Any]) -> Any:
    """A fixed generic function per name: f(x) equals f(x) and nothing else."""
    seed = random.Random(name).random() + 0.5
    total = mpmath.mpf(seed)
    for place, arg in enumerate(args, start=1):
        if abs(arg) > 1e5:
            raise TooBig("argument")
        total += mpmath.sin(arg * seed + place) * place + arg * mpmath.mpf(seed) ** place / 7
    return total


# --- equality ---

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
        return _same_at(gold, answer, {}, _PRECISIONS, log_base)
    return _same_everywhere(gold, answer, sorted(symbols), log_base)


def _same_everywhere(
    gold: Node, answer: Node, symbols: list[str], log_base: int | None
) -> bool | None:
    variables = [name for name in symbols if not name.endswith("()")]
    real, other = [], []
    for env in _points(variables, integers=_needs_integers(gold) or _needs_integers(answer)):
        try:
            a, b = (_values(n, env, _POINT_PRECISIONS, log_base) for n in (gold, answer))
        except (Undefined, TooBig, OverflowError):
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


def _needs_integers(node: Node) -> bool:
    """True for sums up to a symbol, floors, remainders and powers of a negative constant."""
    if node[0] in ("sum", "prod") and names(node[3]) | names(node[4]):
        return True
    if node[0] == "fn" and node[1] in ("floor", "ceil", "mod", "gcd", "lcm", "binom"):
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
            found.append(_Float(log_base).value(node, env))
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
    except (Undefined, TooBig, OverflowError):
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
        except (Undefined, TooBig, OverflowError):
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


def approximate(node: Node) -> Any | None:
    """The value of a constant at 50 digits (mpmath real or complex); None when it has none."""
    if names(node) - CONSTANTS:
        return None
    try:
        with mp.workdps(50):
            return _Float().value(node, {})
    except (Undefined, TooBig, OverflowError):
        return None


def is_undefined(node: Node) -> bool:
    """True for a constant without a value, such as 0/0; a value that is too big has one."""
    if names(node) - CONSTANTS:
        return False
    try:
        with mp.workdps(30):
            _Float().value(node, {})
    except Undefined:
        return True
    except (TooBig, OverflowError):
        return False
    return False


def real_value(node: Node, env: Mapping[str, Any]) -> Any:
    """The real value at a point, 50 digits. Raises Undefined or TooBig when there is none."""
    with mp.workdps(50):
        value = _Float().value(node, env)
        if mpmath.im(value) != 0:
            raise Undefined("not real")
        return mpmath.re(value)
