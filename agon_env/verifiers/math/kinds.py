"""The kinds of answers: frozen records that the reader makes and the comparison takes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agon_env.verifiers.math.expression import Node
from agon_env.verifiers.math.regions import Region
from agon_env.verifiers.math.units import Unit


@dataclass(frozen=True)
class Opaque:
    """Text that fits no kind; equal only to the same spelling."""

    text: str


@dataclass(frozen=True)
class Words:
    """An answer in words."""

    text: str


@dataclass(frozen=True)
class Infinite:
    """Plus or minus infinity."""

    sign: int


@dataclass(frozen=True)
class Scalar:
    """One expression, with what stands around it."""

    text: str
    node: Node | None
    """None: an expression only math-verify may know, such as an integral."""
    places: int | None = None
    """Digits behind the point when it is written as a decimal."""
    percent: bool = False
    unit: Unit | None = None


@dataclass(frozen=True)
class Items:
    """Several values: an unordered list, a set, or an ordered tuple."""

    kind: Literal["list", "set", "tuple", "named"]
    """"named": values with different names, such as x=1, y=2."""
    items: tuple[Value, ...]
    closed: tuple[bool, bool] | None = None
    """Of a tuple of two, whether each bracket is square: it may be an interval."""


@dataclass(frozen=True)
class Grid:
    """A matrix, row by row."""

    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Named:
    """A value with a name: x = 5, f(x) = 2x + 1, D = (0, 2)."""

    name: str
    value: Value


@dataclass(frozen=True)
class Relation:
    """Two expressions and what holds between them, not solved for a name."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Residue:
    """A value (or list of values) modulo something."""

    value: Value
    modulus: Node


@dataclass(frozen=True)
class Numeral:
    """Digits in a stated base."""

    digits: str
    base: str


@dataclass(frozen=True)
class Ratio:
    """a:b or a:b:c; `clock` is the spelling when it may be a time of day."""

    parts: tuple[Node, ...]
    clock: str | None = None
    half: str = ""
    """ "am" or "pm"."""


@dataclass(frozen=True)
class Cases:
    """A piecewise value: rows of (value, condition)."""

    rows: tuple[tuple[str, ...], ...]


Value: TypeAlias = (
    Opaque | Words | Infinite | Scalar | Items | Grid | Named | Relation | Residue | Numeral
    | Ratio | Cases | Region
)  # fmt: skip
