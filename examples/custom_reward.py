"""Your own problems, your own verifier and your own reward, in one page.

    python examples/custom_reward.py

Problems are records with a question and an answer. A verifier is a function (problem, reply) ->
bool or `Verdict`; leave it out to have mathematics and programs judged for you. A reward is a
function of a `Play`, which holds both verdicts, both lengths, the reply and the draft; it returns
a number or named parts.
"""

from collections.abc import Iterable

import agon_env
from agon_env import Play, Problem

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima", "Kenya": "Nairobi"}


def load_capitals(split: str) -> Iterable[Problem]:
    """Problems of a split; a real loader would read a file."""
    for country, capital in CAPITALS.items():
        yield Problem(id=country, question=f"What is the capital of {country}?", answer=capital)


def names_it(problem: Problem, text: str) -> bool:
    """Right when the answer stands in the answer tags, whatever its case."""
    answer = agon_env.MATH_TEMPLATE.read(problem, text).answer or ""
    return answer.strip().casefold() == problem.answer.casefold()


def mend_and_be_brief(play: Play) -> dict[str, float]:
    """Pay for a right answer, more for mending a wrong draft, and less for long replies."""
    right, rival_right = play.verdict.value, play.rival_verdict.value
    mended = 3.0 * right * (1.0 - rival_right) if play.role == "solver" else 0.0
    return {"right": right, "mended": mended, "length": -0.001 * play.length}


def main() -> None:
    agon_env.register_task("capitals", load_capitals)
    env = agon_env.env("capitals", verifier=names_it, reward=mend_and_be_brief, seed=0)
    for _ in range(2):
        env.reset()
        for agent in env.agent_iter():
            _, reward, terminated, _, info = env.last()
            if terminated:
                print(f"{agent} as {info['role']}: {reward:+.3f} from {info['reward_parts']}")
                env.step(None)
                continue
            country = info["problem_id"]
            answer = CAPITALS[country] if info["role"] == "solver" else "Atlantis"
            env.step(f"<think>{country}</think>It is well known.\n<answer>{answer}</answer>")


if __name__ == "__main__":
    main()
