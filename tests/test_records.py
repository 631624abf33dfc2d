"""Records: episodes survive JSON lines, a killed writer, and any string."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon_env.records import EpisodeWriter, episode_from_json, episode_to_json, read_episodes
from agon_env.types import AGENTS, CodeTests, Episode, Outcome, Problem, Turn, Verdict

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(st.none() | st.booleans() | st.integers() | finite | any_text, st.lists)
tests = st.builds(
    CodeTests,
    cases=st.lists(st.dictionaries(any_text, json_values, max_size=2), max_size=2).map(tuple),
    fn_name=st.none() | any_text,
    partial=st.booleans(),
)
problems = st.builds(
    Problem,
    id=any_text,
    question=any_text,
    answer=any_text,
    tests=st.none() | tests,
    difficulty=st.none() | finite,
    topic=st.none() | any_text,
)
verdicts = st.builds(
    Verdict,
    correct=st.none() | st.booleans(),
    reason=st.sampled_from(["match", "mismatch", "unscorable", "time_limit"]),
    answer=st.none() | any_text,
    seconds=finite,
    score=st.none() | st.floats(0, 1),
)
agents, roles = st.sampled_from(AGENTS), st.sampled_from(["drafter", "solver"])
turns = st.builds(Turn, agent=agents, role=roles, draft=any_text, reply=any_text, cut=st.booleans())
outcomes = st.builds(
    Outcome,
    agent=agents,
    role=roles,
    verdict=verdicts,
    rival_verdict=verdicts,
    well_formed=st.booleans(),
    reward=st.none() | finite,
    parts=st.dictionaries(any_text, finite, max_size=3),
)
episodes = st.builds(
    Episode,
    problem=problems,
    turns=st.lists(turns, max_size=4).map(tuple),
    outcomes=st.lists(outcomes, max_size=4).map(tuple),
)

EPISODE = Episode(
    Problem("1", "1 + 1?", "2"),
    (Turn("agent_0", "drafter", "", "\ud800 2"), Turn("agent_1", "solver", "2", "3")),
    (
        Outcome(
            "agent_0",
            "drafter",
            Verdict(True, "match", "2", 0.5),
            Verdict(None, "error"),
            True,
            2.0,
        ),
        Outcome("agent_1", "solver", Verdict(None, "error"), Verdict(True, "match"), False, None),
    ),
)


@settings(max_examples=40)
@given(episodes)
def test_an_episode_survives_json(episode):
    line = episode_to_json(episode)
    again = episode_from_json(line)
    assert again == episode
    assert "\n" not in line
    assert line.isascii()


def test_the_running_time_of_a_verdict_is_kept_though_it_is_no_part_of_equality():
    again = episode_from_json(episode_to_json(EPISODE))
    assert again.outcomes[0].verdict.seconds == 0.5


def test_none_and_zero_stay_different_rewards():
    """Pitfall 29."""
    again = episode_from_json(episode_to_json(EPISODE))
    assert [outcome.reward for outcome in again.outcomes] == [2.0, None]


def test_extra_values_stand_beside_the_episode_and_do_not_disturb_it():
    line = episode_to_json(EPISODE, {"step": 7})
    assert json.loads(line)["extra"] == {"step": 7}
    assert episode_from_json(line) == EPISODE


def test_a_file_is_appended_to_over_several_sessions(tmp_path):
    path = tmp_path / "episodes.jsonl"
    for _ in range(2):
        with EpisodeWriter(path) as writer:
            writer.write(EPISODE)
            writer.write(EPISODE, {"step": 1})
    assert list(read_episodes(path)) == [EPISODE] * 4


@pytest.mark.parametrize("fragment", ['{"problem": {"id": "half', "x" * 200_000])
def test_an_unfinished_last_line_is_ignored_by_readers_and_removed_by_writers(tmp_path, fragment):
    """Pitfall 66: what a killed run leaves must not break the next one."""
    path = tmp_path / "episodes.jsonl"
    with EpisodeWriter(path) as writer:
        writer.write(EPISODE)
    with path.open("a") as file:
        file.write(fragment)
    assert list(read_episodes(path)) == [EPISODE]
    with EpisodeWriter(path) as writer:
        writer.write(EPISODE)
    assert list(read_episodes(path)) == [EPISODE, EPISODE]


def test_a_file_of_one_unfinished_line_is_started_anew(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text('{"probl')
    with EpisodeWriter(path) as writer:
        writer.write(EPISODE)
    assert list(read_episodes(path)) == [EPISODE]


@pytest.mark.parametrize("line", ["[]", "{}", "not json", '{"problem": {"nope": 1}, "turns": []}'])
def test_a_line_that_holds_no_episode_is_named_with_its_file(tmp_path, line):
    path = tmp_path / "episodes.jsonl"
    path.write_text(episode_to_json(EPISODE) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"episodes\.jsonl:2: not an episode"):
        list(read_episodes(path))


def test_a_reward_that_is_no_number_is_not_written():
    bad = Outcome(
        "agent_0", "drafter", Verdict(True, "match"), Verdict(True, "match"), True, float("nan")
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        episode_to_json(Episode(EPISODE.problem, (), (bad,)))
