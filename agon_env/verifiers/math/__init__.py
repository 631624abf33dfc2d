"""Math answers: reply -> verdict, gold -> usable or not.

`judge` is the entry; `normalize`, `values`, `compare` are the way of an answer through it, and
`expression`, `numeric`, `regions`, `words`, `units`, `algebra` what they stand on.
"""

from agon_env.verifiers.math.algebra import warm_up
from agon_env.verifiers.math.final import judge_final
from agon_env.verifiers.math.judge import (
    gold_problem,
    judge_math,
    judge_math_marked,
    verify_answer,
)

__all__ = [
    "gold_problem",
    "judge_final",
    "judge_math",
    "judge_math_marked",
    "verify_answer",
    "warm_up",
]
