"""Options of a run that change who plays, who learns and from what: real tiny models, real game."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import probe_task
import pytest
import torch
from rich.console import Console

from agon_env.records import read_episodes
from agon_env.types import AGENTS, Episode, Outcome, Problem, Turn, Verdict
from learners.cascade import Pair, best_step
from learners.config import PairConfig
from learners.critic import CriticConfig
from learners.monitor import Monitor
from learners.pair import PairTrainer
from learners.ppo import PPO, PPOConfig
from learners.rollout import Rollout
from learners.run_folder import EVALUATIONS, step_of
from learners.step_metrics import rollout_metrics
from learners.text_overlap import text_overlap
from learners.trajectory import Trajectory

A, B = AGENTS


def trained(root: Path, *, steps: int = 2, config=probe_task.config, **changes) -> PairTrainer:
    trainer = PairTrainer(config(root, transcripts_per_step=16, **changes), root / "run")
    for _ in range(steps):
        trainer.train_step()
    return trainer


def weights(trainer: PairTrainer) -> dict[str, torch.Tensor]:
    return {
        f"{agent}.{name}": parameter.detach().clone()
        for agent, player in trainer.players.items()
        for name, parameter in player.policy.trainable_parameters().items()
    }


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    """The agents with a parameter that changed."""
    return {n.split(".")[0] for n, p in before.items() if not torch.equal(p, after[n])}


def episodes_of(trainer: PairTrainer) -> list[Episode]:
    return list(read_episodes(trainer.folder.path / "episodes.jsonl"))


def self_config(root: Path, **changes) -> PairConfig:
    """Both seats are one full model."""
    config = probe_task.config(root, **changes)
    return replace(config, models=(config.models[0],) * 2, regime="self")


def test_in_self_play_one_policy_learns_from_both_seats(tmp_path: Path) -> None:
    trainer = trained(tmp_path, steps=0, config=self_config)
    assert trainer.players[A].policy is trainer.players[B].policy
    assert list(trainer.learners) == [A]
    seen = []
    update = trainer.learners[A].update
    trainer.learners[A].update = lambda rows: seen.extend(rows) or update(rows)  # pyright: ignore
    before = weights(trainer)
    metrics = trainer.train_step()
    assert Counter((t.agent, t.role) for t in seen) == {(A, "drafter"): 8, (B, "solver"): 8}
    assert len({t.group for t in seen}) == 4, "drafts and solutions have their own baselines"
    assert moved(before, weights(trainer)) == {A, B}, "both seats hold the policy that moved"
    assert not [key for key in metrics if key.startswith(f"{B}/") and key != f"{B}/solve_rate"]


def test_two_models_cannot_be_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='in the regime "self" both models must be the same'):
        probe_task.config(tmp_path, regime="self")


@pytest.mark.slow
def test_solo_trains_both_models_on_drafts_alone(tmp_path: Path) -> None:
    """2N = 8 drafts per model and problem; nobody solves and nobody is paid for it."""
    trainer = trained(tmp_path, steps=0, regime="solo")
    before = weights(trainer)
    metrics = trainer.train_step()
    assert moved(before, weights(trainer)) == {A, B}
    assert not [name for name in metrics if name.startswith("solver/")]
    drafts = [turn for e in episodes_of(trainer) for turn in e.turns if turn.role == "drafter"]
    assert Counter(turn.agent for turn in drafts) == {A: 16, B: 16}
    solutions = [turn for e in episodes_of(trainer) for turn in e.turns if turn.role == "solver"]
    assert {turn.reply for turn in solutions} == {""}
    scored = [o for e in episodes_of(trainer) for o in e.outcomes if o.role == "drafter"]
    assert metrics["drafter/reward"] == pytest.approx(sum(o.reward for o in scored) / 32)


def test_with_rotation_episode_both_agents_draft_and_solve_in_one_step(tmp_path: Path) -> None:
    """Half of a problem's matches each."""
    trainer = trained(tmp_path, steps=1, rotation="episode")
    seats = Counter((e.problem.id, e.turns[0].agent) for e in episodes_of(trainer))
    assert set(seats.values()) == {2}
    assert len(seats) == 4


