"""Values of a config against its annotations: a typo fails at once, before anything is loaded."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


def check_fields(config: Any) -> None:
    """Check every Literal, int and float field of a dataclass.

    Raises:
        ValueError: A Literal field holds another value, an int field no whole number, or a float
            field no finite number; names the field, the value and what it must be.
    """
    hints = get_type_hints(type(config))
    for field in fields(config):
        kind, value = hints[field.name], getattr(config, field.name)
        name = f"{type(config).__name__}.{field.name}"
        if get_origin(kind) is Literal and value not in get_args(kind):
            raise ValueError(f"{name} must be one of {list(get_args(kind))}, got {value!r}")
        if kind is int and (not isinstance(value, int) or isinstance(value, bool)):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if kind is float and not (isinstance(value, int | float) and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number, got {value!r}")
