"""Trajectories -> padded tensors, and the split into micro-batches. No model, no loss.

Layout of a row: [left padding][prompt][completion][right padding], so that all completions start
in the same column. Masks come from lengths, never from ids (pitfalls 1-3, 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from learners import processes
from learners.prefix import shared_length
from learners.trajectory import Trajectory


@dataclass(frozen=True)
class Batch:
    """Padded tensors of B trajectories; P is the longest prompt, C the longest completion."""

    input_ids: Tensor
    """(B, P + C)"""
    attention_mask: Tensor
    """(B, P + C)"""
    position_ids: Tensor
    """(B, P + C); count from each row's first real token (pitfall 5)."""
    completion_mask: Tensor
    """(B, C); 1 for sampled tokens, the stop token included."""
    sampler_logprobs: Tensor
    """(B, C); 0 at padding."""
    shared_prefix: int = 0
    """Tokens that all prompts of the batch begin with (see `prefix.shared_length`)."""

    @property
    def completion_ids(self) -> Tensor:
        """(B, C) sampled ids, padding included."""
        return self.input_ids[:, -self.completion_mask.shape[1] :]


def collate(
    trajectories: Sequence[Trajectory], pad_id: int, device: torch.device | str = "cpu"
) -> Batch:
    """Pad trajectories into one batch.

    Raises:
        ValueError: There are none, a prompt or completion is empty, or a sampled token comes
            without its log-prob (which would silently count as 0, pitfall 6).
    """
    if not trajectories:
        raise ValueError("a batch needs at least one trajectory, got none")
    if any(not t.prompt_ids or not t.completion_ids for t in trajectories):
        raise ValueError("every trajectory needs a prompt and a completion of at least one token")
    for t in trajectories:
        if len(t.logprobs) != len(t.completion_ids):
            raise ValueError(
                "every sampled token needs the engine's log-prob, got "
                f"{len(t.logprobs)} log-probs for {len(t.completion_ids)} tokens"
            )
    prompt = max(len(t.prompt_ids) for t in trajectories)
    completion = max(len(t.completion_ids) for t in trajectories)
    input_ids = torch.full((len(trajectories), prompt + completion), pad_id, dtype=torch.long)
    attention_mask = torch.zeros_like(input_ids)
    logprobs = torch.zeros(len(trajectories), completion)
    for row, t in enumerate(trajectories):
        start, end = prompt - len(t.prompt_ids), prompt + len(t.completion_ids)
        input_ids[row, start:end] = torch.tensor(t.prompt_ids + t.completion_ids)
        attention_mask[row, start:end] = 1
        logprobs[row, : len(t.logprobs)] = torch.tensor(t.logprobs)
    return Batch(
        input_ids=input_ids.to(device),
        attention_mask=attention_mask.to(device),
        position_ids=(attention_mask.cumsum(1) - 1).clamp(min=0).to(device),
        completion_mask=attention_mask[:, prompt:].to(device),
        sampler_logprobs=logprobs.to(device),
        shared_prefix=shared_length([t.prompt_ids for t in trajectories]),
    )


def shared_microbatches(trajectories: Sequence[Trajectory], max_tokens: int) -> list[list[int]]:
    """This process's micro-batches; cut so that every process has some, of about equal work."""
    tokens = sum(len(t.prompt_ids) + len(t.completion_ids) for t in trajectories)
    even = math.ceil(tokens / processes.count())
    limit = max_tokens if processes.count() == 1 else min(max_tokens, even)
    return list(processes.share(microbatches(trajectories, limit)))


def microbatches(trajectories: Sequence[Trajectory], max_tokens: int) -> list[list[int]]:
    """Group indices of similar length so that no padded batch exceeds `max_tokens`.

    A trajectory longer than the budget gets a batch of its own.
    """
    order = sorted(
        range(len(trajectories)),
        key=lambda i: (len(trajectories[i].completion_ids), len(trajectories[i].prompt_ids)),
    )
    batches: list[list[int]] = []
    prompt = completion = 0
    for i in order:
        t = trajectories[i]
        widest = max(prompt, len(t.prompt_ids)) + max(completion, len(t.completion_ids))
        if not batches or widest * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            prompt = completion = 0
        batches[-1].append(i)
        prompt = max(prompt, len(t.prompt_ids))
        completion = max(completion, len(t.completion_ids))
    return batches
