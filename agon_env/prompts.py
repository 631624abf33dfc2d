"""Observation -> chat messages, and reply -> what it says: thinking, answer, summary, form.

A `Template` is both directions for one kind of problem. The drafter's prompt is the plain
problem; the solver's adds the rival's draft. The summary of a reply is what the rival may read of
it: the text after the last `</think>` with the final answer withheld (`withhold.py`), so that a
reader meets the reasoning and not the result. Reading is pure text work: whether an answer is right
is the verifier's matter.

Left out: system messages (several families refuse them) and the tokenizer's chat template, which
turns these messages into tokens in `learners/policy.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agon_env.extract import answer_span, code_block, thinking, visible_text
from agon_env.types import Problem
from agon_env.withhold import withhold_answers, withhold_program

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
        summary=withhold_program(visible),
        well_formed=_thinks_once(text) and fenced,
    )


_ANSWER_TAG = re.compile(r"<(/?)answer>")


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
