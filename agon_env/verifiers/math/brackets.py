r"""Text -> its parts at the top level: what stands between separators outside every bracket.

Opening and closing brackets may differ, as in the interval `[0, 1)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPEN = re.compile(r"\\\{|\\langle(?![A-Za-z])|\\begin(?![A-Za-z])|\\lfloor|\\lceil|[(\[{]")
_CLOSE = re.compile(r"\\\}|\\rangle(?![A-Za-z])|\\end(?![A-Za-z])|\\rfloor|\\rceil|[)\]}]")


def _top_level(text: str) -> Iterator[int]:
    """Positions outside every bracket."""
    depth, i = 0, 0
    while i < len(text):
        if m := _OPEN.match(text, i):
            depth += 1
            i = m.end()
        elif m := _CLOSE.match(text, i):
            depth -= 1
            i = m.end()
        else:
            if depth == 0:
                yield i
            m = re.compile(r"\\[A-Za-z]+|\\.").match(text, i)
            i = m.end() if m else i + 1


def split_top(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Split at separators outside brackets: (parts, separators)."""
    parts, found, start = [], [], 0
    for i in _top_level(text):
        if i >= start and (m := separator.match(text, i)) and m.end() > i:
            parts.append(text[start:i])
            found.append(m.group().strip())
            start = m.end()
    return [part.strip() for part in [*parts, text[start:]]], found


def balanced(text: str) -> bool:
    """True when no bracket closes before it opens and none stays open."""
    depth, i = 0, 0
    while i < len(text):
        if m := _OPEN.match(text, i):
            depth += 1
        elif m := _CLOSE.match(text, i):
            depth -= 1
            if depth < 0:
                return False
        i = m.end() if m else i + 1
    return depth == 0
