"""The trainer of a pair and the trained cascade: real tiny models, the real game."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import probe_task
import pytest
import torch
from rich.console import Console

from agon_env.records import read_episodes
from learners.cascade import Pair, best_step, chosen_drafter
from learners.config import PairConfig
from learners.engines import Sampling
from learners.monitor import Monitor, evaluation_tables
from learners.pair import PairTrainer
from learners.policy import LoRA
from learners.report import transcripts_page, write_report
from learners.run_folder import RunFolder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that went to its end."""
    root = tmp_path_factory.mktemp("finished")
    PairTrainer(probe_task.config(root), root / "run").train()
    return root / "run"


def metrics_of(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_training_moves_every_parameter_of_both_agents(tmp_path: Path) -> None:
    """Pitfall 41: no seat may silently stay untrained."""
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    before = {
        agent: {k: p.detach().clone() for k, p in player.policy.trainable_parameters().items()}
        for agent, player in trainer.players.items()
    }
    for _ in range(2):
        trainer.train_step()
    for agent, player in trainer.players.items():
        for name, parameter in player.policy.trainable_parameters().items():
            rows = (parameter != before[agent][name]).any()
            assert rows, f"{agent} {name} did not move"


@pytest.mark.slow
def test_two_adapters_share_one_base_that_never_moves(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.lora_config(tmp_path), tmp_path / "run")
    policies = [player.policy for player in trainer.players.values()]
    assert policies[0].model is policies[1].model
    adapters = {name for p in policies for name in p.trainable_parameters()}
    base = {
        name: parameter.detach().clone()
        for name, parameter in policies[0].model.named_parameters()
        if name not in adapters
    }
    for _ in range(2):
        trainer.train_step()
    for name, parameter in policies[0].model.named_parameters():
        if name in base:
            assert torch.equal(parameter, base[name]), f"the base moved at {name}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rotation", "drafts_per_step"),
    [
        ("step", [("agent_0", 8), ("agent_1", 8)]),
        ("fixed", [("agent_0", 8), ("agent_0", 8)]),
    ],
)
def test_roles_rotate_with_the_step(
    tmp_path: Path, rotation: str, drafts_per_step: list[tuple[str, int]]
) -> None:
    config = probe_task.config(tmp_path, rotation=rotation, transcripts_per_step=8)
    trainer = PairTrainer(config, tmp_path / "run")
    for _ in drafts_per_step:
        trainer.train_step()
    episodes = list(read_episodes(tmp_path / "run" / "episodes.jsonl"))
    drafters = [episode.turns[0].agent for episode in episodes]
    counted = [Counter(drafters[i : i + 8]).most_common(1)[0] for i in (0, 8)]
    assert counted == drafts_per_step


def test_with_both_seatings_each_agent_trains_on_both_roles(tmp_path: Path) -> None:
    config = probe_task.config(tmp_path, rotation="both", transcripts_per_step=8)
    PairTrainer(config, tmp_path / "run").train_step()
    for episode in read_episodes(tmp_path / "run" / "episodes.jsonl"):
        seats = [(turn.agent, turn.role) for turn in episode.turns]
        assert sorted(seats) == [
            ("agent_0", "drafter"),
            ("agent_0", "solver"),
            ("agent_1", "drafter"),
            ("agent_1", "solver"),
        ]


def test_the_logged_reward_is_the_trained_reward(tmp_path: Path) -> None:
    """Pitfall 68. Both means are over the same scored turns of one step."""
    config = probe_task.config(tmp_path, transcripts_per_step=8)
    metrics = PairTrainer(config, tmp_path / "run").train_step()
    episodes = list(read_episodes(tmp_path / "run" / "episodes.jsonl"))
    drafts = [o.reward for e in episodes for o in e.outcomes if o.role == "drafter"]
    assert metrics["drafter/reward"] == pytest.approx(sum(drafts) / len(drafts))
    assert metrics["agent_0/reward"] == pytest.approx(metrics["drafter/reward"])


def test_a_finished_run_holds_what_it_promises(finished: Path) -> None:
    assert [m["step"] for m in metrics_of(finished)] == [1, 2, 3, 4]
    lines = [json.loads(x) for x in (finished / "evaluations.jsonl").read_text().splitlines()]
    made = [(line["step"], line["split"]) for line in lines]
    assert made == [
        (0, "test"),
        (0, "validation"),
        (2, "validation"),
        (4, "validation"),
        (4, "test"),
    ]
    names = sorted(path.name for path in (finished / "checkpoints").iterdir())
    best = best_step(RunFolder(finished))
    assert names == [f"step_{step:08d}" for step in sorted({best, 3, 4})]


@pytest.mark.slow
def test_the_pair_answers_with_the_direction_chosen_on_validation(finished: Path) -> None:
    pair = Pair.load(finished)
    assert pair.drafter == chosen_drafter(RunFolder(finished), 4)
    answers = pair.batch(["question 0", "question 1"], seed=5)
    assert [a.solution for a in answers] == [
        a.solution for a in Pair.load(finished).batch(["question 0", "question 1"], seed=5)
    ]
    assert pair.answer("question 0", seed=5).draft == answers[0].draft


