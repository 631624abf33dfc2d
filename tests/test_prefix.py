"""A common beginning of prompts runs once in training, and nothing else changes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_llm import FAMILIES, SMALL_LORA, policy, save, trajectory

from learners.batch import Batch, collate
from learners.logprobs import completion_logprobs
from learners.policy import Policy, single_policy
from learners.prefix import MIN_SHARED, shared_length

PREFIX = list(range(40, 70))


def batch() -> Batch:
    """Ragged prompts behind one prefix, ragged completions."""
    rests = ([20], [21, 22, 23, 24, 25, 26], [20, 27])
    done = ([50, 51, 52], [53], [54, 55])
    return collate([trajectory([*PREFIX, *r], c) for r, c in zip(rests, done, strict=True)], 0)


def double(player: Policy) -> Policy:
    player.model.double()
    return player


def run(player: Policy, rows: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probs of the sampled tokens, and the gradient of a weighted sum of them."""
    with player.using() as model:
        model.train()
        logprobs, _ = completion_logprobs(model, rows, 0.7)
    weights = torch.linspace(0.5, 2.0, logprobs.numel(), dtype=logprobs.dtype)
    (logprobs * rows.completion_mask * weights.view_as(logprobs)).sum().backward()
    named = player.trainable_parameters().items()
    gradient = {n: p.grad.clone() for n, p in named if p.grad is not None}
    for _, parameter in named:
        parameter.grad = None
    return logprobs.detach() * rows.completion_mask, gradient


def assert_same(player: Policy, rows: Batch) -> None:
    assert rows.shared_prefix == len(PREFIX)
    shared = run(player, rows)
    plain = run(player, dataclasses.replace(rows, shared_prefix=0))
    torch.testing.assert_close(shared[0], plain[0], rtol=0, atol=1e-6)
    assert shared[1].keys() == plain[1].keys()
    for name, value in plain[1].items():
        bound = 1e-5 * float(value.abs().max()) + 1e-9
        torch.testing.assert_close(shared[1][name], value, rtol=0, atol=bound, msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_and_gradients_are_those_of_whole_prompts(family):
    assert_same(double(policy(family)), batch())


def test_an_adapter_gets_the_gradient_that_flows_through_the_prefix(tmp_path):
    player = double(single_policy(save(tmp_path, "llama"), lora=SMALL_LORA))
    assert_same(player, batch())


@pytest.mark.parametrize(
    ("family", "checkpointing", "passes"),
    [
        ("llama", False, [(1, 30), (3, 9)]),
        ("llama", True, [(3, 39)]),  # no cache while activations are recomputed
        ("gemma3", False, [(3, 39)]),  # a sliding window
        ("qwen3_5", False, [(3, 39)]),  # a recurrent state
    ],
)
def test_the_prefix_runs_once_where_the_model_allows_it(family, checkpointing, passes):
    player = policy(family)
    if checkpointing:
        player.checkpoint_activations()
    player.model.train()
    shapes = []

    def note(module, args, kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))

    player.model.register_forward_pre_hook(note, with_kwargs=True)
    completion_logprobs(player.model, batch(), 1.0)
    assert shapes == passes


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_shared_length_is_common_and_leaves_every_prompt_a_token(rests):
    head = [7] * MIN_SHARED
    prompts = [head + rest for rest in rests]
    length = shared_length(prompts)
    if len(prompts) == 1:
        assert length == 0
        return
    assert all(prompt[:length] == prompts[0][:length] for prompt in prompts)
    longest = min(map(len, prompts)) - 1
    assert MIN_SHARED <= length <= longest
    if length < longest:
        assert len({prompt[length] for prompt in prompts}) > 1, "one more token is common"
