"""The batched view: groups, seats, rounds, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from simple_game import PICKY, PROBLEMS, WRONG, exact, problem_of, reply

import agon_env
from agon_env.types import AGENTS

A, B = AGENTS


def all_say(venv, text: str) -> dict:
    return {agent: [text] * venv.num_envs for agent in AGENTS}


def test_a_batch_takes_two_steps_and_ends_in_one_episode_per_match():
    venv = agon_env.vector_env(**PICKY, num_envs=5)
    observations, infos = venv.reset()
    assert [len(observations[agent]) for agent in AGENTS] == [5, 5]
    assert venv.episodes == []
    _, rewards, terminations, truncations, _ = venv.step(all_say(venv, WRONG))
    assert not terminations.any()
    assert rewards[A].tolist() == [0.0] * 5
    observations, rewards, terminations, truncations, infos = venv.step(all_say(venv, reply("6")))
    assert terminations.dtype == truncations.dtype == np.bool_
    assert terminations.all()
    assert not truncations.any()
    assert venv.over
    for index, episode in enumerate(venv.episodes):
        assert {agent: rewards[agent][index] for agent in AGENTS} == episode.rewards()
        assert infos[A][index]["problem_id"] == episode.problem.id
        assert infos[A][index]["outcomes"] == tuple(o for o in episode.outcomes if o.agent == A)
    assert observations == {agent: [None] * 5 for agent in AGENTS}


def test_seats_alternate_over_the_matches_and_go_on_in_the_next_batch():
    venv = agon_env.vector_env(**PICKY, num_envs=3)
    drafts = []
    for _ in range(2):
        observations, _ = venv.reset()
        drafts += [observation is not None for observation in observations[A]]
        assert [o is None for o in observations[A]] == [o is not None for o in observations[B]]
    assert drafts == [True, False, True, False, True, False]


def test_a_list_of_ids_sets_the_size_and_repeats_a_problem_for_a_group():
    venv = agon_env.vector_env(**PICKY)
    ids = ["sum-4"] * 3 + ["sum-1"] * 2
    observations, infos = venv.reset(options={"problem_id": ids, "seating": A})
    assert venv.num_envs == 5
    assert [info["problem_id"] for info in infos[A]] == ids
    assert [observation["role"] for observation in observations[A]] == ["drafter"] * 5
    assert observations[B] == [None] * 5
    venv.step({A: [WRONG] * 5})
    _, rewards, *_ = venv.step({B: [reply("8")] * 5})
    assert rewards[B].tolist() == [3.5, 3.5, 3.5, 0.5, 0.5]
    venv.reset()
    assert venv.num_envs == 64


def test_each_solver_reads_the_draft_of_its_own_match():
    venv = agon_env.vector_env(**PICKY)
    venv.reset(options={"problem_id": ["sum-4"] * 4, "seating": A})
    drafts = [reply("1", note=f"draft number {index}") for index in range(4)]
    observations, _, _, _, infos = venv.step({A: drafts})
    for index in range(4):
        assert f"draft number {index}\n" in observations[B][index]["draft"]
        assert f"draft number {index}\n" in infos[B][index]["messages"][-1]["content"]


def test_one_id_is_played_in_every_match():
    venv = agon_env.vector_env(**PICKY, num_envs=3)
    _, infos = venv.reset(options={"problem_id": "sum-2"})
    assert [info["problem_id"] for info in infos[A]] == ["sum-2"] * 3


def test_seats_may_be_pinned_match_by_match():
    venv = agon_env.vector_env(**PICKY, num_envs=3)
    observations, infos = venv.reset(options={"seating": [B, "both", "fixed"]})
    assert [o and o["role"] for o in observations[A]] == [None, "drafter", "drafter"]
    assert [o and o["role"] for o in observations[B]] == ["drafter", "drafter", None]
    assert [info["acts"] for info in infos[B]] == [True, True, False]
    observations, *_ = venv.step(all_say(venv, WRONG))
    assert [o and o["role"] for o in observations[A]] == ["solver", "solver", None]


def test_the_same_seed_gives_the_same_batch():
    venv = agon_env.vector_env(**PICKY, num_envs=8)
    first, _ = venv.reset(seed=3)
    other, _ = venv.reset()
    again, _ = venv.reset(seed=3)
    assert first == again
    assert first != other


def test_all_drafts_are_at_the_verifier_before_any_solution_is_asked_for():
    judged = []

    def watch(problem, text):
        judged.append(text)
        return exact(problem, text)

    venv = agon_env.vector_env(problems=PROBLEMS, verifier=watch, num_envs=3)
    venv.reset()
    venv.step(all_say(venv, "draft"))
    assert judged == ["draft"] * 3


def test_unscored_turns_pay_zero_and_are_marked():
    """Pitfall 28."""
    venv = agon_env.vector_env(problems=PROBLEMS, verifier=lambda problem, text: None, num_envs=2)
    venv.reset()
    venv.step(all_say(venv, WRONG))
    _, rewards, _, _, infos = venv.step(all_say(venv, WRONG))
    assert rewards[A].tolist() == [0.0, 0.0]
    assert [info["scored"] for info in infos[A]] == [False, False]


def test_infos_name_the_problem_whose_answer_is_right():
    venv = agon_env.vector_env(**PICKY, num_envs=6, seating="both")
    _, infos = venv.reset()
    replies = [reply(problem_of(info).answer) for info in infos[A]]
    for _ in range(2):
        _, rewards, *_ = venv.step({A: replies, B: [WRONG] * 6})
    assert rewards[A].tolist() == [6.0] * 6
    assert rewards[B].tolist() == [1.0] * 6


def test_stepping_a_finished_batch_is_refused():
    venv = agon_env.vector_env(**PICKY, num_envs=1)
    venv.reset()
    venv.step(all_say(venv, WRONG))
    venv.step(all_say(venv, WRONG))
    with pytest.raises(RuntimeError, match=r"call reset\(\) to start a batch"):
        venv.step(all_say(venv, WRONG))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({}, r"actions\['agent_0'\] must be a list of 2 replies, one per match, got 0 replies"),
        ({A: ["x"]}, "got 1 replies"),
        ({A: "xy"}, "got one string"),
        ({A: ["x", None]}, r"actions\['agent_0'\]\[1\] must be a reply, got None"),
    ],
)
def test_missing_replies_are_named_and_nothing_is_played(actions, message):
    venv = agon_env.vector_env(**PICKY, num_envs=2, seating="fixed")
    before, _ = venv.reset()
    with pytest.raises(ValueError, match=message):
        venv.step(actions)
    with pytest.raises(TypeError, match="a reply must be a string, got int from agent_0"):
        venv.step({A: ["x", 3]})
    observations, *_ = venv.step({A: ["x", "y"]})
    assert before[A][0]["role"] == "drafter"
    assert observations[B][0]["role"] == "solver"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem_id": []}, "one entry per match"),
        ({"problem_id": ["sum-1"], "seating": [A, B]}, "got 1 problems and 2 seatings"),
        ({"problem_id": ["sum-77"]}, "unknown problem_id 'sum-77'"),
        ({"seating": "agent_2"}, "seating must be one of"),
    ],
)
def test_bad_options_are_refused_in_words(options, message):
    with pytest.raises(ValueError, match=message):
        agon_env.vector_env(**PICKY, num_envs=2).reset(options=options)


def test_a_batch_holds_at_least_one_match():
    with pytest.raises(ValueError, match="num_envs must be a whole number of at least 1, got 0"):
        agon_env.vector_env(**PICKY, num_envs=0)
    with pytest.raises(ValueError, match=r"got 1\.5"):
        agon_env.vector_env(**PICKY, num_envs=1.5)


def test_unknown_options_are_ignored():
    venv = agon_env.vector_env(**PICKY, num_envs=2)
    venv.reset(options={"options": 1})
    assert venv.num_envs == 2
