"""Chat messages -> prompt ids, and sampled ids -> reply text, for any tokenizer.

Everything that differs between families on the text side is here: templates, stop ids, marks of
thinking. Text from outside is data: control tokens spelled in a message stay text, so a draft
cannot close its own turn in the rival's prompt. Reading a reply is `agon_env/extract.py`; the
prompt of a model without a template is `plain_chat.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from agon_env.extract import THINK_CLOSE, THINK_OPEN
from learners.plain_chat import plain_text, reply_in

_TURN_ENDS = ("<|im_end|>", "<end_of_turn>", "<turn|>", "<|eot_id|>", "<|end|>")
"""Tokens that close a chat turn in public templates; generation configs forget some (pitfall 4)."""

_PIPED = re.compile(r"<\|\S+\|>$")

_THINK_MARKS = {
    THINK_OPEN: THINK_OPEN,
    THINK_CLOSE: THINK_CLOSE,
    "<|channel>": THINK_OPEN,  # Gemma 4, which opens with "<|channel>thought"
    "<channel|>": THINK_CLOSE,
}
"""Token -> how it stands in the text of a reply, even where the tokenizer calls it special."""


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt."""

    ids: tuple[int, ...]
    prefix: str = ""
    """Text that the template already opened for the reply (such as "<think>"); part of the reply
    when it is read, never of the sampled ids."""


def render(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, str]],
    template_kwargs: Mapping[str, Any],
) -> Prompt:
    """Chat messages -> prompt ids, through the tokenizer's own template.

    A tokenizer without a template gets the plain text of `plain_chat.py`, after the tokens that
    it puts before every text. The messages are not changed (pitfall 56).
    """
    control = _control_tokens(tokenizer)
    chat = [{**m, "content": _disarmed(control, m["content"])} for m in messages]
    if tokenizer.chat_template is None:
        ids = tokenizer(plain_text(chat))["input_ids"]
        return Prompt(tuple(ids))  # pyright: ignore[reportArgumentType]
    text = str(
        tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True, **template_kwargs
        )
    )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]  # the template has them
    for mark in (THINK_OPEN, "<|channel>thought"):
        if text.rstrip().endswith(mark):
            opened = text[text.rindex(mark) + len(mark) :]
            return Prompt(tuple(ids), THINK_OPEN + opened)  # pyright: ignore[reportArgumentType]
    return Prompt(tuple(ids))  # pyright: ignore[reportArgumentType]


def read_ids(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], stop_ids: Sequence[int]
) -> str:
    """Sampled ids -> text: no stop token, no control tokens, thinking marks kept.

    Without a chat template, what follows the reply is left out too.
    """
    if ids and ids[-1] in stop_ids:
        ids = ids[:-1]
    marks = _marks_to_restore(tokenizer)
    pieces, start = [], 0
    for position, token in enumerate(ids):
        if token in marks:
            pieces += [_decode(tokenizer, ids[start:position]), marks[token]]
            start = position + 1
    text = "".join([*pieces, _decode(tokenizer, ids[start:])])
    return text if tokenizer.chat_template is not None else reply_in(text)


def stop_ids_of(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a completion: of all configs, the tokenizer and its chat turns."""
    found: list[Any] = []
    config: Any = model.config
    configs = (getattr(model, "generation_config", None), config, config.get_text_config())
    for source in configs:
        eos = getattr(source, "eos_token_id", None)
        found += eos if isinstance(eos, list) else [eos]
    found.append(tokenizer.eos_token_id)
    vocabulary = tokenizer.get_vocab()
    found += [vocabulary[token] for token in _TURN_ENDS if token in vocabulary]
    return tuple(dict.fromkeys(i for i in found if i is not None))


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=True)) if ids else ""


def _marks_to_restore(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Ids of thinking marks that plain decoding would drop or show under another name."""
    special, found = set(tokenizer.all_special_ids), {}
    for token, text in _THINK_MARKS.items():
        index = tokenizer.convert_tokens_to_ids(token)  # get_vocab() copies all of it, every reply
        known = index is not None and tokenizer.convert_ids_to_tokens(index) == token
        if known and (index in special or token != text):
            found[index] = text
    return found


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The special tokens, named or added, and whatever was added as `<|...|>`.

    One-character tokens are left out: they are words of a toy vocabulary. Thinking marks are too,
    as prompts ask for them by name.
    """
    added = tokenizer.added_tokens_decoder.values()
    control = {token.content for token in added if token.special or _PIPED.match(token.content)}
    control.update(tokenizer.all_special_tokens, _TURN_ENDS)
    return sorted(token for token in control if len(token) > 1 and token not in _THINK_MARKS)


def _disarmed(control: Sequence[str], text: str) -> str:
    """Put a space into control tokens that are spelled in a text, so that they stay text."""
    for token in control:
        if token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text
