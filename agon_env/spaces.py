"""The spaces of the game: text in, text out.

An observation is `Dict(role, problem, draft)`, an action is the whole reply as one string.
Gymnasium's own `Text` knows a fixed alphabet and so rejects LaTeX; `UnicodeText` accepts any
Python string up to a length, lone surrogates and NULs included, because model text is data.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

MAX_REPLY_CHARS = 200_000
"""Longest reply in characters; a longer one is cut and flagged in its `Turn`."""
MAX_PROBLEM_CHARS = 1_000_000
"""Longest question in characters."""

SAMPLE_CHARS = 48
"""Longest sampled string: long samples would only be slow."""
ALPHABET = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n\t\0"
    r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~"""
    "äßπ√∞≤×°½²中文😀\u200b\u202e\ud800"
)
"""Characters of samples; `contains` accepts every other character too."""


class UnicodeText(spaces.Text):
    """Every string of at most `max_length` characters (code points), the empty one included."""

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=ALPHABET, seed=seed)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(
        self,
        mask: tuple[int | None, NDArray[np.int8] | None] | None = None,
        probability: tuple[int | None, NDArray[np.float64] | None] | None = None,
    ) -> str:
        """A short random string of `ALPHABET`; `mask` and `probability` as in `spaces.Text`."""
        if mask is not None or probability is not None:
            return super().sample(mask=mask, probability=probability)
        length = int(self.np_random.integers(0, min(SAMPLE_CHARS, self.max_length) + 1))
        return "".join(self.np_random.choice(list(self.character_list), size=length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length


def action_space() -> UnicodeText:
    """The whole reply of one agent as one string."""
    return UnicodeText(MAX_REPLY_CHARS)


def observation_space() -> spaces.Space[dict[str, str]]:
    """What an agent sees: its role, the question, and the shown part of the rival's draft.

    No key is named "observation": PettingZoo's `api_test` asks whatever stands there for a dtype.
    """
    space = spaces.Dict(
        role=UnicodeText(len("drafter")),
        problem=UnicodeText(MAX_PROBLEM_CHARS),
        draft=UnicodeText(MAX_REPLY_CHARS),
    )
    return cast("spaces.Space[dict[str, str]]", space)
