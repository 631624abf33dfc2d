"""The rules: order of turns, roles, what is seen, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simple_game import PROBLEMS, WRONG, reply

from agon_env.prompts import MATH_TEMPLATE
from agon_env.rules import Match
from agon_env.spaces import MAX_REPLY_CHARS, UnicodeText, action_space, observation_space
from agon_env.types import AGENTS

A, B = AGENTS
PROBLEM = PROBLEMS[3]


def match(drafters=(A,), reveal="summary") -> Match:
    return Match(PROBLEM, drafters, MATH_TEMPLATE, reveal)


@pytest.mark.parametrize(("drafter", "solver"), [(A, B), (B, A)])
def test_with_one_drafter_it_drafts_and_then_its_rival_solves(drafter, solver):
    start = match((drafter,))
    assert start.actors() == ((drafter, "drafter"),)
    drafted = start.play(drafter, WRONG)
    assert drafted.actors() == ((solver, "solver"),)
    solved = drafted.play(solver, WRONG)
    assert solved.over
    assert solved.actors() == ()
    assert [(turn.agent, turn.role) for turn in solved.turns] == [
        (drafter, "drafter"),
        (solver, "solver"),
    ]


@pytest.mark.parametrize("first", AGENTS)
def test_with_both_drafting_each_solves_on_the_others_draft_whoever_replied_first(first):
    second = B if first == A else A
    state = match(AGENTS)
    state = state.play(first, reply("1", note=f"note of {first}"))
    assert state.actors() == ((second, "drafter"),)
    assert state.observe(second) == {"role": "drafter", "problem": PROBLEM.question, "draft": ""}
    state = state.play(second, reply("2", note=f"note of {second}"))
    for agent, rival in ((A, B), (B, A)):
        assert state.observe(agent)["role"] == "solver"
        assert f"note of {rival}" in state.observe(agent)["draft"]
        assert f"note of {agent}" not in state.observe(agent)["draft"]


def test_a_match_is_a_value_and_playing_it_leaves_the_old_one_as_it_was():
    start = match()
    start.play(A, "one")
    assert start.turns == ()
    assert start.play(A, "two").turns[0].reply == "two"


def test_every_turn_knows_the_turn_it_is_measured_against():
    state = match(AGENTS)
    for agent, text in ((A, "a draft"), (B, "b draft"), (A, "a solution"), (B, "b solution")):
        state = state.play(agent, text)
    pairs = {turn.reply: state.against(turn).reply for turn in state.turns}
    assert pairs == {
        "a draft": "b solution",
        "b draft": "a solution",
        "a solution": "b draft",
        "b solution": "a draft",
    }


@pytest.mark.parametrize(
    ("reveal", "shown"),
    [
        ("summary", "Doubling is adding twice.\n<answer>[withheld]</answer>"),
        ("full", reply("41", thought="secret")),
        ("none", ""),
    ],
)
def test_reveal_decides_what_of_the_draft_is_shown(reveal, shown):
    state = match(reveal=reveal).play(A, reply("41", thought="secret"))
    assert state.observe(B)["draft"] == shown
    assert state.play(B, "42").turns[1].draft == shown


def test_an_unfinished_thought_shows_nothing():
    state = match().play(A, "<think>6, surely 6, let me")
    assert state.observe(B)["draft"] == ""


def test_an_agent_cannot_reply_out_of_turn_or_after_the_end():
    with pytest.raises(ValueError, match=r"'agent_1' cannot reply now.*agent_0"):
        match().play(B, "early")
    done = match().play(A, "x").play(B, "y")
    with pytest.raises(ValueError, match="the match is over"):
        done.play(A, "again")
    with pytest.raises(ValueError, match="agent must be one of"):
        match().observe("agent_2")


def test_only_a_string_is_a_reply():
    with pytest.raises(TypeError, match="a reply must be a string, got NoneType from agent_0"):
        match().play(A, None)


def test_a_reply_over_the_limit_is_cut_and_flagged_and_one_at_the_limit_is_not():
    fits = match().play(A, "x" * MAX_REPLY_CHARS).turns[0]
    long = match().play(A, "x" * (MAX_REPLY_CHARS + 1)).turns[0]
    assert (len(fits.reply), fits.cut) == (MAX_REPLY_CHARS, False)
    assert (len(long.reply), long.cut) == (MAX_REPLY_CHARS, True)


def test_a_draft_of_nothing_but_answers_still_fits_the_observation_space():
    """The marker is longer than the box that it replaces."""
    state = match().play(A, r"\boxed{1} and " * (MAX_REPLY_CHARS // 14))
    assert observation_space().contains(state.observe(B))


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60))
def test_any_string_is_a_legal_reply(text):
    """Lone surrogates, NULs and all."""
    assert action_space().contains(text)
    state = match(AGENTS).play(A, text).play(B, text)
    assert observation_space().contains(state.observe(A))
    assert state.play(A, text).play(B, text).over


@pytest.mark.parametrize("text", ["", "\0", "\ud800", r"\frac{\pi}{2} ≤ √2", "x" * MAX_REPLY_CHARS])
def test_the_text_space_accepts_what_gymnasiums_own_rejects(text):
    """Trap 2: the default alphabet of `spaces.Text` has no LaTeX."""
    assert action_space().contains(text)


@pytest.mark.parametrize("thing", [None, 3, b"bytes", ["list"], "x" * (MAX_REPLY_CHARS + 1)])
def test_the_text_space_rejects_what_is_no_string_or_too_long(thing):
    assert not action_space().contains(thing)


def test_samples_of_the_text_space_are_legal_and_follow_the_seed():
    one, other = action_space(), action_space()
    one.seed(5)
    other.seed(5)
    samples = [one.sample() for _ in range(50)]
    assert samples == [other.sample() for _ in range(50)]
    assert all(one.contains(sample) for sample in samples)
    assert len(set(samples)) > 40
    assert UnicodeText(2, seed=0).sample() in UnicodeText(2)


@pytest.mark.parametrize("drafters", [(), ("agent_2",), (B, A), (A, A)])
def test_drafters_are_one_agent_or_both_in_order(drafters):
    with pytest.raises(ValueError, match="drafters must be"):
        match(drafters)


def test_an_unknown_reveal_is_refused():
    with pytest.raises(ValueError, match="reveal must be 'summary', 'full' or 'none', got 'all'"):
        match(reveal="all")
