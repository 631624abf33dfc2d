"""Carry: addition of two long numbers, column by column from the right, with carries.

`0 7+5 4+8` is 47 + 85: the columns 7+5 and 4+8, the carry before the first one being 0. The
derivation `7+5 12 4+8 13` gives each column's sum with the carry that enters it; the answer, 132,
is the last sum followed by the last digits of the others.

It differs from `modchain.py` where it matters for a rival who reads drafts. There a step depends on
the whole value before it; here only on the carry, so a wrong fact spoils one digit and seldom more.
There the answer is one value; here all of them are, so every draft that is shown gives nearly all
of the answer away, right or wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon_env.tasks.chains import WITHHELD, ChainRules, register_chains

BASE = 10
SUMS = 2 * BASE
"""A column and its carry add up to less than this."""


def apply(operation: str, carry: int) -> int:
    """A column's sum: `apply("7+5", 1) == 13`."""
    first, second = operation.split("+")
    return int(first) + int(second) + carry


def number(sums: Sequence[int]) -> str:
    """The columns' sums from the right -> the number: `number([12, 13]) == "132"`."""
    return "".join(map(str, (sums[-1], *(s % BASE for s in reversed(sums[:-1])))))


CARRY = register_chains(
    ChainRules(
        name="carry",
        operations=tuple(f"{a}+{b}" for a in range(BASE) for b in range(BASE)),
        n_values=SUMS,
        n_starts=1,
        states=tuple(value // BASE for value in range(SUMS)),
        apply=apply,
        answer=number,
        lengths={"easy": (2, 3), "medium": (4, 5, 6), "hard": (8,)},
        topic="addition with carries",
        instructions=(
            "Add two numbers column by column. The columns stand from the right to the left after "
            "a 0. Reply with every column followed by its sum with the carry that enters it, "
            "separated by spaces, and with nothing else. Example: for 0 7+5 4+8 reply 7+5 12 4+8 "
            "13. After D: stands the derivation of another solver, which may be wrong; its last "
            f"sum is withheld as {WITHHELD}."
        ),
    )
)
