r"""A model's reply -> the parts that count: visible text, thinking, final answer, program.

Pure text functions, linear in the length of the reply, used by the prompts (what a rival may see)
and by the verifiers (what is judged). Any string gives a result; none raises.

The rules, in order:

1. Only what stands after the last `</think>` counts. A `<think>` that is never closed hides all.
2. The final answer is the last complete `<answer>...</answer>`; without one the last complete
   `\boxed{...}` or `\fbox{...}` with balanced braces; without either a clearly marked one
   ("Final answer: 42", "#### 42"), which the strict math judge shows but does not accept.
3. An answer tag or box that is opened last and never closed means that the reply was cut: there
   is no falling back to an earlier one.
4. Answers separated only by blanks, commas, "and" or "or" are one list, and so is one that is
   offered beside another ("\boxed{4}. Or else \boxed{5}"): naming every candidate in its own box
   is not an answer.

Left out: what the answer means (`verifiers/`), and thinking marks other than `<think>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

SpanKind = Literal["answer", "box", "list", "marked", "code", "untagged", "other", "text"]


@dataclass(frozen=True)
class Span:
    """A piece of the visible text."""

    start: int
    """Index of the first character of the content in the visible text."""
    end: int
    """Index after the last character of the content."""
    text: str
    """The content. For a "list": the contents of its members, joined by ", "."""
    kind: SpanKind
    """How it was marked."""


def visible_text(text: str) -> str | None:
    """What stands after the last `</think>`; the whole text when there are no think tags.

    None when a `<think>` is never closed: the reply was cut while thinking and has no answer.
    """
    close = text.rfind(THINK_CLOSE)
    visible = text if close < 0 else text[close + len(THINK_CLOSE) :]
    return None if THINK_OPEN in visible else visible


def thinking(text: str) -> str | None:
    """What stands inside the think block(s), for display; None when there is none.

    A block whose opening tag was part of the prompt starts at the beginning of the text, and one
    that is never closed runs to its end.
    """
    close = text.rfind(THINK_CLOSE)
    hidden = text if close < 0 else text[:close]
    if close < 0 and THINK_OPEN not in text:
        return None
    if close < 0:
        hidden = hidden[hidden.find(THINK_OPEN) :]
    elif THINK_OPEN in text[close:]:
        hidden += text[text.find(THINK_OPEN, close) :]
    return hidden.replace(THINK_OPEN, "").replace(THINK_CLOSE, "").strip()


def answer_span(visible: str) -> Span | None:
    """The final answer in the visible text; None when there is none or it was cut off."""
    if answer_is_cut(visible):
        return None
    open_tag = _open_tag(visible)
    answers = [] if open_tag >= 0 else _answer_tags(visible)
    if answers:
        return _last_group(visible, answers)
    boxes = [box for box in _boxes(visible) if box.start > open_tag]
    if boxes:
        return _last_group(visible, boxes)
    return _marked(visible)


def answer_is_cut(visible: str) -> bool:
    """True when the last answer tag or box is opened and never closed.

    An `<answer>` without its end still counts when a complete box follows it: generation is
    often stopped at `</answer>`, and the box says where the answer ends.
    """
    open_tag = _open_tag(visible)
    if open_tag >= 0:
        tail = visible[open_tag:]
        return not _boxes(tail) or _box_is_cut(tail)
    return "</answer>" not in visible and _box_is_cut(visible)


def code_block(visible: str) -> Span | None:
    """The program in the visible text; None when there is no text at all.

    The last complete fenced block tagged as Python; else the last complete untagged block; else
    the bare text. Blocks of other languages are never programs. CRLF becomes LF and a block's
    common indentation (a fence inside a list) is removed.
    """
    fences = fenced_blocks(visible)
    for kind in ("code", "untagged"):
        for span in reversed(fences):
            if span.kind == kind:
                return span
    if not visible.strip():
        return None
    return Span(0, len(visible), visible.replace("\r\n", "\n"), "text")


# --- answer tags and boxes ---

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_ANSWER = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)
_JOIN_WORD = r"\\text\w*\{\s*(?:and|or)\s*\}|and\b|or\b"
_OR_ELSE = re.compile(
    r"(?:^|[.;:!?,\n])\s*(?:or\b(?!\s*,?\s*(?:equivalent|simply|just))|alternatively\b|otherwise\b)"
    r"[^.;!?\n<{}]{0,60}$|\bor(?:\s+(?:else|maybe|perhaps|possibly))?[\s:,]*$",
    re.IGNORECASE,
)
"""Prose that puts a second guess beside the first: "... is one. Or else "."""
_JOINER = re.compile(rf"(?:[\s,;$&~]|\\[,;:! ]|\\\\|\\q?quad\b|\\[()\[\]]|{_JOIN_WORD})*")


def _span(visible: str, start: int, end: int, kind: SpanKind) -> Span:
    return Span(start, end, visible[start:end], kind)


def _answer_tags(visible: str) -> list[Span]:
    """Complete answer tags; an opening tag that is only mentioned before another is passed over."""
    return [_span(visible, *m.span(1), "answer") for m in _ANSWER.finditer(visible)]


def _open_tag(visible: str) -> int:
    """Index after the first `<answer>` that follows the last `</answer>`; -1 without one."""
    m = re.compile("<answer>").search(visible, max(visible.rfind("</answer>"), 0))
    return m.end() if m else -1


def _box_starts(visible: str) -> list[int]:
    return [m.end() for m in _BOX.finditer(visible)]


def brace_pairs(visible: str) -> dict[int, int]:
    """Index after each `{` -> index of the `}` that closes it. Escaped braces are text."""
    pairs: dict[int, int] = {}
    open_braces: list[int] = []
    for m in _BRACE.finditer(visible):
        if m.group() == "{":
            open_braces.append(m.end())
        elif m.group() == "}" and open_braces:
            pairs[open_braces.pop()] = m.start()
    return pairs


def _boxes(visible: str) -> list[Span]:
    """Complete boxes, in order; of nested boxes the outermost."""
    starts = _box_starts(visible)
    if not starts:
        return []
    pairs = brace_pairs(visible)
    boxes: list[Span] = []
    for start in starts:
        if start in pairs and (not boxes or start > boxes[-1].end):
            boxes.append(_span(visible, start, pairs[start], "box"))
    return boxes


def _box_is_cut(visible: str) -> bool:
    starts = _box_starts(visible)
    return bool(starts) and starts[-1] not in brace_pairs(visible)


def _last_group(visible: str, spans: list[Span]) -> Span:
    """The last span, with those joined to it by blanks, commas, "and", "or" or "Or else it is"."""
    group = [spans[-1]]
    for span in reversed(spans[:-1]):
        between = visible[span.end : group[-1].start]
        between = re.sub(r"^(?:\}|</answer>)|(?:<answer>|\\(?:boxed|fbox)\s*\{)$", "", between)
        if not _JOINER.fullmatch(between) and not _OR_ELSE.search(between[-120:]):
            break
        group.append(span)
    texts = list(dict.fromkeys(span.text.strip() for span in reversed(group)))
    if len(texts) == 1:
        return group[0]
    return Span(group[-1].start, group[0].end, ", ".join(texts), "list")


# --- a marked answer without tag or box ---

_MARK = re.compile(
    r"^[ \t>#*_]{0,20}(?:the\s+)?(?:final\s+)?answer(?:\s+is\b|[*_]{0,3}\s*[:=])[*_:=]{0,4}"
    r"|^[ \t]{0,20}####(?!#)|\bthe\s+(?:final\s+)?answer\s+is\b:?",
    re.IGNORECASE | re.MULTILINE,
)


def _marked(visible: str) -> Span | None:
    """The rest of the line after the last "final answer:", "the answer is" or "####"."""
    for m in reversed(list(_MARK.finditer(visible))):
        line_end = visible.find("\n", m.end())
        end = len(visible) if line_end < 0 else line_end
        content = visible[m.end() : end]
        text = content.strip().strip("*_").rstrip(".").strip()
        if text:
            start = m.end() + content.find(text)
            return Span(start, start + len(text), text, "marked")
    return None


# --- fenced code ---

_FENCE_OPEN = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*+)[^`\n]*+$")
_PYTHON_TAGS = frozenset({"python", "py", "python3", "py3", "python2", "pypy", "pypy3"})


def fenced_blocks(visible: str) -> list[Span]:
    """Complete fenced blocks: Python ("code"), no language ("untagged"), another ("other")."""
    blocks: list[Span] = []
    fence, tag, start, offset = "", "", 0, 0
    for line in visible.splitlines(keepends=True):
        bare = line.strip()
        if fence and bare.startswith(fence) and not bare.strip(fence[0]):
            body = _dedent(visible[start:offset])
            blocks.append(Span(start, offset, body, _block_kind(tag)))
            fence = ""
        elif not fence and (m := _FENCE_OPEN.match(line.rstrip("\r\n"))):
            fence, tag = m.group(1), m.group(2)
            start = offset + len(line)
        offset += len(line)
    return blocks


def _block_kind(tag: str) -> SpanKind:
    if not tag:
        return "untagged"
    name = re.split(r"[^a-z0-9]", tag.lower().lstrip("{.="))[0]
    return "code" if name in _PYTHON_TAGS else "other"


def _dedent(block: str) -> str:
    """Remove the indentation of the first line from every line that has it."""
    lines = block.replace("\r\n", "\n").split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    if not indent:
        return "\n".join(lines)
    return "\n".join(line.removeprefix(indent) for line in lines)
