"""`name?key=value&key=value` -> the name and its options, as `hf:`, file and dated tasks use it."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl


def parse_name(text: str, *, allowed: Collection[str]) -> tuple[str, dict[str, str]]:
    """Split a task name from its options.

    Raises:
        ValueError: An option is unknown, has no value or stands twice.
    """
    name, _, query = text.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ValueError(f"{text!r}: options must be written key=value&key=value") from error
    options = dict(pairs)
    if len(options) != len(pairs):
        raise ValueError(f"{text!r}: every option may stand once")
    for key, value in options.items():
        if key not in allowed:
            raise ValueError(f"{text!r}: unknown option {key!r}; choose from {list(allowed)}")
        if not value:
            raise ValueError(f"{text!r}: option {key!r} needs a value")
    return name, options
