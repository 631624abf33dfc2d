"""Trajectories -> padded tensors: every mask comes from lengths."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_llm import trajectory

from learners.batch import collate, microbatches


def test_rows_are_left_padded_prompts_and_right_padded_completions():
    batch = collate([trajectory([11, 12], [13, 14, 15]), trajectory([21, 22, 23], [24])], pad_id=9)
    assert batch.input_ids.tolist() == [[9, 11, 12, 13, 14, 15], [21, 22, 23, 24, 9, 9]]
    assert batch.attention_mask.tolist() == [[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    assert batch.completion_mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.completion_ids.tolist() == [[13, 14, 15], [24, 9, 9]]


def test_positions_count_from_the_first_real_token():
    """Pitfall 5: the padded row starts at 0 like the full one."""
    batch = collate([trajectory([11], [12, 13]), trajectory([21, 22, 23], [24, 25])], pad_id=9)
    assert batch.position_ids[0, 2:].tolist() == [0, 1, 2]
    assert batch.position_ids[1].tolist() == [0, 1, 2, 3, 4]


def test_masks_do_not_depend_on_the_pad_id():
    """Pitfalls 2, 3: the pad id may be a stop id, a sampled id, a prompt id."""
    rows = [trajectory([7, 5], [5, 7]), trajectory([7], [7, 7, 5])]
    first, second = collate(rows, pad_id=7), collate(rows, pad_id=0)
    assert torch.equal(first.completion_mask, second.completion_mask)
    assert torch.equal(first.attention_mask, second.attention_mask)
    assert first.completion_mask.sum(1).tolist() == [2, 3]


def test_the_engines_logprobs_stay_with_their_tokens():
    batch = collate(
        [trajectory([1], [2], logprobs=[-0.5]), trajectory([1], [2, 3], logprobs=[-1.0, -2.0])], 0
    )
    assert batch.sampler_logprobs.tolist() == [[-0.5, 0.0], [-1.0, -2.0]]


def test_a_token_without_its_logprob_is_refused():
    """Pitfall 6: a missing log-prob would count as 0, that is as probability 1."""
    broken = dataclasses.replace(trajectory([1], [2, 3]), logprobs=(-1.0,))
    with pytest.raises(ValueError, match="1 log-probs for 2 tokens"):
        collate([broken], 0)


def test_empty_batches_and_rows_are_refused():
    with pytest.raises(ValueError, match="at least one trajectory"):
        collate([], 0)
    for prompt, completion in (([], [1]), ([1], [])):
        with pytest.raises(ValueError, match="at least one token"):
            collate([trajectory(prompt, completion)], 0)


lengths = st.tuples(st.integers(1, 30), st.integers(1, 30))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(lengths, max_size=30), st.integers(1, 200))
def test_microbatches_hold_every_row_once_and_keep_the_budget(sizes, budget):
    """Pitfall 40: the ragged last batch is not dropped."""
    rows = [trajectory([1] * p, [2] * c) for p, c in sizes]
    batches = microbatches(rows, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(rows)))
    for batch in batches:
        padded = collate([rows[i] for i in batch], 0).input_ids.numel()
        assert padded <= budget or len(batch) == 1
