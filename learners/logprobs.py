"""A model and a batch -> log-probs of the completion tokens, temperature applied."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from learners.batch import Batch


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
        (B, C) log-probs with gradient and (B, C) entropies in nats without.
    """
    logits = completion_logits(model, batch).float() / temperature
    chosen = logits.gather(2, batch.completion_ids[:, :, None]).squeeze(2)
    logprobs = chosen - logits.logsumexp(-1)
    return logprobs, _entropy(logits)


@torch.no_grad()
def _entropy(logits: Tensor) -> Tensor:
    """(B, C, V) -> (B, C), row by row to keep the extra memory at (C, V)."""
    rows = []
    for row in logits.detach():
        logprobs = row.log_softmax(-1)  # (C, V)
        rows.append(-(logprobs.exp() * logprobs).sum(-1))
    return torch.stack(rows)
