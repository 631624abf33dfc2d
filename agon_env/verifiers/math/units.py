r"""Units of measure: the tail of an answer -> dimensions and a factor, or a refusal.

A missing unit is fine, a different one is not, and a convertible one is converted. Text behind a
value that is no unit ("is not the answer", "or more") makes the whole answer unreadable.
Single letters count as units only inside a text command: in `5h` the h is a variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from agon_env.verifiers.math.expression import Node
from agon_env.verifiers.math.words import MULTIPLIERS

_TABLE = """
length 1 m meter metre
length 1/100 cm centimeter centimetre
length 1/1000 mm millimeter millimetre
length 1/10 dm decimeter decimetre
length 1000 km kilometer kilometre
length 127/5000 in inch inches
length 381/1250 ft foot feet
length 1143/1250 yd yard
length 201168/125 mi mile
time 1 s sec second
time 1/1000 ms millisecond
time 60 min minute
time 3600 h hr hour
time 86400 day
time 604800 week
months 1 month
months 12 yr year
mass 1 g gram gramme
mass 1/1000 mg milligram
mass 1000 kg kilogram
mass 1000000 t ton tonne
mass 28349523125/1000000000 oz ounce
mass 45359237/100000 lb pound
volume 1 l liter litre
volume 1/1000 ml milliliter millilitre
money 1 dollar usd buck
money 1/100 cent penny pennies
euro 1 euro eur
sterling 1 gbp
rupee 1 rupee rs
yen 1 yen
angle 1 rad radian
celsius 1 celsius degc
fahrenheit 1 fahrenheit degf
kelvin 1 kelvin k
force 1 n newton
energy 1 j joule
energy 1000 kj kilojoule
power 1 w watt
power 1000 kw kilowatt
voltage 1 v volt
current 1 a amp ampere
resistance 1 ohm
pressure 1 pa pascal
frequency 1 hz hertz
amount 1 mol mole
unit 1 unit
"""
_UNITS: dict[str, tuple[str, Fraction]] = {}
for _row in _TABLE.strip().splitlines():
    _dimension, _factor, *_names = _row.split()
    for _name in _names:
        _UNITS[_name] = (_dimension, Fraction(_factor))
_COMPOUND = {"mph": "mi/h", "kph": "km/h", "kmh": "km/h", "kmph": "km/h", "fps": "ft/s",
             "cc": "cm^3", "sqft": "ft^2"}  # fmt: skip
_STOP = frozenset(
    "is are was be not or and if more less least most when unless otherwise to from up about approx"
    " approximately than never wrong incorrect false true maybe perhaps possibly mod modulo where"
    " for with without the a an this that answer no none correct right even odd at but only any"
    " some between either neither both after before unknown undefined infinity infinite nope plus"
    " minus times divided over under above below as on by it we i you let set remainder"
    " base squared cubed factorial half halves third thirds quarter quarters fourths fifths sixths"
    " eighths tenths hundredths thousandths root impossible rejected guess th st nd rd".split()
)
_BARE = (
    "cm mm km kg mg ml mL min sec hr hrs hour hours minute minutes second seconds day days week"
    " weeks month months year years mph meter meters metre metres inch inches foot feet ft yard"
    " yards mile miles gram grams liter liters litre litres dollar dollars cent cents degree"
    " degrees unit units radian radians centimeters kilometers kilograms square cubic people"
    " students points USD"
).split()
"""Units that need no text command behind a number; single letters are variables there."""


@dataclass(frozen=True)
class Unit:
    """A product of powers of units."""

    dimensions: tuple[tuple[str, int], ...]
    """(dimension, power), sorted; an unknown noun is its own dimension."""
    factor: Node
    """What one of it is in base units."""
    nouns: tuple[str, ...] = ()
    """Words in it that are no unit of the table, singular: "hen"."""

    @property
    def generic(self) -> bool:
        """True for "units", "square units": says no more than no unit."""
        return all(name == "unit" for name, _ in self.dimensions)


@dataclass(frozen=True)
class Quantity:
    """A text split into its value and its unit."""

    value: str
    unit: Unit | None
    scale: int = 1
    """A number word behind the value: 10**6 for "1.2 million"."""


_DEGREE = ("fn", "degrees", ("num", Fraction(1)))
_ITEM = r"\\text\{[^{}]*\}(?:\s*\^\s*\{?\s*-?\d\s*\}?)?"
_TAIL = re.compile(r"(?:\s*(?:" + _ITEM + r"|/|\\cdot(?=\s*\\text)))+\s*$")
_FRACTION_TAIL = re.compile(
    r"\\frac\s*\{\s*(\\text\{[^{}]*\})\s*\}\s*\{\s*(\\text\{[^{}]*\}(?:\^\{?\d\}?)?)\s*\}\s*$"
)
_BARE_TAIL = re.compile(
    r"(?<=[\d})])\s*((?:" + "|".join(sorted(_BARE, key=len, reverse=True)) + r")(?![A-Za-z])"
    r"(?:\s*(?:/|per)\s*[a-z]+)?(?:\s+[a-z]+)?(?:\s*\^\s*\{?\s*[23]\s*\}?)?)$"
)
_DEGREES = re.compile(r"\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})\s*$")
_TEMPERATURE = re.compile(
    r"\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})\s*(?:\\text\{\s*([CF])\s*\}|([CF]))\s*$"
)


def split_quantity(text: str) -> Quantity | None:
    """Split a canonical text into value and unit; None when its tail is text but no unit."""
    if m := re.match(r"^([+-]?)\s*\\(\$|pounds|euro|yen)\s*([\d.].*|\\frac.*)$", text):
        rest = split_quantity(m.group(3))
        if rest is None or (rest.unit and rest.unit.dimensions[0][0] != "money"):
            return None
        name = {"$": "money", "pounds": "sterling", "euro": "euro", "yen": "yen"}[m.group(2)]
        return Quantity(m.group(1) + rest.value, Unit(((name, 1),), _one()), rest.scale)
    if text.endswith("\\$"):
        return Quantity(text[:-2], Unit((("money", 1),), _one()))
    if m := _TEMPERATURE.search(text):
        name = "celsius" if "C" in m.groups() else "fahrenheit"
        return Quantity(text[: m.start()], Unit(((name, 1),), _one()))
    if m := _DEGREES.search(text):
        return Quantity(text[: m.start()], Unit((("angle", 1),), _DEGREE))
    for pattern in (_FRACTION_TAIL, _TAIL, _BARE_TAIL):
        m = pattern.search(text)
        if m and text[: m.start()].strip():
            tail = "/".join(m.groups()) if pattern is _FRACTION_TAIL else m.group()
            return _with_unit(text[: m.start()].strip(), tail)
    return Quantity(text, None)


def _one() -> Node:
    return ("num", Fraction(1))


def _with_unit(value: str, tail: str) -> Quantity | None:
    words = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", tail).replace("\\cdot", " ").strip(" .")
    scale = 1
    while (first := words.split(" ")[0].lower()) in MULTIPLIERS:
        scale *= MULTIPLIERS[first]
        words = words[len(first) :].strip()
    if not words:
        return Quantity(value, None, scale)
    unit = parse_unit(words)
    return None if unit is None else Quantity(value, unit, scale)


def parse_unit(words: str) -> Unit | None:
    """Read "km/h", "square cm", "m/s^2", "dollars per hour", "hens"; None when it is no unit."""
    flat = re.sub(r"[{}()]", "", words).replace(" per ", "/").strip().lower()
    flat = re.sub(r"\s*\^\s*", "^", flat)
    flat = _COMPOUND.get(flat, flat)
    powers: dict[str, int] = {}
    factor: Node = _one()
    nouns: list[str] = []
    for place, part in enumerate(flat.split("/")):
        for name, power in _words_with_powers(part):
            power = -power if place else power
            entry = _lookup(name)
            if entry is None:
                return None
            if _known(name) is None:
                nouns.append(singular(name))
            for dimension, size, times in entry:
                powers[dimension] = powers.get(dimension, 0) + times * power
                factor = ("mul", factor, ("pow", size, ("num", Fraction(times * power))))
    dimensions = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(dimensions, factor, tuple(nouns)) if dimensions else None


def _words_with_powers(part: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    power = 1
    for token in part.replace(".", " ").replace("-", " ").split():
        if token in ("square", "sq"):
            power = 2
        elif token in ("cubic", "cu"):
            power = 3
        elif token in ("squared", "cubed") and found:
            found[-1] = (found[-1][0], 2 if token == "squared" else 3)
        else:
            name, _, exponent = token.partition("^")
            good = exponent.lstrip("-").isdecimal() and len(exponent) < 3
            found.append((name, int(exponent) if good else power if not exponent else 99))
            power = 1
    return found if 0 < len(found) <= 3 else [("is", 1)]


_NO_NOUN = re.compile(
    r"zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ly|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
    r"|hundred|thousand|million|billion|hence|thus|so|therefore|because|since|however|instead|rather"
    r"|too|also|again|here|there|possible|obvious|sure|likely|exact|alternative|candidate|option"
)
"""A number or a judgement is counted by nobody."""


def _lookup(name: str) -> list[tuple[str, Node, int]] | None:
    """(dimension, size, power) for a unit word; None for a word that cannot be one."""
    if name in _STOP or not re.fullmatch(r"[a-z]+", name):
        return None
    if (known := _known(name)) is not None:
        return [known]
    return None if _NO_NOUN.fullmatch(name) else [(singular(name), _one(), 1)]


def _known(name: str) -> tuple[str, Node, int] | None:
    """The entry of a unit of the table; None for any other word."""
    if name in ("degree", "degrees", "deg"):
        return ("angle", _DEGREE, 1)
    for candidate in (name, name.removesuffix("s"), name.removesuffix("es")):
        if candidate in _UNITS:
            dimension, size = _UNITS[candidate]
            return (dimension, ("num", size), 1)
    return None


def singular(noun: str) -> str:
    """One name for "hen" and "hens"."""
    return noun.removesuffix("s")
