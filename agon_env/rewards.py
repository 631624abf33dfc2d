"""Comparative reward: the verdicts of one match -> parts of one reward per turn.

Both agents are paid for a correct answer; the solver more where the rival's draft was wrong (the
conversion bonus of Agon, arXiv:2607.07690). Nobody is paid for the rival's failure alone: every
term but the format term, and the margin ablation's penalty, is multiplied by the agent's own
correctness, so two wrong answers earn nothing beyond the format.

Pure: no model, no I/O, no randomness. A `Play` is all that a reward may look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from agon_env.types import Problem, Role, Verdict

Parts: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Play:
    """One turn with its verdicts: all that a reward may look at."""

    problem: Problem
    role: Role
    verdict: Verdict
    """Verdict of this reply."""
    rival_verdict: Verdict
    """Verdict of the turn played against: the solution for a draft, the draft for a solution."""
    well_formed: bool
    """The format term f: the template found exactly one complete thinking and one answer block."""
    reply: str
    draft: str
    """The part of the rival's draft that the agent was shown; "" for a drafter."""
    length: int
    """Characters of the reply."""
    rival_length: int
    """Characters of the rival's reply."""


@dataclass(frozen=True)
class RewardScheme:
    """Weights of the reward's parts; calling it with a `Play` gives the weighted parts.

    With c and c' the own and the rival's verdict as numbers in [0, 1], f the format term, |.|
    lengths:

        drafter  correct * c + drafter_conversion * c * (1 - c') + format * f
        solver   correct * c + conversion * c * (1 - c') + margin * (c - c') + format * f
                 + brevity * c * c' * [|reply| < |rival's reply|]

    A part with weight 0 does not appear. With the defaults (the paper's) the solver's ladder is
    0, 2, 3, plus 0.5 for the format:

        >>> right, wrong = Verdict(True, "match"), Verdict(False, "mismatch")
        >>> play = Play(Problem("1", "1+1?", "2"), "solver", right, wrong, True, "2", "3", 1, 1)
        >>> RewardScheme()(play)
        {'correct': 2.0, 'conversion': 1.0, 'format': 0.5}
    """

    correct: float = 2.0
    """Paid for a correct answer, in both roles."""
    conversion: float = 1.0
    """Paid to a correct solver whose rival's draft was wrong."""
    format: float = 0.5
    """Paid for a well-formed reply, in both roles."""
    margin: float = 0.0
    """Times c - c', for the solver: in expectation only a baseline, as c' is fixed before."""
    brevity: float = 0.0
    """Paid to a solver shorter than the draft, where both are correct."""
    drafter_conversion: float = 0.0
    """Paid to a correct drafter whose rival's solution was wrong."""

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not (isinstance(weight, int | float) and math.isfinite(weight)):
                raise ValueError(f"RewardScheme.{name} must be a finite number, got {weight!r}")

    def __call__(self, play: Play) -> Parts | None:
        """Weighted parts of one turn; None when a verdict that a part needs is unscored."""
        rival_matters = self.rival_matters(play.role)
        if play.verdict.correct is None or (rival_matters and play.rival_verdict.correct is None):
            return None
        own = play.verdict.value
        rival = play.rival_verdict.value if rival_matters else 0.0
        form = float(play.well_formed)
        if play.role == "drafter":
            terms = {
                "correct": self.correct * own,
                "conversion": self.drafter_conversion * own * (1.0 - rival),
                "format": self.format * form,
            }
            weights = (self.correct, self.drafter_conversion, self.format)
        else:
            shorter = float(play.length < play.rival_length)
            terms = {
                "correct": self.correct * own,
                "conversion": self.conversion * own * (1.0 - rival),
                "margin": self.margin * (own - rival),
                "format": self.format * form,
                "brevity": self.brevity * own * rival * shorter,
            }
            weights = (self.correct, self.conversion, self.margin, self.format, self.brevity)
        return {name: term for (name, term), w in zip(terms.items(), weights, strict=True) if w}

    def rival_matters(self, role: Role) -> bool:
        """Whether the reward of that role depends on the rival's verdict."""
        if role == "drafter":
            return bool(self.drafter_conversion)
        return bool(self.conversion or self.margin or self.brevity)


SCHEMES: Mapping[str, RewardScheme] = {
    "agon": RewardScheme(),
    "cooperative": RewardScheme(conversion=0.0),
    "margin": RewardScheme(conversion=0.0, margin=1.0),
    "agon-brevity": RewardScheme(brevity=0.5),
    "both-paid": RewardScheme(drafter_conversion=1.0),
}
"""The paper's reward, its two ablations, its brevity tie-break, and the bonus in both seats."""

Reward: TypeAlias = Callable[[Play], Parts | None]
RewardFunction: TypeAlias = Callable[[Play], float | Mapping[str, float] | None]
"""A reward as a user may write it."""


@dataclass(frozen=True)
class CustomReward:
    """A user's function of a `Play`, held to the contract of a reward.

    The function returns a number, a mapping of named parts, or None for "not scorable".
    """

    function: RewardFunction

    def __call__(self, play: Play) -> Parts | None:
        result = self.function(play)
        if result is None:
            return None
        parts: Mapping[Any, Any] = result if isinstance(result, Mapping) else {"reward": result}
        numbers: Parts = {}
        for name, value in parts.items():
            try:
                numbers[str(name)] = float(value)
            except (TypeError, ValueError):
                numbers[str(name)] = math.nan
            if not math.isfinite(numbers[str(name)]):
                raise ValueError(
                    f"a reward must be a finite number, a mapping of them, or None; "
                    f"{self.function!r} returned {result!r}"
                )
        return numbers


def reward_scheme(reward: str | RewardScheme | RewardFunction) -> Reward:
    """The reward function for a name ("agon", "cooperative", "margin"), a scheme or a function."""
    if isinstance(reward, str):
        if reward not in SCHEMES:
            raise ValueError(
                f"unknown reward {reward!r}; choose one of {sorted(SCHEMES)}, "
                "or pass a RewardScheme or a function of a Play"
            )
        return SCHEMES[reward]
    if isinstance(reward, RewardScheme | CustomReward):
        return reward
    if callable(reward):
        return CustomReward(reward)
    raise TypeError(
        "reward must be a name, a RewardScheme or a function of a Play, "
        f"got {type(reward).__name__}"
    )
