"""A tour of the game with two scripted agents; needs neither a model nor torch.

    python examples/tour.py

agent_0 cannot multiply and agent_1 cannot subtract, so each can mend what the other drafts wrongly.
Any function from chat messages to text can take their place.
"""

import operator
import re

import agon_env

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
CANNOT = {"agent_0": "*", "agent_1": "-"}


def reply(agent: str, messages: list[dict[str, str]]) -> str:
    """Answer `What is 14 * 7?`, or guess where the agent cannot."""
    question = re.search(r"What is (-?\d+) (.) (-?\d+)\?", messages[-1]["content"])
    assert question, "arithmetic-easy asks for one operation on two numbers"
    left, sign, right = int(question[1]), question[2], int(question[3])
    value = OPERATIONS["+" if sign == CANNOT[agent] else sign](left, right)
    return f"<think>{sign}?</think>I work out {left} {sign} {right}.\n<answer>{value}</answer>"


def main() -> None:
    env = agon_env.parallel_env("arithmetic-easy", seed=3, render_mode="human")
    total = dict.fromkeys(env.possible_agents, 0.0)
    for _ in range(3):
        _, infos = env.reset()
        while env.agents:  # two rounds: both draft, then each solves on the other's draft
            replies = {agent: reply(agent, infos[agent]["messages"]) for agent in env.agents}
            _, rewards, _, _, infos = env.step(replies)
            total = {agent: total[agent] + rewards[agent] for agent in total}
    print("rewards of three episodes:", total)


if __name__ == "__main__":
    main()
