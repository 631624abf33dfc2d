r"""A level -> algebra and calculus questions in LaTeX, answered by sympy.

Each topic draws small integers and writes the question; for questions that are kept, sympy computes
the answer from the same integers: equations, systems, derivatives, integrals, modular arithmetic.
sympy is imported when the first question is solved, not with the package. Answers are LaTeX as
`sympy.latex` writes it: sets of solutions in braces, points in round brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from agon_env.tasks.polynomials import (
    derivative,
    draw_polynomial,
    latex,
    linear_latex,
    multiply,
    nonzero,
    value_at,
)
from agon_env.tasks.procedural import FINAL, Sketch, register_procedural

if TYPE_CHECKING:
    import sympy


def _poly(coefficients: Sequence[int]) -> sympy.Expr:
    import sympy

    return sympy.Poly(list(coefficients), sympy.Symbol("x")).as_expr()


def _answer(value: Any) -> str:
    """One value as LaTeX."""
    import sympy

    return sympy.latex(value)


def _set(values: Iterable[Any]) -> str:
    """Values as a set in braces, smallest first."""
    ordered = sorted(values, key=float)
    return r"\left\{" + ", ".join(map(_answer, ordered)) + r"\right\}"


def linear_equation(rng: np.random.Generator) -> Sketch:
    """a x + b = c x + d, with one solution."""
    left = [nonzero(rng, 2, 12), nonzero(rng, -20, 20)]
    right = [nonzero(rng, -9, -1), nonzero(rng, -20, 20)]

    def solve() -> str:
        import sympy

        (root,) = sympy.solve(_poly(left) - _poly(right), sympy.Symbol("x"))
        return _answer(root)

    question = f"Solve for $x$: ${latex(left)} = {latex(right)}$."
    return Sketch(question, solve, "equation", 1.0)


def polynomial_derivative(rng: np.random.Generator) -> Sketch:
    """The derivative of a quadratic or cubic."""
    f = draw_polynomial(rng, int(rng.integers(2, 4)))
    question = f"Find the derivative of $f(x) = {latex(f)}$."
    return Sketch(question, lambda: _answer(_poly(f).diff()), "derivative", 1.0)


def remainder(rng: np.random.Generator) -> Sketch:
    """(a b + c) mod m."""
    a, b, c = (nonzero(rng, 2, 40) for _ in range(3))
    m = nonzero(rng, 3, 20)

    def solve() -> str:
        import sympy

        return _answer(sympy.Mod(a * b + c, m))

    question = rf"What is the remainder when ${a} \cdot {b} + {c}$ is divided by ${m}$?"
    return Sketch(question, solve, "modular", 1.0)


def _roots_question(f: Sequence[int], difficulty: float) -> Sketch:
    def solve() -> str:
        import sympy

        return _set(set(sympy.real_roots(sympy.Poly(list(f), sympy.Symbol("x")))))

    question = f"Find the set of all real solutions of ${latex(f)} = 0$."
    return Sketch(question, solve, "equation", difficulty)


def quadratic_equation(rng: np.random.Generator) -> Sketch:
    """A quadratic with rational roots, expanded."""
    p, r, s = nonzero(rng, 1, 3), nonzero(rng, -9, 9), nonzero(rng, -9, 9)
    return _roots_question(multiply([p, -r], [1, -s]), 2.0)


def cubic_equation(rng: np.random.Generator) -> Sketch:
    """An expanded cubic with at least one integer root."""
    r, b, c = nonzero(rng, -8, 8), int(rng.integers(-8, 9)), int(rng.integers(-12, 13))
    return _roots_question(multiply([1, -r], [1, b, c]), 3.0)


def linear_system(rng: np.random.Generator, *, names: str) -> Sketch:
    """A linear system with one solution in small integers, as many equations as unknowns."""
    n = len(names)
    while True:
        matrix = rng.integers(-6, 7, (n, n))
        if round(np.linalg.det(matrix)) and all(np.count_nonzero(row) > 1 for row in matrix):
            break
    right = [int(v) for v in matrix @ rng.integers(-7, 8, n)]
    rows = [[int(v) for v in row] for row in matrix]

    def solve() -> str:
        import sympy

        point = sympy.Matrix(rows).LUsolve(sympy.Matrix(right))
        return r"\left(" + ", ".join(map(_answer, point)) + r"\right)"

    lines = [f"{linear_latex(row, names)} = {b}" for row, b in zip(rows, right, strict=True)]
    cases = r" \\ ".join(lines)
    question = (
        rf"Solve the system $\begin{{cases}} {cases} \end{{cases}}$ "
        f"and give $({', '.join(names)})$."
    )
    return Sketch(question, solve, "system", float(n))


def polynomial_integral(rng: np.random.Generator) -> Sketch:
    """The definite integral of a polynomial."""
    f = draw_polynomial(rng, int(rng.integers(2, 5)))
    low = int(rng.integers(-3, 3))
    high = low + int(rng.integers(1, 5))

    def solve() -> str:
        import sympy

        antiderivative = sympy.Poly(f, sympy.Symbol("x"), domain="QQ").integrate()
        return _answer(antiderivative.eval(high) - antiderivative.eval(low))

    question = rf"Evaluate $\int_{{{low}}}^{{{high}}} \left({latex(f)}\right) \, dx$."
    return Sketch(question, solve, "integral", 2.0)


def power_mod(rng: np.random.Generator) -> Sketch:
    """a^n mod m."""
    a, n, m = nonzero(rng, 2, 30), nonzero(rng, 3, 30), nonzero(rng, 5, 50)

    def solve() -> str:
        import sympy

        return _answer(sympy.Mod(sympy.Integer(a) ** n, m))

    question = rf"Find the remainder when ${a}^{{{n}}}$ is divided by ${m}$."
    return Sketch(question, solve, "modular", 2.0)


def derivative_at(rng: np.random.Generator) -> Sketch:
    """The value at a point of the derivative of a product or quotient of polynomials."""
    f, g, at = draw_polynomial(rng, 2), draw_polynomial(rng, 1), int(rng.integers(-3, 4))
    while value_at(g, at) == 0:
        at += 1
    product = bool(rng.integers(2))
    below = 1 if product else value_at(g, at) ** 2

    def solve() -> str:
        import sympy

        p, q, dp, dq = (value_at(c, at) for c in (f, g, derivative(f), derivative(g)))
        return _answer(sympy.Rational(dp * q + p * dq if product else dp * q - p * dq, below))

    h = (
        rf"\left({latex(f)}\right) \left({latex(g)}\right)"
        if product
        else rf"\frac{{{latex(f)}}}{{{latex(g)}}}"
    )
    return Sketch(f"Let $h(x) = {h}$. Find $h'({at})$.", solve, "derivative", 2.0)


def chain_derivative(rng: np.random.Generator) -> Sketch:
    """The derivative of a linear factor times an elementary function of a quadratic."""
    outer = ("sin", "cos", "exp")[int(rng.integers(3))]
    factor, inner = draw_polynomial(rng, 1, 5), draw_polynomial(rng, 2, 5)

    def solve() -> str:
        import sympy

        f = _poly(factor) * getattr(sympy, outer)(_poly(inner))
        return _answer(f.diff(sympy.Symbol("x")))

    question = (
        rf"Find the derivative of $f(x) = \left({latex(factor)}\right) "
        rf"\{outer}\left({latex(inner)}\right)$."
    )
    return Sketch(question, solve, "derivative", 3.0)


def parts_integral(rng: np.random.Generator) -> Sketch:
    """A definite integral of a polynomial times e^(kx), sin(kx) or cos(kx): by parts."""
    outer = ("exp", "sin", "cos")[int(rng.integers(3))]
    f, k = draw_polynomial(rng, int(rng.integers(1, 3)), 5), nonzero(rng, 1, 3)
    low, width = int(rng.integers(-1, 2)), int(rng.integers(1, 3))
    scale = "" if outer == "exp" else r"\pi"

    def solve() -> str:
        import sympy

        unit = sympy.S.One if outer == "exp" else sympy.pi
        low_end, high_end = low * unit, (low + width) * unit
        total = integral_by_parts(_poly(f), outer, k)
        x = sympy.Symbol("x")
        return _answer(sympy.expand(total.subs(x, high_end) - total.subs(x, low_end)))

    ends = [linear_latex([end], [scale]) for end in (low, low + width)]
    question = (
        rf"Evaluate $\int_{{{ends[0]}}}^{{{ends[1]}}} \left({latex(f)}\right) "
        rf"\{outer}\left({latex([k, 0])}\right) \, dx$."
    )
    return Sketch(question, solve, "integral", 3.0)


def integral_by_parts(polynomial: sympy.Expr, outer: str, k: int) -> sympy.Expr:
    """An antiderivative of polynomial(x) * outer(k x), by tabular integration by parts.

    sum_i (-1)^i p^(i) F_(i+1), where F_(i+1) is an antiderivative of F_i and F_0 = outer(k x).
    sympy's own search finds the same in about fifty times the time.
    """
    import sympy

    x = sympy.Symbol("x")
    total, sign, factor = sympy.S.Zero, 1, getattr(sympy, outer)(k * x)
    while polynomial != 0:
        # Two derivatives give back exp, and sin or cos with the sign turned.
        factor = factor.diff(x) / (k**2 if outer == "exp" else -(k**2))
        total += sign * polynomial * factor
        polynomial, sign = polynomial.diff(x), -sign
    return total


def congruences(rng: np.random.Generator) -> Sketch:
    """The least solution of two linear congruences with coprime moduli."""
    p, q = (int(v) for v in rng.choice([7, 11, 13, 17, 19, 23, 29, 31], 2, replace=False))
    a, b = nonzero(rng, 2, p - 1), nonzero(rng, 2, q - 1)
    r, s = int(rng.integers(p)), int(rng.integers(q))

    def solve() -> str:
        import sympy
        from sympy.ntheory.modular import crt

        residues = [sympy.mod_inverse(a, p) * r % p, sympy.mod_inverse(b, q) * s % q]
        return _answer(crt([p, q], residues)[0])

    question = (
        rf"Find the least non-negative integer $x$ with ${a} x \equiv {r} \pmod{{{p}}}$ "
        rf"and ${b} x \equiv {s} \pmod{{{q}}}$."
    )
    return Sketch(question, solve, "modular", 3.0)


LEVELS: dict[str, tuple[Callable[[np.random.Generator], Sketch], ...]] = {
    "easy": (linear_equation, polynomial_derivative, remainder),
    "medium": (
        quadratic_equation,
        partial(linear_system, names="xy"),
        polynomial_integral,
        power_mod,
        derivative_at,
    ),
    "hard": (
        cubic_equation,
        partial(linear_system, names="xyz"),
        chain_derivative,
        parts_integral,
        congruences,
    ),
}
"""Level -> its topics, drawn with equal weight."""


def _draw(rng: np.random.Generator, *, level: str) -> Sketch:
    topics = LEVELS[level]
    return topics[int(rng.integers(len(topics)))](rng)


for _level in LEVELS:
    register_procedural(
        f"algebra-{_level}",
        partial(_draw, level=_level),
        verifier=FINAL,
        description="equations, systems, derivatives, integrals, modular arithmetic",
    )
