"""Rendering: what people see of a match, and that model text cannot harm a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from simple_game import PICKY, WRONG, reply

import agon_env
from agon_env.render import episode_text, printable
from agon_env.types import AGENTS

PINNED = {"problem_id": "sum-3", "seating": "agent_0"}


def play(make, render_mode, draft=WRONG, solution=None):
    env = make(**PICKY, render_mode=render_mode)
    env.reset(options=PINNED)
    for text in (draft, reply("6") if solution is None else solution):
        env.step(dict.fromkeys(AGENTS, text) if make is agon_env.parallel_env else text)
    return env


@pytest.mark.parametrize("make", [agon_env.env, agon_env.raw_env, agon_env.parallel_env])
def test_ansi_returns_problem_turns_shown_draft_verdicts_and_parts(make, capsys):
    text = play(make, "ansi").render()
    assert text == (
        "problem sum-3\n"
        "  What is 3 + 3?\n"
        "\n"
        "agent_0 (drafter)\n"
        "  <think>hm</think>Doubling is adding twice.\n"
        "  <answer>minus one</answer>\n"
        "  -> wrong (mismatch) 'minus one'; reward 0.5 = correct 0 + format 0.5\n"
        "\n"
        "agent_1 (solver)\n"
        "  reads:\n"
        "    Doubling is adding twice.\n"
        "    <answer>[withheld]</answer>\n"
        "  writes:\n"
        "    <think>hm</think>Doubling is adding twice.\n"
        "    <answer>6</answer>\n"
        "  -> right (match) '6'; reward 3.5 = correct 2 + conversion 1 + format 0.5"
    )
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("make", [agon_env.env, agon_env.parallel_env])
def test_human_prints_a_finished_match_once_and_returns_nothing(make, capsys):
    env = play(make, "human")
    printed = capsys.readouterr().out
    assert printed.count("What is 3 + 3?") == 1
    assert "agent_1 (solver)" in printed
    assert "[withheld]" in printed
    assert "conversion 1" in printed
    assert env.render() is None
    assert "agent_1 (solver)" in capsys.readouterr().out


def test_gym_renders_like_the_others(capsys):
    env = agon_env.single_agent_env(rival=lambda prompt: WRONG, **PICKY, render_mode="human")
    env.reset(options=PINNED)
    env.step(reply("6"))
    assert "agent_1 (solver)" in capsys.readouterr().out


def test_a_batch_renders_every_match_by_its_mode(capsys):
    for mode in ("ansi", "human", None):
        venv = agon_env.vector_env(**PICKY, num_envs=2, render_mode=mode)
        venv.reset(options={"problem_id": ["sum-3", "sum-4"], "seating": "agent_0"})
        for _ in range(2):
            venv.step({agent: [WRONG, WRONG] for agent in AGENTS})
        printed = capsys.readouterr().out
        assert [printed.count(f"What is {n} + {n}?") for n in (3, 4)] == [int(mode == "human")] * 2
        text = venv.render()
        capsys.readouterr()
        assert (text is None) == (mode != "ansi")
        if text:
            assert [text.count(f"What is {n} + {n}?") for n in (3, 4)] == [1, 1]
    with pytest.raises(ValueError, match="render_mode must be None or one of"):
        agon_env.vector_env(**PICKY, render_mode="rgb_array")


def test_without_a_render_mode_nothing_is_rendered(capsys):
    assert play(agon_env.env, None).render() is None
    assert capsys.readouterr().out == ""


def test_a_match_under_way_is_rendered_without_results():
    env = agon_env.env(**PICKY, render_mode="ansi")
    env.reset(options=PINNED)
    assert env.render() == "problem sum-3\n  What is 3 + 3?"
    env.step(WRONG)
    assert env.render().endswith("<answer>minus one</answer>")


def test_unscored_and_cut_turns_say_so():
    env = agon_env.env(**{**PICKY, "verifier": lambda problem, text: None}, render_mode="ansi")
    env.reset(options=PINNED)
    env.step("x" * 200_001)
    env.step("y")
    text = env.render()
    assert "agent_0 (drafter) [cut to the length limit]" in text
    assert "unscored (unscorable); reward none" in text


NASTY = "\x1b[2J\x07\r\x9b31m \ud800 \0 [bold red]markup[/] \u202e \u2066"


def test_control_characters_and_surrogates_never_reach_the_terminal(capsys):
    env = play(agon_env.env, "ansi", NASTY, NASTY)
    for text in (env.render(), episode_text(env.unwrapped.episode)):
        assert all(character.isprintable() or character == "\n" for character in text)
        text.encode("utf-8")
    play(agon_env.env, "human", NASTY, NASTY)
    printed = capsys.readouterr().out
    assert "[bold red]markup[/]" in printed
    assert "\x1b" not in printed


def test_printable_keeps_lines_tabs_and_every_script():
    assert printable("a\tb\nπ√ 中文 😀") == "a\tb\nπ√ 中文 😀"


@pytest.mark.slow
def test_human_mode_works_where_the_terminal_speaks_ascii_only():
    code = (
        "import agon_env\n"
        "from simple_game import PICKY\n"
        "env = agon_env.env(**PICKY, render_mode='human')\n"
        "env.reset()\n"
        "env.step('\\u03c0 \\ud800')\n"
        "env.step('ok')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": "..", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "agent_0 (drafter)" in done.stdout
