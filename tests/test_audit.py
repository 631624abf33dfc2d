"""The audit: each kind of bad problem is found, and stored episodes can be judged again."""

import dataclasses
import json

import pytest

import agon_env
from agon_env.audit import audit, is_guessable, leaks, main, rejudge
from agon_env.types import CodeTests, Problem
from agon_env.verifiers import VerifierPool

GOOD = Problem("good", "What is 6 * 7?", "42")
BROKEN = Problem("broken", "Draw the graph.", "see the figure above")
BINARY = Problem("binary", "Is 7 a prime number?", "Yes")
LEAK = Problem("leak", "Show that the sum is 12345 and give it.", "12345")
TWICE = Problem("twice", "What is $6 * 7$?", "42")
CODE = Problem("code", "Echo.", "", verifier="code", tests=[{"input": "1", "output": "1"}])
EMPTY = Problem("empty", "Say nothing.", "", verifier="code", tests=[{"input": "1", "output": ""}])
NONE = Problem("none", "Do it.", "", verifier="code", tests=CodeTests(()))


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=2) as pool:
        yield pool


@pytest.mark.slow
def test_each_kind_of_bad_problem_is_found(pool):
    """Pitfalls 64 and 65: unusable golds and guessable answers."""
    findings = audit([GOOD, BROKEN, BINARY, LEAK, TWICE, CODE, EMPTY, NONE], pool)
    repeated = findings.ids.pop("duplicate")
    assert len(repeated) == 1
    assert set(repeated) < {"good", "twice"}
    assert findings.ids == {
        "gold cannot be used": ["broken"],
        "guessable answer": ["binary"],
        "gold stands in the question": ["leak"],
        "tests accept an empty program": ["empty"],
        "tests cannot be used": ["none"],
    }
    assert len(findings.latencies_s) == 8


def test_a_clean_set_has_no_findings(pool):
    findings = audit(agon_env.load_problems("arithmetic-easy", limit=50), pool)
    assert findings.ids == {}


@pytest.mark.parametrize(
    ("answer", "guessable"),
    [
        ("Yes", True),
        (r"\text{no}", True),
        (r"\boxed{True}.", True),
        ("B", True),
        ("(C)", True),
        ("42", False),
        ("x", False),
        ("Norway", False),
        ("AB", False),
    ],
)
def test_a_guessable_answer_is_known(answer, guessable):
    assert is_guessable(answer) is guessable


@pytest.mark.parametrize(
    ("question", "answer", "found"),
    [
        ("The result 12345 is known.", "12345", True),
        ("The result is 12345.", "12345", True),
        ("The result 123456 is known.", "12345", False),
        ("The result 12345.5 is known.", "12345", False),
        ("Add 2 and 2.", "2", False),
        (r"Show $\frac{1}{3}$.", r"\frac{1} {3}", True),
    ],
)
def test_a_gold_in_the_question_is_found_as_a_whole_token(question, answer, found):
    assert leaks(Problem("p", question, answer)) is found


@pytest.fixture
def episodes():
    """Four matches: the drafts are wrong, the solutions right."""
    problems = agon_env.load_problems("arithmetic-easy", limit=4)
    played = []
    for problem in problems:
        env = agon_env.parallel_env(problems=[problem])
        env.reset(seed=0)
        for text in ("\\boxed{-1}", f"\\boxed{{{problem.answer}}}"):
            env.step(dict.fromkeys(env.agents, text))
        played.append(env.unwrapped.episode)
    return played


def falsified(episode):
    """The episode as an older verifier might have judged it: everything correct."""
    outcomes = [
        dataclasses.replace(outcome, verdict=dataclasses.replace(outcome.verdict, correct=True))
        for outcome in episode.outcomes
    ]
    return dataclasses.replace(episode, outcomes=tuple(outcomes))


@pytest.mark.slow
def test_judging_again_changes_nothing_when_nothing_changed(pool, episodes):
    count, changes = rejudge(episodes, pool)
    assert count == sum(len(episode.turns) for episode in episodes) == 16
    assert changes == []


def test_judging_again_finds_the_verdicts_that_differ(pool, episodes):
    _, changes = rejudge([falsified(episodes[0]), *episodes[1:]], pool)
    assert {change.problem_id for change in changes} == {episodes[0].problem.id}
    assert {change.role for change in changes} == {"drafter"}
    assert [(c.before.correct, c.now.correct) for c in changes] == [(True, False)] * 2


@pytest.mark.slow
def test_the_command_line_judges_stored_episodes_again(tmp_path, capsys, episodes):
    path = tmp_path / "episodes.jsonl"
    with agon_env.EpisodeWriter(path) as writer:
        for episode in (falsified(episodes[0]), *episodes[1:]):
            writer.write(episode)
    assert main(["--rejudge", str(path), "--json", "--workers", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["replies"] == 16
    assert [change["now"]["reason"] for change in result["changes"]] == ["mismatch"] * 2
    assert main(["--rejudge", str(path), "--workers", "1"]) == 0
    assert "2 verdicts changed" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_line_audits_a_file(tmp_path, capsys):
    path = tmp_path / "problems.jsonl"
    rows = [{"id": p.id, "question": p.question, "answer": p.answer} for p in (GOOD, BINARY, LEAK)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main([str(path), "--json", "--workers", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["problems"] == 3
    assert result["findings"]["guessable answer"] == {"count": 1, "ids": ["binary"]}
    assert result["latency_ms"]["p50"] > 0
    assert main([str(path), "--workers", "1"]) == 0
    assert "guessable answer" in capsys.readouterr().out


def test_the_command_line_names_an_unknown_task(capsys):
    assert main(["arithmetic-eazy", "--workers", "1"]) == 2
    assert "did you mean 'arithmetic-easy'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([])
