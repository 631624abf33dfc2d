"""Observation -> chat messages, and reply -> what it says: thinking, answer, summary, form.

A `Template` is both directions for one kind of problem. The drafter's prompt is the plain
problem; the solver's adds the rival's draft. The summary of a reply is what the rival may read of
it: the text after the last `</think>` with the final answer withheld, so that a reader meets the
reasoning and not the result. Reading is pure text work: whether an answer is right is the
verifier's matter.

Left out: system messages (several families refuse them) and the tokenizer's chat template, which
turns these messages into tokens in `learners/policy.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agon_env.extract import (
    Span,
    all_answer_spans,
    answer_span,
    code_block,
    thinking,
    visible_text,
)
from agon_env.types import Problem

WITHHELD = "[withheld]"
"""Stands where a final answer was cut out of a draft."""

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Reply:
    """What a template reads in one reply."""

    thinking: str | None
    """The private reasoning; None when the reply has none."""
    answer: str | None
    """The final answer as text; None when there is none."""
    summary: str
    """What the rival may read: no thinking, the final answer withheld. "" when nothing is left."""
    well_formed: bool
    """The paper's format term f."""


@runtime_checkable
class Template(Protocol):
    """Prompts and reading of replies for one kind of problem. Must be picklable."""

    @property
    def name(self) -> str:
        """Short name, for metrics and errors."""
        ...

    def messages(self, observation: Mapping[str, str]) -> Messages:
        """Chat messages for an observation; a new list on every call."""
        ...

    def read(self, problem: Problem, text: str) -> Reply:
        """Read a reply; any string gives a `Reply`."""
        ...


@dataclass(frozen=True)
class ChatTemplate:
    """A `Template` of one user message per role."""

    name: str
    plain: str
    """Prompt of a drafter; `{problem}` stands for the question."""
    reading: str
    """Prompt of a solver; `{problem}` and `{draft}` stand for the question and the shown draft."""
    unread: str
    """What a solver finds in place of a draft of which nothing may be shown."""
    read_reply: Callable[[Problem, str], Reply]
    """A module-level function, so that envs can be pickled."""

    def messages(self, observation: Mapping[str, str]) -> Messages:
        """One user message: the plain prompt for a drafter, with the rival's draft for a solver."""
        role, problem = observation["role"], observation["problem"]
        if role == "drafter":
            content = self.plain.format(problem=problem)
        elif role == "solver":
            draft = observation["draft"] if observation["draft"].strip() else self.unread
            content = self.reading.format(problem=problem, draft=draft)
        else:
            raise ValueError(f"role must be 'drafter' or 'solver', got {role!r}")
        return [{"role": "user", "content": content}]

    def read(self, problem: Problem, text: str) -> Reply:
        """Read a reply; any string gives a `Reply`."""
        return self.read_reply(problem, text)


def read_math(problem: Problem, text: str) -> Reply:
    """Read a reply to a mathematics problem: the answer in `<answer>` tags or in the last box."""
    visible = visible_text(text)
    if visible is None:
        return Reply(thinking(text), None, "", False)
    span = answer_span(visible)
    return Reply(
        thinking=thinking(text),
        answer=span.text if span else None,
        summary=withhold_answers(visible, span),
        well_formed=_thinks_once(text) and _answers_once(visible),
    )


def read_code(problem: Problem, text: str) -> Reply:
    """Read a reply to a programming problem: the program is the last fenced Python block."""
    visible = visible_text(text)
    if visible is None:
        return Reply(thinking(text), None, "", False)
    span = code_block(visible)
    fenced = span is not None and span.kind != "text" and bool(span.text.strip())
    return Reply(
        thinking=thinking(text),
        answer=span.text if span else None,
        summary=_withhold_code(visible),
        well_formed=_thinks_once(text) and fenced,
    )


def withhold_answers(visible: str, final: Span | None) -> str:
    """Replace every final answer in a visible text by the marker.

    Withheld are: the content of every `<answer>` element, every box, a marked final answer,
    whatever follows an answer or a box that is opened and never closed, and each line that only
    repeats an answer (as `$7$`, `**7**`, `x = 7`, `The answer is 7.`).

    Args:
        visible: The visible text of a reply.
        final: Its final answer, as `answer_span` reads it.
    """
    spans = [*all_answer_spans(visible), *([final] if final else [])]
    said = {span.text for span in spans}
    said |= {box.text for text in said if "box" in text for box in all_answer_spans(text)}
    answers = {_bare(text) for text in said} - {""}
    shown = _cut(visible, [_with_box(visible, span) for span in spans])
    shown = _cut(shown, [match.span() for match in _BRACELESS_BOX.finditer(shown)])
    lines = _cut_unclosed(shown).splitlines(keepends=True)
    return "".join(_withhold_line(line, answers) for line in lines).strip()


def _withhold_code(visible: str) -> str:
    """Replace what the verifier would run, and a fenced block that never ends, by the marker."""
    span = code_block(visible)
    shown = visible if span is None else _cut(visible, [_with_fences(visible, span)])
    opening: int | None = None
    for fence in _FENCE.finditer(shown):
        opening = fence.start() if opening is None else None
    return (shown if opening is None else shown[:opening] + WITHHELD).strip()


