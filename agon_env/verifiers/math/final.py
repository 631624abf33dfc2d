r"""(gold, answer) -> whether the answer is worked out, for tasks that know the form of their golds.

A calculator is equal to every expression that it could be asked for: `(4 * 11)` is 44, and a
learner that is paid for it learns to echo the question. Where a task makes its own golds, their
form is known: a number is one numeral, and a derivative holds no `\frac{d}{dx}`. `judge_final`
is `judge_math` with this demand; what a general question may leave unevaluated is `parrot.py`.
"""

from __future__ import annotations

import dataclasses
import re

from agon_env.types import Problem, Verdict
from agon_env.verifiers.math.brackets import split_top
from agon_env.verifiers.math.judge import judge_math
from agon_env.verifiers.math.normalize import canonical, squeeze
from agon_env.verifiers.math.parrot import is_unevaluated

_INTEGER = r"[-+]?\d+(?:\.0*)?"
_WHOLE = re.compile(_INTEGER)
_RATIONAL = re.compile(
    rf"{_INTEGER}|[-+]?\d*\.\d+|[-+]?\d*\\frac\{{\d+\}}\{{\d+\}}|[-+]?\d+/\d+"
    r"|\\frac\{-\d+\}\{\d+\}|\\frac\{\d+\}\{-\d+\}"
)
_EQUALS = re.compile(r"\s*=")


def judge_final(problem: Problem, text: str) -> Verdict:
    """As `judge_math`, and the answer must be in final form: `44`, `x = 44`, not `4 * 11`.

    An equal answer that is not worked out is a mismatch.
    """
    verdict = judge_math(problem, text)
    if verdict.correct and not is_final(problem.answer, verdict.answer or ""):
        return dataclasses.replace(verdict, correct=False, reason="mismatch")
    return verdict


def is_final(gold: str, answer: str) -> bool:
    """Whether an answer has the form of the gold.

    A whole gold asks for one whole number, a fraction for one fraction or decimal; any other gold
    for an answer without integrals, limits, derivatives, sums and remainders. Of a chain such as
    `x = 44` or `4 * 11 = 44` the last side counts.
    """
    wanted, given = (_last_side(text) for text in (gold, answer))
    if _WHOLE.fullmatch(wanted):
        return bool(_WHOLE.fullmatch(given))
    if _RATIONAL.fullmatch(wanted):
        return bool(_RATIONAL.fullmatch(given))
    return not is_unevaluated(given)


def _last_side(text: str) -> str:
    """The last side of a chain of equations, without blanks and outer brackets around a number."""
    parts, _ = split_top(canonical(text), _EQUALS)
    last = squeeze(parts[-1])
    if numeral := re.fullmatch(r"[({\[]*([-+]?[\d.]+)[)}\]]*", last):
        return numeral.group(1)
    return last
