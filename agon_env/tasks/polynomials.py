"""Integer polynomials as coefficient lists -> LaTeX, without sympy.

Questions must be cheap: nine of ten drawn for a test split are thrown away before they are solved.
A polynomial is a list of integers, highest degree first, as `numpy.polyval` and `sympy.Poly`
take it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def nonzero(rng: np.random.Generator, low: int, high: int) -> int:
    """A uniform integer in [low, high] that is not 0."""
    while True:
        value = int(rng.integers(low, high + 1))
        if value:
            return value


def draw_polynomial(rng: np.random.Generator, degree: int, largest: int = 9) -> list[int]:
    """(degree + 1,) coefficients in [-largest, largest], the first not 0."""
    return [nonzero(rng, -largest, largest)] + [
        int(v) for v in rng.integers(-largest, largest + 1, degree)
    ]


def multiply(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Coefficients of the product."""
    return [int(v) for v in np.convolve(left, right)]


def derivative(coefficients: Sequence[int]) -> list[int]:
    """Coefficients of the derivative; [0] for a constant."""
    degree = len(coefficients) - 1
    return [c * (degree - i) for i, c in enumerate(coefficients[:-1])] or [0]


def value_at(coefficients: Sequence[int], x: int) -> int:
    """The polynomial at an integer, by Horner's rule."""
    value = 0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value


def linear_latex(coefficients: Sequence[int], terms: Sequence[str]) -> str:
    """`2 x - 3 y` from (2, -3) and ("x", "y"); zero terms are left out; "0" when all are."""
    text = ""
    for coefficient, term in zip(coefficients, terms, strict=True):
        if not coefficient:
            continue
        size = abs(coefficient)
        body = str(size) if not term else term if size == 1 else f"{size} {term}"
        sign = " - " if coefficient < 0 else " + "
        text += sign + body if text else ("-" if coefficient < 0 else "") + body
    return text or "0"


def latex(coefficients: Sequence[int], variable: str = "x") -> str:
    """`3 x^{2} - x + 1` from (3, -1, 1)."""
    degree = len(coefficients) - 1
    powers = [f"{variable}^{{{n}}}" for n in range(degree, 1, -1)]
    terms = [*powers, variable, ""][-len(coefficients) :]
    return linear_latex(coefficients, terms)