@pytest.mark.slow
@pytest.mark.parametrize("rotation", ["step", "episode"])
def test_with_a_shared_draft_all_solvers_of_a_problem_read_one_text(
    tmp_path: Path, rotation: str
) -> None:
    """And the conversion bonus, which depends on that draft, is constant in a group."""
    trainer = trained(tmp_path, steps=1, rotation=rotation, shared_draft=True, reveal="full")
    groups: dict[tuple, list] = {}
    for episode in episodes_of(trainer):
        solution = next(turn for turn in episode.turns if turn.role == "solver")
        outcome = episode.outcome(solution.agent, "solver")
        assert outcome is not None
        key = (episode.problem.id, solution.agent)
        groups.setdefault(key, []).append((solution.draft, outcome.rival_verdict.correct))
    assert len(groups) == (2 if rotation == "step" else 4)
    assert all(len(set(seen)) == 1 for seen in groups.values()), groups
    drafts = {turn.reply for e in episodes_of(trainer) for turn in e.turns if turn.role != "solver"}
    assert len(drafts) > len(groups), "the drafters still sample N"


@pytest.mark.slow
def test_alternation_leaves_the_other_agent_as_it_was(tmp_path: Path) -> None:
    """agent_0 for two steps, then agent_1; both schedules move on."""
    trainer = trained(tmp_path, steps=0, alternate_every=2)
    movers = []
    for _ in range(3):
        before = weights(trainer)
        metrics = trainer.train_step()
        movers.append(moved(before, weights(trainer)))
        assert {a for a in AGENTS if f"{a}/moved" in metrics} == movers[-1]
    assert movers == [{A}, {A}, {B}]
    for learner in trainer.learners.values():
        assert learner.gradient.optim.updates == 3 * 2  # pyright: ignore


@pytest.mark.slow
def test_dead_problems_are_replaced_in_a_run(tmp_path: Path) -> None:
    """Rewards of 0 make every problem dead: all 2 rounds are played, and logged."""
    trainer = trained(tmp_path, steps=0, refill_rounds=2)
    plain = trained(tmp_path / "plain", steps=0)
    assert plain.train_step()["refill_rounds"] == 0
    for env in trainer.envs.values():
        env._game._reward = lambda play: {"nothing": 0.0}  # pyright: ignore[reportPrivateUsage]
    metrics = trainer.train_step()
    assert (metrics["dead_problems"], metrics["refill_rounds"]) == (1.0, 2.0)
    assert trainer.sampler.state_dict()["position"] == 6


def mixed(root: Path, **changes) -> PairConfig:
    """GRPO against PPO with an adapter for a critic, on one base."""
    config = probe_task.lora_config(root, learner=("grpo", "ppo"), **changes)
    return replace(config, ppo=PPOConfig(critic=CriticConfig(kind="own")), rotation="both")


@pytest.mark.slow
def test_two_learners_train_against_each_other_and_a_resumed_run_is_the_same(
    tmp_path: Path,
) -> None:
    """Pitfalls 41, 44, 66: policies, optimizers, critic and streams all come back."""
    options = {"steps": 2, "config": mixed, "deterministic": True}
    try:
        whole = trained(tmp_path / "whole", **options)
        first = trained(tmp_path / "parts", **{**options, "steps": 1})
        assert isinstance(first.learners[B], PPO)
        assert not isinstance(first.learners[A], PPO)
        first.save()
        first.close()
        second = PairTrainer.resume(tmp_path / "parts" / "run")
        start = weights(second)
        second.train_step()
    finally:
        torch.use_deterministic_algorithms(False)
    assert moved(start, weights(second)) == {A, B}
    assert moved(weights(whole), weights(second)) == set()
    states = [trainer.learners[B].state_dict()["critic"]["weights"] for trainer in (whole, second)]
    assert all(torch.equal(p, states[1][n]) for n, p in states[0].items())
    files = [(t.folder.path / "metrics.jsonl").read_bytes() for t in (whole, second)]
    assert files[0] == files[1]
    assert "agent_1/explained_variance" in json.loads(files[0].splitlines()[-1])


@pytest.mark.slow
def test_two_deterministic_runs_write_the_same_files(tmp_path: Path) -> None:
    """Times are left out, everything else is there."""
    files = []
    try:
        for name in ("one", "two"):
            trainer = trained(tmp_path / name, deterministic=True)
            files.append((trainer.folder.path / "metrics.jsonl").read_bytes())
    finally:
        torch.use_deterministic_algorithms(False)
    assert files[0] == files[1]
    (line, _) = (json.loads(text) for text in files[0].splitlines())
    assert not [name for name in line if name.startswith("seconds/")]
    assert "seconds/step" in trained(tmp_path / "plain", steps=1).history[0]


