"""Chat messages -> one plain text, and where a reply to it ends: for models without a template.

A base model only continues text. It gets the turns under the marks of an exam with worked answers,
and its reply is over where it starts to write the next question. Text from outside is data: a mark
at the start of a line in a message gets a blank before its colon, so a draft cannot open a turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

QUESTION, ANSWER = "Question:", "Answer:"

REPLY_END = f"\n{QUESTION}"
"""What a model writes when its reply is over."""

_MARKS = {"user": f"{QUESTION} ", "assistant": f"{ANSWER} "}
_MARK_IN_TEXT = re.compile(r"^(Question|Answer):", re.MULTILINE)


def plain_text(messages: Sequence[Mapping[str, str]]) -> str:
    """The messages as one text that ends where the reply begins."""
    turns = [
        _MARKS.get(message["role"], "") + _MARK_IN_TEXT.sub(r"\1 :", message["content"])
        for message in messages
    ]
    return "\n\n".join([*turns, ANSWER])


def reply_in(text: str) -> str:
    """A model's continuation -> the reply in it: all before the next question."""
    return text.partition(REPLY_END)[0].strip()
