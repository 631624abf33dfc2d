"""Each agent on a device of its own: the run that one device gives, with nothing shared."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import probe_task
import pytest
import tiny_llm
import torch
from rich.console import Console

from learners.cascade import Pair, players_of
from learners.concurrency import are_independent
from learners.config import PairConfig
from learners.memory import memory_plan
from learners.memory_table import plan_tables
from learners.model_shape import shape_of
from learners.pair import PairTrainer
from learners.policy import policy_pair


def trained(root: Path, config: PairConfig, name: str) -> PairTrainer:
    trainer = PairTrainer(config, root / name)
    trainer.train()
    return trainer


def weights(trainer: PairTrainer) -> dict[str, torch.Tensor]:
    return {
        f"{agent} {name}": parameter
        for agent, player in trainer.players.items()
        for name, parameter in player.policy.trainable_parameters().items()
    }


@pytest.mark.parametrize(
    "adapters", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["adapters", "full"]
)
def test_two_devices_give_the_run_that_one_gives(tmp_path: Path, adapters: bool) -> None:
    """Both adapters start from the same values, whether they share a base or not."""
    make = probe_task.lora_config if adapters else probe_task.config
    config = make(tmp_path, rotation="both", steps=2, deterministic=True)
    together = trained(tmp_path, replace(config, device="cpu"), "together")
    apart = trained(tmp_path, replace(config, device="cpu,cpu"), "apart")
    policies = [player.policy for player in apart.players.values()]
    assert policies[0].model is not policies[1].model
    assert are_independent(*policies)
    assert apart.history == together.history
    expected = weights(together)
    for name, found in weights(apart).items():
        torch.testing.assert_close(found, expected[name], rtol=0, atol=0)
    answers = [Pair.load(tmp_path / name).answer("question 0") for name in ("together", "apart")]
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_a_run_on_two_devices_resumes(tmp_path: Path) -> None:
    config = probe_task.lora_config(tmp_path, device="cpu,cpu", deterministic=True)
    whole = trained(tmp_path, config, "whole")
    stopped = PairTrainer(config, tmp_path / "stopped")
    for _ in range(2):
        stopped.train_step()
    stopped.save()
    stopped.close()
    resumed = PairTrainer.resume(tmp_path / "stopped")
    resumed.train()
    assert resumed.history == whole.history


def test_each_agent_is_where_it_was_put(tmp_path: Path) -> None:
    base = tiny_llm.save(tmp_path / "llama", "llama")
    pair = policy_pair((base, base), lora=tiny_llm.SMALL_LORA, device=("cpu", "meta"))
    assert [policy.device.type for policy in pair] == ["cpu", "meta"]
    for policy, absent in zip(pair, ("agent_1", "agent_0"), strict=True):
        assert not [name for name, _ in policy.model.named_parameters() if absent in name]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "cpu,cpu,cpu"}, "device must be one name, or two"),
        ({"device": "cpu,"}, "device must be one name, or two"),
        ({"device": ""}, "device must be one name, or two"),
        ({"device": "cuda:0, cuda:0"}, "two agents on one device are named once"),
        (
            {"device": "auto,auto"},
            "two agents on one device are named once, got device 'auto,auto'",
        ),
        ({"device": "cpu,cpu", "regime": "self"}, "there is one model, got device 'cpu,cpu'"),
        ({"device": "cpu,cpu", "engine": "vllm"}, "chooses its GPU itself, got device 'cpu,cpu'"),
    ],
)
def test_devices_that_cannot_be_are_refused(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(probe_task.CONFIG, **changes)  # pyright: ignore[reportArgumentType]


def test_a_second_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device 'gpu' cannot be used here"):
        players_of(probe_task.lora_config(tmp_path, device="cpu, gpu"))


def test_the_plan_knows_what_each_device_holds(tmp_path: Path) -> None:
    config = probe_task.lora_config(tmp_path, device="cuda:0,cuda:1")
    shapes = [shape_of(name, config.lora) for name in config.models]
    plan = memory_plan(config, shapes, 20, on_cpu=False)
    first, second = plan.agents
    assert first.weights == second.weights > 0  # a base each
    assert plan.side_by_side
    console = Console(width=100, record=True, file=io.StringIO())
    for table in plan_tables(plan, config, 20):
        console.print(table)
    text = console.export_text()
    for name in ("peak, agent_0 on cuda:0", "peak, agent_1 on cuda:1"):
        assert name in text
    one = replace(plan, agents=(first,))
    assert f"{one.peak('hf') / 2**20:,.1f}" in text
    assert "under way" not in text, "vLLM is no engine of two devices"
    with pytest.raises(ValueError, match="two devices are those of one process"):
        memory_plan(config, shapes, 20, processes=2)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_pair_trains_on_two_gpus(tmp_path: Path) -> None:
    config = probe_task.lora_config(tmp_path, device="cuda:0,cuda:1", steps=2)
    trainer = trained(tmp_path, config, "run")
    assert [str(p.policy.device) for p in trainer.players.values()] == ["cuda:0", "cuda:1"]
    assert all(trainer.history[-1][f"{agent}/moved"] == 1 for agent in trainer.players)
