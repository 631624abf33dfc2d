"""The single-agent view: a learner against a fixed rival."""

from __future__ import annotations

import gymnasium
import pytest
from simple_game import PICKY, PROBLEMS, WRONG, exact, reply

import agon_env

PINNED = {"problem_id": "sum-3"}


def stubborn(prompt: str) -> str:
    """A rival that always says the same."""
    return WRONG


def test_the_learner_drafts_and_solves_in_turn_with_one_step_per_episode():
    env = agon_env.single_agent_env(rival=stubborn, **PICKY)
    roles = []
    for _ in range(4):
        observation, info = env.reset(options=PINNED)
        roles.append(observation["role"])
        assert info["acts"]
        *_, terminated, truncated, _ = env.step(reply("6"))
        assert (terminated, truncated) == (True, False)
    assert roles == ["drafter", "solver", "drafter", "solver"]


def test_a_learning_solver_reads_the_rivals_draft_without_its_answer():
    env = agon_env.single_agent_env(rival=stubborn, **PICKY)
    observation, info = env.reset(options={**PINNED, "seating": "agent_1"})
    assert observation["draft"] == "Doubling is adding twice.\n<answer>[withheld]</answer>"
    assert observation["draft"] in info["messages"][-1]["content"]
    _, reward, _, _, info = env.step(reply("6"))
    assert reward == 3.5
    assert info["rival_verdict"].correct is False


def test_the_rival_is_given_the_prompt_of_its_role():
    prompts = []

    def rival(prompt: str) -> str:
        prompts.append(prompt)
        return WRONG

    env = agon_env.single_agent_env(rival=rival, **PICKY)
    env.reset(options={**PINNED, "seating": "agent_0"})
    assert prompts == []
    env.step(reply("6", note="my note"))
    env.reset(options={**PINNED, "seating": "agent_1"})
    solving, drafting = prompts
    assert "my note" in solving
    assert "What is 3 + 3?" in drafting
    assert "Another solver" not in drafting


def test_with_both_drafting_an_episode_has_two_steps():
    env = agon_env.single_agent_env(rival=stubborn, **PICKY, seating="both")
    env.reset(options=PINNED)
    observation, reward, terminated, _, _ = env.step(reply("6"))
    assert (observation["role"], reward, terminated) == ("solver", 0.0, False)
    _, reward, terminated, _, _ = env.step(reply("6"))
    assert (reward, terminated) == (6.0, True)
    turns = [(turn.agent, turn.role) for turn in env.episode.turns]
    assert turns == [
        ("agent_0", "drafter"),
        ("agent_1", "drafter"),
        ("agent_0", "solver"),
        ("agent_1", "solver"),
    ]


@pytest.mark.parametrize("rival", [None, "a name"])
def test_a_rival_is_required(rival):
    agon_env.register_task("gym-sums", lambda split: PROBLEMS)
    with pytest.raises(ValueError, match="needs rival=, a function from prompt text to reply text"):
        gymnasium.make("agon/gym-sums-v0", rival=rival)


def test_a_rival_must_reply_in_text():
    env = agon_env.single_agent_env(rival=lambda prompt: None, **PICKY)
    with pytest.raises(TypeError, match="a reply must be a string, got NoneType from agent_1"):
        env.reset(options={"seating": "agent_1"})


def test_gymnasium_makes_the_env_of_a_task():
    agon_env.register_task("gym-sums", lambda split: PROBLEMS)
    env = gymnasium.make("agon/gym-sums-v0", rival=stubborn, verifier=exact, seed=1)
    observation, _ = env.reset(seed=1)
    assert observation["role"] == "drafter"
    assert env.observation_space.contains(observation)
    assert env.step("no answer")[1] == 0.0