def _with_box(visible: str, span: Span) -> tuple[int, int]:
    """The stretch of an answer's content, and for a box also of the box around it."""
    opening = _BOX_BEFORE.search(visible[max(0, span.start - 80) : span.start])
    if opening is None or visible[span.end : span.end + 1] not in ("}", ""):
        return span.start, span.end
    return span.start - len(opening[0]), span.end + 1


def _with_fences(visible: str, span: Span) -> tuple[int, int]:
    """The stretch of a program, and for a fenced one also of the two lines that fence it."""
    if span.kind == "text":
        return span.start, span.end
    before = visible[: span.start].splitlines(keepends=True)[-1]
    after = visible[span.end :].splitlines()[0]
    return span.start - len(before), span.end + len(after)


_ANSWER_TAG = re.compile(r"<(/?)answer>")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BOX_BEFORE = re.compile(r"\\(?:boxed|fbox)\s*\{$")
_BRACELESS_BOX = re.compile(r"\\(?:boxed|fbox)(?:\s*\d[^\s$]*|\s+[^\s{\[$\\][^\s$]*)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore|then)\b[,:]?\s*)?(?:(?:the|my|our)\s+)?"
    r"(?:(?:final|correct)\s+)?(?:answer|result|solution|value)\s*(?:is|:|=)*\s*"
    r"|(?:\\?[A-Za-z]\w*(?:\([A-Za-z]\))?\s*)?=\s*",
    re.IGNORECASE,
)
_DECORATION = " \t\r\n\f\v*_`$#>-.:"


def _bare(text: str) -> str:
    """An answer or a line without the marks around it: `**$7$.**` -> `7`."""
    text = text.strip(_DECORATION)
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]")):
        text = text.removeprefix(opening).removesuffix(closing)
    return text.strip(_DECORATION)


def _withhold_line(line: str, answers: set[str]) -> str:
    """The marker in place of a line that only says an answer; any other line as it is."""
    bare = _bare(line)
    lead = _LEAD.match(bare)
    if bare in answers or (lead and _bare(bare[lead.end() :]) in answers):
        return WITHHELD + line[len(line.rstrip("\r\n")) :]
    return line


def _cut(text: str, cuts: Iterable[tuple[int, int]]) -> str:
    """Replace every stretch (start, end) by the marker; overlapping stretches by one marker."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(cuts):
        if start >= done:
            pieces += [text[done:start], WITHHELD]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


def _cut_unclosed(text: str) -> str:
    """Replace everything from the first answer or box that is opened and never closed."""
    opened: int | None = None
    for tag in _ANSWER_TAG.finditer(text):
        if tag[1]:
            opened = None
        elif opened is None:
            opened = tag.start()
    position = 0
    while box := _BOX.search(text, position):
        end = _closing_brace(text, box.end())
        if end is None:
            opened = box.start() if opened is None else min(opened, box.start())
            break
        position = end
    return text if opened is None else text[:opened] + WITHHELD


def _closing_brace(text: str, position: int) -> int | None:
    """Index after the brace that closes the group whose content starts at `position`."""
    depth = 1
    for mark in _BRACE.finditer(text, position):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if depth == 0:
            return mark.end()
    return None


def _thinks_once(text: str) -> bool:
    """Whether there is exactly one thinking block; the prompt may have opened it already."""
    opened, closed = text.count("<think>"), text.count("</think>")
    return closed == 1 and opened <= 1 and text.find("<think>") < text.find("</think>")


def _answers_once(visible: str) -> bool:
    """Whether there is exactly one `<answer>` element, with something in it."""
    tags = list(_ANSWER_TAG.finditer(visible))
    if [tag[0] for tag in tags] != ["<answer>", "</answer>"]:
        return False
    return bool(visible[tags[0].end() : tags[1].start()].strip())


_TASK_MATH = (
    "Solve the problem. Think inside <think> and </think>. After that write the key steps of your "
    "solution in a few lines, and the final answer alone inside <answer> and </answer>."
)
_TASK_CODE = (
    "Write a Python program that solves the problem. Think inside <think> and </think>. After that "
    "describe your approach in a few lines, and give the whole program in one ```python block."
)
_RIVAL = (
    "Another solver wrote the draft below. Its final {what} is withheld, and it may be right or "
    "wrong: check it, use what holds, and mend what does not.\n\nDraft:\n{{draft}}\n\n"
)

MATH_TEMPLATE = ChatTemplate(
    name="math",
    plain=f"Problem:\n{{problem}}\n\n{_TASK_MATH}",
    reading=f"Problem:\n{{problem}}\n\n{_RIVAL.format(what='answer')}{_TASK_MATH}",
    unread="(nothing of it can be shown)",
    read_reply=read_math,
)
"""For problems with a mathematical answer; the paper's format."""

CODE_TEMPLATE = ChatTemplate(
    name="code",
    plain=f"Problem:\n{{problem}}\n\n{_TASK_CODE}",
    reading=f"Problem:\n{{problem}}\n\n{_RIVAL.format(what='program')}{_TASK_CODE}",
    unread="(nothing of it can be shown)",
    read_reply=read_code,
)
"""For programming problems; well formed is one thinking block and a fenced program after it."""


def template_for(problem: Problem) -> Template:
    """The built-in template for a problem's verifier: code for "code", else mathematics."""
    return CODE_TEMPLATE if problem.verifier == "code" else MATH_TEMPLATE
