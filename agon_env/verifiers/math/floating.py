r"""Expression trees -> values at the current mpmath precision, with limits on sizes and steps.

Unknown functions (`f(x)`, `a_{n-1}`) get a fixed generic function per name, so that equal terms are
equal and different ones are not. There is no chopping of small values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import mpmath

from agon_env.verifiers.math.exact import MAX_STEPS, MAX_TERMS, TooBigError, UndefinedError
from agon_env.verifiers.math.expression import Node

FUNCTION_STEPS = 60
"""What one function or power costs, in additions."""
MAX_EXPONENT = 1_000_000
"""Largest |ln| of a value computed in floating point."""


def _check_size(value: Any) -> Any:
    if mpmath.isnan(value):
        raise UndefinedError("not a number")
    return value


def _fpow(a: Any, b: Any) -> Any:
    if a == 0:
        if mpmath.re(b) > 0:
            return mpmath.mpf(0)
        raise UndefinedError("0^0 or division by zero")
    if abs(b) * (abs(mpmath.log(abs(a))) + 4) > MAX_EXPONENT:
        raise TooBigError("power")
    return mpmath.power(a, b)


def _fdiv(a: Any, b: Any) -> Any:
    if b == 0:
        raise UndefinedError("division by zero")
    return a / b


def _bounded(function: Callable[..., Any], limit: float) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if any(abs(arg) > limit for arg in args):
            raise TooBigError("argument")
        return function(*args)

    return call


def _flog(a: Any) -> Any:
    if a == 0:
        raise UndefinedError("log 0")
    return mpmath.log(a)


def _fmod(a: Any, b: Any) -> Any:
    if b == 0 or abs(a) > abs(b) * mpmath.mpf(10) ** 30:
        raise UndefinedError("modulus")
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


class FloatEvaluator:
    """Values at the current mpmath precision."""

    def __init__(self, log_base: int | None = None) -> None:
        self.steps = 0
        self.log_base = log_base

    def value(self, node: Node, env: Mapping[str, Any]) -> Any:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooBigError("too many steps")
        kind = node[0]
        if kind == "num":
            return mpmath.mpf(node[1].numerator) / node[1].denominator
        if kind == "sym":
            return _symbol(node[1], env)
        if kind in ("sum", "prod"):
            return self.series(node, env)
        if kind in ("pm", "mp"):
            raise UndefinedError("two values")
        args = [self.value(part, env) for part in node[(1 if kind in _FLOAT else 2) :]]
        if kind == "call":
            return _unknown_function(node[1], args)
        if kind in ("fn", "pow"):
            self.steps += FUNCTION_STEPS
        if kind == "fn":
            return _check_size(self.function(node[1], args))
        return _check_size(_FLOAT[kind](*args))

    def function(self, name: str, args: list[Any]) -> Any:
        if name == "log" and self.log_base:
            return _flog(args[0]) / mpmath.log(self.log_base)
        try:
            return _FUNCTIONS[name](*args)
        except (ValueError, ZeroDivisionError, TypeError) as error:
            raise UndefinedError(f"{name}: {error}") from None

    def series(self, node: Node, env: Mapping[str, Any]) -> Any:
        kind, body, variable, low, high = node
        first, last = self.value(low, env), self.value(high, env)
        if not (mpmath.isint(first) and mpmath.isint(last)) or last - first > MAX_TERMS:
            raise TooBigError("a series needs integer limits, not too far apart")
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
    raise UndefinedError(name)


def _unknown_function(name: str, args: list[Any]) -> Any:
    """A fixed generic function per name: f(x) equals f(x) and nothing else."""
    seed = random.Random(name).random() + 0.5
    total = mpmath.mpf(seed)
    for place, arg in enumerate(args, start=1):
        if abs(arg) > 1e5:
            raise TooBigError("argument")
        total += mpmath.sin(arg * seed + place) * place + arg * mpmath.mpf(seed) ** place / 7
    return total
