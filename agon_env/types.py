"""The records of the game: frozen dataclasses of plain values.

Stages talk through these and through return values only:
Problem -> Turn (a reply) -> Verdict (the verifier) -> Outcome (the reward) -> Episode (a match).
No record holds a model, an open file or a process; each survives pickling and JSON (`records.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

AgentID: TypeAlias = str
Role = Literal["drafter", "solver"]
Reveal = Literal["summary", "full", "none"]
Seating = Literal["alternate", "fixed", "both"]

ROLES: tuple[Role, Role] = ("drafter", "solver")
AGENTS: tuple[AgentID, AgentID] = ("agent_0", "agent_1")

Reason = Literal[
    "match",
    "mismatch",
    "no_answer",
    "truncated",
    "timeout",
    "error",
    "unscorable",
    "accepted",
    "wrong_answer",
    "runtime_error",
    "time_limit",
    "memory_limit",
    "compile_error",
    "output_limit",
]
"""Why a verdict is what it is. The second half (from "accepted") is for code problems."""


def rival_of(agent: AgentID) -> AgentID:
    """The other of the two agents."""
    if agent not in AGENTS:
        raise ValueError(f"agent must be one of {AGENTS}, got {agent!r}")
    return AGENTS[1 - AGENTS.index(agent)]


@dataclass(frozen=True)
class CodeTests:
    """Unit tests of a programming problem, with the limits of one test run."""

    cases: tuple[Mapping[str, Any], ...]
    """One mapping per test: {"input", "output"} (stdin/stdout) or {"args", "expected"} (call)."""
    fn_name: str | None = None
    """Function (or method of `class Solution`) to call; None: the program reads stdin."""
    time_s: float = 10.0
    """Running time of one test, seconds."""
    total_time_s: float = 60.0
    """Running time of all tests together, seconds."""
    memory_mb: int = 512
    """Address space of the submission, MiB."""
    output_kb: int = 4096
    """Standard output of one test, KiB."""
    partial: bool = False
    """True: the share of passed tests is the score; False: all tests or nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cases", tuple(self.cases))
        for limit in ("time_s", "total_time_s", "memory_mb", "output_kb"):
            value = getattr(self, limit)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"CodeTests.{limit} must be a positive number, got {value!r}")

    @classmethod
    def of(cls, raw: CodeTests | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> CodeTests:
        """Read tests from a list of cases or from a mapping with `cases` (or `tests`) and limits.

        Limits may stand beside the cases or in a nested `limits` mapping.
        """
        if isinstance(raw, CodeTests):
            return raw
        if not isinstance(raw, Mapping):
            return cls(cases=tuple(raw))
        fields = {**raw, **raw.get("limits", {})}
        cases = fields.get("cases", fields.get("tests", ()))
        known = {k: v for k, v in fields.items() if k in cls.__dataclass_fields__ and k != "cases"}
        return cls(cases=tuple(cases), **known)


@dataclass(frozen=True)
class Problem:
    """A question with a checkable answer."""

    id: str
    """Stable and unique inside its task; groups are keyed by it, never by text."""
    question: str
    answer: str
    """The gold answer as text; "" for code problems, whose gold is `tests`."""
    verifier: str = "math"
    """Name of the verifier that judges replies (see `agon_env.verifiers`)."""
    tests: CodeTests | None = None
    """Unit tests, for `verifier="code"`. A list of cases or a mapping is read by `CodeTests.of`."""
    difficulty: float | None = None
    topic: str | None = None
    source: str | None = None
    """Where the problem comes from: a dataset id, a file, a generator."""

    def __post_init__(self) -> None:
        for name in ("id", "question", "answer"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"Problem.{name} must be a string, got {type(value).__name__}")
        if self.tests is not None:
            object.__setattr__(self, "tests", CodeTests.of(self.tests))


@dataclass(frozen=True)
class Verdict:
    """What the verifier decided about one reply."""

    correct: bool | None
    """None: unscored, our fault (bad gold, broken worker) and never the model's."""
    reason: Reason
    answer: str | None = None
    """The answer that was read from the reply; None when there was none."""
    seconds: float = field(default=0.0, compare=False)
    """Running time of the check. Not part of equality: the same reply gives an equal verdict."""
    score: float | None = None
    """Partial credit in [0, 1] where the problem asks for it; None: `correct` says it all."""

    def __post_init__(self) -> None:
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError(f"Verdict.score must be None or in [0, 1], got {self.score!r}")

    @property
    def value(self) -> float:
        """The verdict as a number in [0, 1]: c of the paper. Raises ValueError when unscored."""
        if self.correct is None:
            raise ValueError("an unscored verdict has no value; check `correct is None` first")
        return float(self.correct) if self.score is None else self.score


@dataclass(frozen=True)
class Turn:
    """One reply of one agent."""

    agent: AgentID
    role: Role
    draft: str
    """The part of the rival's draft that the agent was shown; "" for a drafter."""
    reply: str
    """The whole reply, cut to the length limit of the action space."""
    cut: bool = False
    """True when the reply was longer than the limit and lost its end."""


@dataclass(frozen=True)
class Outcome:
    """What one turn earned."""

    agent: AgentID
    role: Role
    verdict: Verdict
    rival_verdict: Verdict
    """Verdict of the turn played against: the solution for a draft, the draft for a solution."""
    well_formed: bool
    reward: float | None
    """Sum of `parts`; None when a verdict that the scheme needs is unscored."""
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Episode:
    """A finished match: what was asked, said, decided and paid."""

    problem: Problem
    turns: tuple[Turn, ...]
    outcomes: tuple[Outcome, ...]
    """One per turn, in the same order."""

    def rewards(self) -> dict[AgentID, float]:
        """Sum of each agent's outcomes; an unscored outcome adds nothing."""
        total = dict.fromkeys(AGENTS, 0.0)
        for outcome in self.outcomes:
            total[outcome.agent] += outcome.reward or 0.0
        return total

    def outcome(self, agent: AgentID, role: Role) -> Outcome | None:
        """The agent's outcome in that role; None when it did not play it."""
        for outcome in self.outcomes:
            if (outcome.agent, outcome.role) == (agent, role):
                return outcome
        return None
