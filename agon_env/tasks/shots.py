"""Worked examples before the question: for small models that do not follow a described format.

A 135M-parameter chat model that is told to use tags never does; shown three replies, half of its
own are well formed, so that there is something to reinforce. The examples are turns of the chat;
the reply is read as the base template reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agon_env.prompts import MATH_TEMPLATE, Messages, Reply, Template
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
