"""Worked examples before the question: for small models that do not follow a described format.

A 135M-parameter chat model that is told to use tags never does; shown three replies, half of its
own are well formed, so that there is something to reinforce. The examples are turns of the chat;
the reply is read as the base template reads it. Base models, which know no chat, follow nothing
else: `with_examples` is for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agon_env.prompts import (
    CODE_TEMPLATE,
    MATH_TEMPLATE,
    ChatTemplate,
    Messages,
    Reply,
    Template,
)
from agon_env.types import Problem


@dataclass(frozen=True)
class Shot:
    """A question with a model reply."""

    question: str
    reply: str
    draft: str
    """What a solver is shown of the rival's draft in this example, right or wrong."""


@dataclass(frozen=True)
class FewShotTemplate:
    """A `Template` that shows replies instead of describing their form."""

    name: str
    shots: tuple[Shot, ...]
    base: Template = MATH_TEMPLATE
    """Reads the replies."""

    def messages(self, observation: Mapping[str, str]) -> Messages:
        """The examples in the observation's role, then the question."""
        role = observation["role"]
        if role not in ("drafter", "solver"):
            raise ValueError(f"role must be 'drafter' or 'solver', got {role!r}")
        messages: Messages = []
        for shot in self.shots:
            asked = _asked(shot.question, shot.draft if role == "solver" else None)
            messages += [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": shot.reply},
            ]
        draft = (observation["draft"].strip() or "(none)") if role == "solver" else None
        question = {"role": "user", "content": _asked(observation["problem"], draft)}
        return [*messages, question]

    def read(self, problem: Problem, text: str) -> Reply:
        """Read a reply; any string gives a `Reply`."""
        return self.base.read(problem, text)


def _asked(question: str, draft: str | None) -> str:
    """The user's turn: the question, for a solver with the rival's draft."""
    if draft is None:
        return question
    return f"{question}\nA rival's draft, right or wrong:\n{draft}"


MATH_SHOTS = (
    Shot(
        "A box holds 4 pens. Tom has 3 boxes and finds 5 more pens. How many pens has he?",
        "<think>3 * 4 = 12. 12 + 5 = 17.</think>\nThe pens in the boxes, 3 times 4, and the 5 that "
        "he finds.\n<answer>17</answer>",
        draft="The pens in the boxes, 3 times 4, and the 5 that he finds.\n"
        "<answer>[withheld]</answer>",
    ),
    Shot(
        "Solve 2x + 6 = 20 for x.",
        "<think>2x = 20 - 6 = 14. x = 14 / 2 = 7.</think>\nTake 6 from 20 and divide by 2.\n"
        "<answer>7</answer>",
        draft="Add 6 to 20 and divide by 2.\n<answer>[withheld]</answer>",
    ),
    Shot(
        "Ann had 30 coins. She gave 12 away and shared the rest between 2 friends. How many coins "
        "did each friend get?",
        "<think>30 - 12 = 18. 18 / 2 = 9.</think>\nTake 12 from 30 and share what is left by 2.\n"
        "<answer>9</answer>",
        draft="Take 12 from 30 and share what is left by 2.\n<answer>[withheld]</answer>",
    ),
)
"""Examples in the form that `MATH_TEMPLATE` describes; the second draft is wrong."""

CODE_SHOTS = (
    Shot(
        "Read two integers on one line and print their sum.",
        "<think>Split the line and add.</think>\nRead both numbers and print their sum.\n"
        "```python\na, b = map(int, input().split())\nprint(a + b)\n```",
        draft="Read both numbers and print their sum.\n[withheld]",
    ),
    Shot(
        "Read n, then n integers on one line. Print the largest.",
        "<think>n can be passed over.</think>\nRead all numbers and print the largest.\n"
        "```python\ninput()\nprint(max(map(int, input().split())))\n```",
        draft="Read all numbers and print the last one.\n[withheld]",
    ),
)
"""Examples in the form that `CODE_TEMPLATE` describes; the second draft is wrong."""

_SHOWING = {
    MATH_TEMPLATE: FewShotTemplate("math-examples", MATH_SHOTS),
    CODE_TEMPLATE: FewShotTemplate("code-examples", CODE_SHOTS, CODE_TEMPLATE),
}


def with_examples(template: Template) -> Template:
    """The template that shows worked examples in place of one that describes the form.

    Others, which may show examples already, are returned as they are.
    """
    return _SHOWING.get(template, template) if isinstance(template, ChatTemplate) else template
