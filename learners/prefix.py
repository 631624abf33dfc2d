"""What several prompts have in common at their start, and which models may run it once for all.

A few-shot prompt is the same for every problem; its keys and values need not be computed, nor
differentiated, once per row.
"""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PretrainedConfig

MIN_SHARED = 16
"""Fewest common tokens that are worth a pass of their own."""


def shared_length(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; every prompt keeps at least its last one for itself.

    0 for a single prompt, or where it is too little to pay.
    """
    if len(prompts) < 2:
        return 0
    first, last = min(map(tuple, prompts)), max(map(tuple, prompts))  # all others lie between
    length = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    length = min(length, min(map(len, prompts)) - 1)
    return length if length >= MIN_SHARED else 0


def attends_to_all(config: PretrainedConfig, tokens: int | None = None) -> bool:
    """Whether every layer is full attention: no sliding window, no recurrent state.

    Elsewhere the padding between a common beginning and the rest would shift a window or a state.

    Args:
        config: Of the model.
        tokens: Longest sequence, padding included; a window that holds it whole slides over
            nothing. None: unknown.
    """
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    holds_all = window is not None and tokens is not None and tokens <= window
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        return window is None or holds_all
    full = {"full_attention", "sliding_attention"} if holds_all else {"full_attention"}
    return set(kinds) <= full
