"""Every part that runs on a device, on the CPU and (marked `gpu`) on CUDA.

The CPU rows keep the code of this file alive where there is no GPU.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import probe_task
import pytest
import tiny_llm
import torch

from learners.batch import collate
from learners.cascade import Pair
from learners.engines import HFEngine, Sampling
from learners.logprobs import completion_logprobs
from learners.pair import PairTrainer

PROMPTS = [[9, 30, 31], [40, 41, 42, 43, 44, 45], [9, 30, 31], [77]]

on_devices = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
            ],
        ),
    ],
)


def on(device: str, family: str, dtype: torch.dtype = torch.float32) -> tiny_llm.Policy:
    player = tiny_llm.policy(family)
    player.model.to(device, dtype)
    return player


@on_devices
@pytest.mark.parametrize("family", tiny_llm.FAMILIES)
def test_greedy_tokens_are_those_of_the_cpu(device: str, family: str) -> None:
    sampling = Sampling(10, temperature=0)
    expected = HFEngine().generate(on("cpu", family), PROMPTS, sampling, seed=0)
    found = HFEngine().generate(on(device, family), PROMPTS, sampling, seed=0)
    assert [c.ids for c in found] == [c.ids for c in expected]


@on_devices
@pytest.mark.parametrize("family", tiny_llm.FAMILIES)
def test_the_trainer_recomputes_what_the_engine_reports(device: str, family: str) -> None:
    player = on(device, family)
    done = HFEngine().generate(player, PROMPTS, Sampling(12, temperature=0.7), seed=3)
    rows = [
        tiny_llm.trajectory(prompt, list(c.ids), logprobs=list(c.logprobs))
        for prompt, c in zip(PROMPTS, done, strict=True)
    ]
    batch = collate(rows, player.pad_id, device)
    with torch.no_grad():
        logprobs, _ = completion_logprobs(player.model, batch, 0.7)
    assert ((logprobs - batch.sampler_logprobs) * batch.completion_mask).abs().max() < 1e-3


@on_devices
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("learner", ["grpo", "ppo"])
def test_a_pair_trains_is_saved_and_answers(
    device: str, dtype: str, learner: str, tmp_path: Path
) -> None:
    config = probe_task.lora_config(
        tmp_path, device=device, dtype=dtype, learner=(learner,), steps=2, eval_every=0
    )
    trainer = PairTrainer(config, tmp_path / "run")
    assert trainer.players["agent_0"].policy.device.type == device
    trainer.train()
    assert any(line["agent_0/moved"] for line in trainer.history)
    assert all(line["agent_0/sampler_mismatch"] < 0.1 for line in trainer.history)
    answer = Pair.load(tmp_path / "run").answer("question 1")
    assert isinstance(answer.solution, str)


@on_devices
@pytest.mark.slow
def test_a_resumed_run_is_the_whole_run(device: str, tmp_path: Path) -> None:
    """With deterministic kernels, bit for bit."""
    config = replace(probe_task.config(tmp_path, device=device), deterministic=True)
    try:
        whole = PairTrainer(config, tmp_path / "whole")
        for _ in range(3):
            whole.train_step()
        first = PairTrainer(config, tmp_path / "parts")
        first.train_step()
        first.save()
        first.close()
        second = PairTrainer.resume(tmp_path / "parts")
        for _ in range(2):
            second.train_step()
    finally:
        torch.use_deterministic_algorithms(False)
    for agent, player in whole.players.items():
        resumed = second.players[agent].policy.trainable_parameters()
        for name, value in player.policy.trainable_parameters().items():
            assert torch.equal(resumed[name], value), name
    assert second.history == whole.history