def test_alarms_of_a_run_are_logged_once(tmp_path: Path) -> None:
    """Pitfall 41: the agent whose weights stand still is named."""
    trainer = trained(tmp_path, steps=0)
    trainer.history = [{"agent_1/moved": 0.0}] * 20
    assert len(trainer._new_alarms()) == 1
    assert trainer._new_alarms() == []
    (line,) = trainer.folder.lines("alarms.jsonl")
    assert line["alarm"] == "standstill/agent_1"


@pytest.mark.slow
def test_the_best_checkpoint_is_kept_and_can_be_deployed(tmp_path: Path) -> None:
    """Three checkpoints; the validation of step 1 is made the best, and `keep` is one."""
    trainer = trained(tmp_path, steps=0, keep_checkpoints=1)
    quiet = Monitor(Console(quiet=True))
    for step in (1, 2, 3):
        trainer.train_step()
        trainer.evaluate("validation", quiet)
        lines = trainer.folder.lines(EVALUATIONS)
        line = lines[-1]
        for cascade in line["evaluation"]["cascades"]:
            cascade["solution"]["correct"] = {"k": 3 if step == 1 else 1, "n": 4}
        file = trainer.folder.path / EVALUATIONS
        file.write_text("".join(json.dumps(x) + "\n" for x in [*lines[:-1], line]))
        trainer.save()
    assert best_step(trainer.folder) == 1
    assert [step_of(path) for path in trainer.folder.checkpoints()] == [1, 3]
    trainer.close()
    loaded = {
        which: Pair.load(tmp_path / "run", checkpoint=which).players[A].policy.fingerprint()
        for which in ("newest", "best")
    }
    now = trainer.players[A].policy.fingerprint()
    assert torch.equal(loaded["newest"], now)
    assert not torch.equal(loaded["best"], now)


@pytest.mark.slow
def test_a_run_that_never_beats_the_untrained_pair_still_has_a_best_checkpoint(
    tmp_path: Path,
) -> None:
    """The evaluation of step 0 has no checkpoint to load."""
    trainer = trained(tmp_path, steps=0)
    quiet = Monitor(Console(quiet=True))
    trainer.evaluate("validation", quiet)
    assert best_step(trainer.folder) == 0, "nothing was trained"
    trainer.train_step()
    trainer.evaluate("validation", quiet)
    trainer.save()
    lines = trainer.folder.lines(EVALUATIONS)
    for line in lines:
        for cascade in line["evaluation"]["cascades"]:
            cascade["solution"]["correct"] = {"k": 3 if line["step"] == 0 else 1, "n": 4}
    file = trainer.folder.path / EVALUATIONS
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    trainer.close()
    assert best_step(trainer.folder) == 1
    Pair.load(tmp_path / "run", checkpoint="best")


def test_the_copy_rate_is_the_share_of_five_word_runs_of_the_draft() -> None:
    # Of "a b c d e f": abcde and bcdef; the draft has the first alone.
    assert text_overlap("x a b c d e y", "a b c d e f") == 0.5
    assert math.isnan(text_overlap("a b c d", "a b c d")), "too short to tell"


def test_form_is_counted_by_role() -> None:
    """Of four turns one is not in form, a solution: 3/4 in all, 1 of drafts, 1/2 of solutions."""
    right = Verdict(True, "match")
    episodes, trajectories = [], []
    for formed in (True, False):
        turns = (Turn(A, "drafter", "", "x"), Turn(B, "solver", "x", "y"))
        draft = Outcome(A, "drafter", right, right, True, 2.5)
        solution = Outcome(B, "solver", right, right, formed, 2.0)
        episodes.append(Episode(Problem("p", "?", "1"), turns, (draft, solution)))
        trajectories += [
            Trajectory(t.agent, t.role, (0, "p", t.agent, t.role), (1,), (2,), (0.0,), True, 1.0)
            for t in turns
        ]
    metrics = rollout_metrics(Rollout(tuple(episodes), tuple(trajectories)))
    shares = [metrics[f"{who}well_formed"] for who in ("", "drafter/", "solver/")]
    assert shares == [0.75, 1.0, 0.5]
