"""Evaluation against counts made by hand from the same episodes."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tiny_llm import policy

from agon_env.types import AGENTS, Episode, Outcome, Problem
from agon_env.vector import vector_env
from learners import evaluate as module
from learners.engines import HFEngine, Sampling
from learners.evaluate import Evaluation, evaluate
from learners.rollout import Player, Rollout, play
from learners.schedule import Plan
from learners.seeds import stream_seed
from learners.statistics import Proportion

PROBLEMS = [Problem(id=f"p{i}", question=f"{i}?", answer="1") for i in range(12)]


def judge(problem: Problem, text: str) -> bool | None:
    """Right for about half of all texts, unscored for one in seven."""
    return None if sum(text.encode()) % 7 == 0 else sum(text.encode()) % 2 == 0


def setting() -> tuple[dict[str, Player], vector_env]:
    seats = {
        agent: Player(policy(family), HFEngine(), Sampling(max_new_tokens=6))
        for agent, family in zip(AGENTS, ("qwen3", "llama"), strict=True)
    }
    return seats, vector_env(problems=PROBLEMS, verifier=judge)


@pytest.fixture(scope="module")
def evaluated() -> tuple[Evaluation, Rollout]:
    """An evaluation, and the rollout of the same seed played again."""
    result = evaluate(*setting(), PROBLEMS, seed=5)
    seats, env = setting()
    ids = [problem.id for problem in PROBLEMS]
    rollout = play(env, seats, Plan.simple(ids, "both"), step=0, seed=stream_seed(5, "chunk", 0))
    return result, rollout


def turn(episode: Episode, agent: str, role: str) -> Outcome:
    (found,) = [o for o in episode.outcomes if (o.agent, o.role) == (agent, role)]
    return found


def test_alone_is_the_drafts_and_a_cascade_the_solutions(evaluated):
    """Pitfall 72: both agents, both directions, and None is neither right nor in n."""
    result, rollout = evaluated
    for drafter, solver in (AGENTS, AGENTS[::-1]):
        drafts = [turn(e, drafter, "drafter").verdict.correct for e in rollout.episodes]
        solutions = [turn(e, solver, "solver").verdict.correct for e in rollout.episodes]
        alone, cascade = result.alone[drafter], result.cascade(drafter)
        assert (cascade.drafter, cascade.solver) == (drafter, solver)
        for stage, verdicts in ((alone, drafts), (cascade.solution, solutions)):
            assert stage.correct == Proportion(verdicts.count(True), 12 - verdicts.count(None))
            assert stage.unscored == verdicts.count(None)
    assert sum(stage.unscored for stage in result.alone.values()) > 0, "None must occur"


def test_conversion_and_corruption_are_conditioned_on_the_draft(evaluated):
    result, rollout = evaluated
    for drafter, solver in (AGENTS, AGENTS[::-1]):
        pairs = [
            (turn(e, drafter, "drafter").verdict.correct, turn(e, solver, "solver").verdict.correct)
            for e in rollout.episodes
        ]
        cascade = result.cascade(drafter)
        fixed, broken = pairs.count((False, True)), pairs.count((True, False))
        assert cascade.conversion == Proportion(fixed, fixed + pairs.count((False, False)))
        assert cascade.corruption == Proportion(broken, broken + pairs.count((True, True)))


def test_tokens_of_a_cascade_are_those_of_both_stages(evaluated):
    result, rollout = evaluated
    for drafter, solver in (AGENTS, AGENTS[::-1]):
        both = [*rollout.of(drafter, "drafter"), *rollout.of(solver, "solver")]
        cascade = result.cascade(drafter)
        assert cascade.tokens == pytest.approx(sum(len(t.completion_ids) for t in both) / 12)
        assert cascade.prompt_tokens == pytest.approx(sum(len(t.prompt_ids) for t in both) / 12)


def test_unfinished_replies_are_counted(evaluated):
    result, rollout = evaluated
    cut = sum(not t.finished for t in rollout.of(AGENTS[0], "drafter"))
    assert cut > 0
    assert result.alone[AGENTS[0]].unfinished == Proportion(cut, 12)


def test_chunks_play_every_problem_and_report_progress(monkeypatch):
    """Pitfall 40: the ragged last chunk counts."""
    monkeypatch.setattr(module, "CHUNK", 5)
    seen: list[tuple[int, int]] = []
    result = evaluate(
        *setting(), PROBLEMS, seed=5, samples=1, progress=lambda done, of: seen.append((done, of))
    )
    assert seen == [(5, 12), (10, 12), (12, 12)]
    stage = result.alone[AGENTS[0]]
    assert stage.correct.n + stage.unscored == 12


def test_several_samples_per_problem_are_all_played():
    result = evaluate(*setting(), PROBLEMS[:2], seed=5, samples=3)
    stage = result.alone[AGENTS[1]]
    assert stage.correct.n + stage.unscored == 6


def test_an_evaluation_survives_json(evaluated):
    result, _ = evaluated
    assert Evaluation.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def with_solutions(result: Evaluation, *correct: Proportion) -> Evaluation:
    cascades = [
        dataclasses.replace(c, solution=dataclasses.replace(c.solution, correct=share))
        for c, share in zip(result.cascades, correct, strict=True)
    ]
    return dataclasses.replace(result, cascades=tuple(cascades))


def test_the_best_direction_has_the_higher_share_of_right_answers(evaluated):
    """Also where one direction has no scored answer, whose share is NaN and compares as nothing."""
    result, _ = evaluated
    for first, second, best in (
        (Proportion(3, 12), Proportion(4, 12), AGENTS[1]),
        (Proportion(4, 12), Proportion(3, 12), AGENTS[0]),
        (Proportion(3, 12), Proportion(3, 12), AGENTS[0]),
        (Proportion(0, 0), Proportion(1, 12), AGENTS[1]),
    ):
        assert with_solutions(result, first, second).best_direction.drafter == best


def test_an_evaluation_without_problems_is_refused():
    with pytest.raises(ValueError, match="at least one problem"):
        evaluate(*setting(), [], seed=0)
