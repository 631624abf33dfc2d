"""A small game for tests: six sums, an exact verifier that runs inline, and scripted replies."""

from __future__ import annotations

from agon_env.prompts import MATH_TEMPLATE
from agon_env.types import Problem, Verdict

PROBLEMS = tuple(
    Problem(id=f"sum-{n}", question=f"What is {n} + {n}?", answer=str(2 * n)) for n in range(6)
)


def exact(problem: Problem, text: str) -> Verdict:
    """Compare the answer that the template reads with the gold, letter by letter."""
    answer = MATH_TEMPLATE.read(problem, text).answer
    if answer is None:
        return Verdict(False, "no_answer")
    correct = answer.strip() == problem.answer
    return Verdict(correct, "match" if correct else "mismatch", answer=answer)


def reply(answer: str, *, note: str = "Doubling is adding twice.", thought: str = "hm") -> str:
    """A well-formed reply with that answer."""
    return f"<think>{thought}</think>{note}\n<answer>{answer}</answer>"


def right(problem: Problem, **notes: str) -> str:
    """A well-formed reply with the right answer."""
    return reply(problem.answer, **notes)


WRONG = reply("minus one")
"""A well-formed reply that is wrong for every problem."""

PICKY = {"problems": PROBLEMS, "verifier": exact, "seed": 0}
"""Settings of every env in these tests."""


def problem_of(info: dict) -> Problem:
    """The problem that an info names."""
    return next(problem for problem in PROBLEMS if problem.id == info["problem_id"])
