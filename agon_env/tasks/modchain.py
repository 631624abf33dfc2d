"""ModChain: chains of additions and multiplications mod 11, `3 +4 *2` -> `+4 7 *2 3` -> 3.

3 + 4 = 7 and 7 * 2 = 14 = 3 (mod 11). Each step depends on the value before it, so one wrong fact
spoils all that follows, and the last value is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon_env.tasks.chains import WITHHELD, ChainRules, register_chains

MODULUS = 11


def apply(operation: str, value: int) -> int:
    """One step of a chain: `apply("+4", 9) == 2`, `apply("*2", 7) == 3`."""
    operand = int(operation[1:])
    return (value + operand if operation[0] == "+" else value * operand) % MODULUS


def last_value(values: Sequence[int]) -> str:
    """The answer of a derivation."""
    return str(values[-1])


MODCHAIN = register_chains(
    ChainRules(
        name="modchain",
        # No two are the same function, and none is the identity.
        operations=(
            *(f"+{a}" for a in range(1, MODULUS)),
            *(f"*{a}" for a in range(2, MODULUS)),
        ),
        n_values=MODULUS,
        n_starts=MODULUS,
        states=tuple(range(MODULUS)),
        apply=apply,
        answer=last_value,
        lengths={"easy": (2, 3), "medium": (4, 5, 6), "hard": (8,)},
        topic="arithmetic modulo 11",
        instructions=(
            f"Apply the operations to the first number, in order and modulo {MODULUS}. Reply with "
            "every operation followed by the value it leads to, separated by spaces, and with "
            "nothing else. Example: for 3 +4 *2 reply +4 7 *2 3. After D: stands the derivation "
            f"of another solver, which may be wrong; its last value is withheld as {WITHHELD}."
        ),
    )
)
