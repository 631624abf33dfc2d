"""A model and a batch -> log-probs of the completion tokens, temperature applied.

The logits of a batch are the largest tensor of training (B * C * V). They are held once, in the
model's dtype; what float32 needs on top exists for a few rows at a time, forwards and backwards.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from learners.batch import Batch

CHUNK_LOGITS = 2**24
"""Logits that are turned into log-probs at once: 64 MiB in float32."""


def completion_logits(model: nn.Module, batch: Batch) -> Tensor:
    """Logits that predict each completion token, (B, C, V); nothing is computed for the prompt."""
    width = batch.completion_mask.shape[1]
    output = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=batch.position_ids,
        use_cache=False,
        logits_to_keep=width + 1,
    )
    return output.logits[:, -(width + 1) : -1]  # position t predicts token t + 1


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
    logits = completion_logits(model, batch)
    rows = max(1, CHUNK_LOGITS // logits[0].numel())
    if rows >= len(logits):
        return _logprobs_of(logits, batch.completion_ids, temperature)
    chunks = zip(logits.split(rows), batch.completion_ids.split(rows), strict=True)
    parts = [checkpoint(_logprobs_of, *c, temperature, use_reentrant=False) for c in chunks]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _logprobs_of(logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """(B, C, V), (B, C) -> the (B, C) log-probs of the ids and the (B, C) entropies."""
    logprobs = (logits.float() / temperature).log_softmax(-1)  # (B, C, V)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(2, ids[:, :, None]).squeeze(2), entropy
