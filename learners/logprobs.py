"""A model and a batch -> log-probs of the completion tokens, temperature applied.

The logits of a batch are the largest tensor of training (B * C * V). They are held once, in the
model's dtype; what float32 needs on top exists for `CHUNK_LOGITS` of them at a time, forwards and
backwards.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache, PretrainedConfig

from learners.batch import Batch
from learners.prefix import attends_to_all

CHUNK_LOGITS = 2**24
"""Logits that are turned into log-probs at once: 64 MiB in float32."""


def completion_logits(model: nn.Module, batch: Batch) -> Tensor:
    """Logits that predict each completion token, (B, C, V); nothing is computed for the prompt.

    What all prompts begin with runs once, with its gradient, where the model allows it.
    """
    width = batch.completion_mask.shape[1]
    inputs = {
        "input_ids": batch.input_ids,
        "attention_mask": batch.attention_mask,
        "position_ids": batch.position_ids,
        "use_cache": False,
    }
    if batch.shared_prefix and _may_share(model):
        inputs = _behind_shared_prefix(model, batch)
    output = model(**inputs, logits_to_keep=width + 1)
    return output.logits[:, -(width + 1) : -1]  # position t predicts token t + 1


def _may_share(model: nn.Module) -> bool:
    """Caches and the recomputation of activations exclude each other in `transformers`."""
    recomputes = model.training and getattr(model, "is_gradient_checkpointing", False)
    return attends_to_all(cast(PretrainedConfig, model.config)) and not recomputes


def _behind_shared_prefix(model: nn.Module, batch: Batch) -> dict[str, Any]:
    """Run the common beginning once; the model's inputs for what follows it in each row.

    Rows are padded on the left, so the columns behind the prefix of the longest row hold the ends
    of the prefix of shorter ones: these are masked.
    """
    shared, rows = batch.shared_prefix, len(batch.input_ids)
    padding = (1 - batch.attention_mask).cumprod(1).sum(1)  # (B,) columns before the first token
    start = int(padding[0])
    cache = DynamicCache(config=cast(PretrainedConfig, model.config))
    model(
        input_ids=batch.input_ids[:1, start : start + shared],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    cache.batch_repeat_interleave(rows)
    columns = torch.arange(batch.input_ids.shape[1] - shared, device=padding.device)
    rest = batch.attention_mask[:, shared:] * (columns[None] >= padding[:, None])
    return {
        "input_ids": batch.input_ids[:, shared:],
        "attention_mask": torch.cat([rest.new_ones(rows, shared), rest], dim=1),
        "position_ids": batch.position_ids[:, shared:],
        "past_key_values": cache,
        "use_cache": True,
    }


def completion_logprobs(
    model: nn.Module, batch: Batch, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probs of the sampled tokens and the entropy of the distribution at each of them.

    Args:
        model: A causal LM with the wanted adapter selected.
        batch: B padded trajectories.
        temperature: Divides the logits, as it did when sampling (pitfall 10).

    Returns:
        (B, C) float32 log-probs with gradient and (B, C) entropies in nats without.
    """
    logits, ids = completion_logits(model, batch), batch.completion_ids
    positions = max(1, CHUNK_LOGITS // logits.shape[2])
    if positions >= ids.numel():
        return _logprobs_of(logits, ids, temperature)
    rows = max(1, positions // ids.shape[1])  # whole rows, or pieces of one that is longer
    parts = []
    for some, wanted in zip(logits.split(rows), ids.split(rows), strict=True):
        pieces = zip(some.split(positions, dim=1), wanted.split(positions, dim=1), strict=True)
        found = [checkpoint(_logprobs_of, *p, temperature, use_reentrant=False) for p in pieces]
        parts.append([torch.cat(part, dim=1) for part in zip(*found, strict=True)])
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _logprobs_of(logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """(B, C, V), (B, C) -> the (B, C) log-probs of the ids and the (B, C) entropies."""
    logprobs = (logits.float() / temperature).log_softmax(-1)  # (B, C, V)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(2, ids[:, :, None]).squeeze(2), entropy
