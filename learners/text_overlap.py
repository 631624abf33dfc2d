"""How much of one text stands in another: what a solver copies from its draft."""

from __future__ import annotations

import math
import re

RUN = 5
"""Words of a run that counts as copied."""


def text_overlap(shown: str, text: str) -> float:
    """Share of a text's runs of five words that stand in another text too; NaN below five words."""
    runs = _runs(text)
    if not runs:
        return math.nan
    known = set(_runs(shown))
    return sum(run in known for run in runs) / len(runs)


def _runs(text: str) -> list[tuple[str, ...]]:
    found = re.findall(r"\w+", text.casefold())
    return [tuple(found[i : i + RUN]) for i in range(len(found) - RUN + 1)]
