"""(expected, got) -> equal or not: outputs token by token, results of calls value by value.

Text is compared as the datasets' own judges do: outer blanks do not count, lines do, and inside a
line only the tokens. A float tolerance applies where the expected token is written as a float
(point or exponent), never to integers. Values of calls are plain JSON data.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

TOLERANCE = 1e-6
"""Absolute or relative error that a float may have."""
_FLOAT = re.compile(rb"[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def same_output(expected: bytes, got: bytes) -> bool:
    """Whether a program's output is the expected one.

    Args:
        expected: The dataset's output.
        got: What the program printed; any bytes. Only ASCII blanks separate tokens.
    """
    expected_lines, got_lines = expected.strip().split(b"\n"), got.strip().split(b"\n")
    if len(expected_lines) != len(got_lines):
        return False
    return all(
        _same_line(want.split(), have.split())
        for want, have in zip(expected_lines, got_lines, strict=True)
    )


def same_value(expected: Any, got: Any) -> bool:
    """Whether a call returned the expected value.

    Args:
        expected: Plain data from the test; tuples count as lists, as in JSON.
        got: What came out of the sandbox, read from JSON.

    Numbers are equal exactly, except that an expected float allows the tolerance; 1 and True are
    equal, as in Python; text is equal character by character.
    """
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(got, list)
            and len(expected) == len(got)
            and all(same_value(a, b) for a, b in zip(expected, got, strict=True))
        )
    if isinstance(expected, dict):
        wanted = {_key(key): value for key, value in expected.items()}
        return (
            isinstance(got, dict)
            and wanted.keys() == got.keys()
            and all(same_value(value, got[key]) for key, value in wanted.items())
        )
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return _close(expected, got)
    if isinstance(expected, (int, float)) and isinstance(got, (int, float)):
        return expected == got
    return type(expected) is type(got) and expected == got


def _key(key: Any) -> str:
    """The JSON spelling of a mapping's key."""
    return key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: None}))))


def _same_line(expected: list[bytes], got: list[bytes]) -> bool:
    return len(expected) == len(got) and all(map(_same_token, expected, got))


def _same_token(expected: bytes, got: bytes) -> bool:
    if expected == got:
        return True
    if not (_FLOAT.fullmatch(expected) and _NUMBER.fullmatch(got)):
        return False
    return _close(float(expected), float(got))


def _close(expected: float, got: float) -> bool:
    try:
        difference = abs(expected - got)
    except OverflowError:  # an integer beyond all floats
        return False
    if not math.isfinite(difference):
        return expected == got
    return difference <= TOLERANCE * max(1.0, abs(expected))