@pytest.mark.slow
def test_the_loaded_pair_has_the_trained_weights(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.lora_config(tmp_path), tmp_path / "run")
    trainer.train()
    loaded = Pair.load(tmp_path / "run")
    for agent, player in trainer.players.items():
        there = loaded.players[agent].policy.trainable_parameters()
        for name, parameter in player.policy.trainable_parameters().items():
            assert torch.equal(parameter, there[name]), f"{agent} {name}"


def test_the_final_table_names_every_row(finished: Path) -> None:
    trainer = PairTrainer.resume(finished)
    evaluation = trainer.evaluate("test", Monitor(Console(quiet=True)))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(evaluation_tables(evaluation, evaluation, "agent_1", "probe"))
    text = console.export_text()
    for row in ("agent_0 alone", "agent_1 alone", "agent_0 > agent_1 ", "agent_1 > agent_0 *"):
        assert row in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.slow
def test_the_report_is_written_and_escapes_model_text(finished: Path) -> None:
    curves, transcripts = write_report(finished)
    assert curves.read_bytes().startswith(b"\x89PNG")
    line = json.loads((finished / "episodes.jsonl").read_text().splitlines()[0])
    line["turns"][0]["reply"] = "<script>alert(1)</script>"
    assert "<script>alert(1)" not in transcripts_page("t", [line])
    assert "&lt;script&gt;alert(1)" in transcripts_page("t", [line])
    assert transcripts.read_text().count("<article") == len(
        (finished / "episodes.jsonl").read_text().splitlines()
    )


def test_a_config_survives_json() -> None:
    config = replace(probe_task.CONFIG, lora=LoRA(rank=3, alpha=6, target_modules=("q_proj",)))
    assert PairConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_an_unknown_config_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"unknown keys \['stepz'\] for PairConfig"):
        PairConfig.from_dict({"stepz": 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 1}, r"samples \(N\) must be at least 2, got 1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"problems_per_step": 0}, "problems_per_step must be at least 1, got 0"),
        (
            {"rotation": "never"},
            r"rotation must be one of \['step', 'episode', 'both', 'fixed'\], got 'never'",
        ),
        ({"reveal": "x"}, "reveal must be one of"),
        ({"reward": "x"}, "x"),
        ({"models": ("a",)}, "models must name two models"),
        ({"samples": 2.5}, "samples must be a whole number, got 2.5"),
        ({"adapter_noise": float("nan")}, "adapter_noise must be a finite number, got nan"),
        ({"sampling": Sampling(temperature=0)}, "temperature above 0"),
        ({"regime": "self", "learner": ("grpo", "ppo")}, "one learner trains the one model"),
    ],
)
def test_a_bad_config_is_one_clear_line(changes: dict, message: str) -> None:
    """Pitfall 21: N=1 trains nothing under GRPO, so it is refused before anything is loaded."""
    with pytest.raises(ValueError, match=message) as caught:
        replace(probe_task.CONFIG, **changes)
    assert "\n" not in str(caught.value)


def test_an_unknown_task_or_model_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    config = probe_task.config(tmp_path)
    with pytest.raises(ValueError, match="unknown task 'modchian-hard'; did you mean"):
        PairTrainer(replace(config, task="modchian-hard"), tmp_path / "a")
    with pytest.raises(ValueError, match="cannot load model 'no/such-model'") as caught:
        PairTrainer(replace(config, models=("no/such-model", "x")), tmp_path / "b")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="device 'gpu' cannot be used here"):
        PairTrainer(replace(config, device="gpu"), tmp_path / "b")
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists(), "a run that cannot start leaves nothing behind"


def test_prompts_that_do_not_fit_are_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    """Not at the first long problem, where a resumed run would end again."""
    config = probe_task.config(tmp_path)  # models of 512 positions
    PairTrainer(config, tmp_path / "fits").close()
    long = replace(config, sampling=Sampling(max_new_tokens=100))
    with pytest.raises(ValueError, match=r"probe, train: a prompt of \d+ tokens and 100 new ones"):
        PairTrainer(long, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for free in ({"regime": "solo"}, {"reveal": "none"}):  # nobody reads a draft
        PairTrainer(replace(long, **free), tmp_path / str(free)).close()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        PairTrainer.resume(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        Pair.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        write_report(tmp_path)


def test_a_new_run_does_not_overwrite_an_old_one(finished: Path) -> None:
    config = PairConfig.from_dict(json.loads((finished / "config.json").read_text()))
    with pytest.raises(FileExistsError, match="already holds a run; continue it with --resume"):
        PairTrainer(config, finished)


def test_a_run_without_a_checkpoint_cannot_be_deployed(tmp_path: Path) -> None:
    PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="has no checkpoint yet"):
        Pair.load(tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_with_the_step_and_the_checkpoint(tmp_path: Path) -> None:
    """Pitfall 39."""
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    trainer.train_step()
    trainer.save()
    with torch.no_grad():
        for player in trainer.players.values():
            for parameter in player.policy.trainable_parameters().values():
                parameter.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match=r"step 1: .*must be finite.*step_00000001"):
        trainer.train_step()
