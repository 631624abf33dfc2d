"""The embedded engine: batched sampling with a KV cache on the training model itself.

Prompts that are equal are prefilled once and their cache expanded, and so is what all prompts begin
with; finished rows leave the batch. Each request draws its own uniform numbers, so a sample does
not depend on its batch (up to the rounding of the forward pass). Weights need no syncing: the
engine runs the policy's own module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from learners.engines.records import Completion, Sampling, check_requests
from learners.policy import Policy
from learners.prefix import attends_to_all, shared_length


@dataclass(frozen=True)
class HFEngine:
    """Sample with `transformers` forward passes."""

    max_rows: int = 256
    """Most sequences decoded at once."""
    max_tokens: int = 131_072
    """Most cached tokens at once: rows times (prompt + completion) length."""

    @torch.inference_mode()
    def generate(
        self,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seed: int | Sequence[int],
        first: int = 0,
    ) -> list[Completion]:
        """Sample one completion per prompt; see `Engine.generate`."""
        check_requests(policy, prompts, sampling)
        if not prompts:
            return []
        streams = _streams(len(prompts), seed, first)
        uniforms = _uniforms(streams, sampling.max_new_tokens)
        completions: dict[int, Completion] = {}
        with policy.using() as model:
            was_training = model.training
            model.eval()
            for rows in self._batches(prompts, sampling.max_new_tokens):
                ids = [prompts[row] for row in rows]
                decoder = _Decoder(policy, ids, uniforms[rows], sampling)
                for row, completion in zip(rows, decoder.run(), strict=True):
                    completions[row] = completion
            model.train(was_training)
        return [completions[row] for row in range(len(prompts))]

    def _batches(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[list[int]]:
        """Row indices sorted by length, so that equal prompts meet and padding is short."""
        order = sorted(
            range(len(prompts)), key=lambda row: (len(prompts[row]), tuple(prompts[row]))
        )
        batches: list[list[int]] = []
        for row in order:  # ascending lengths: the newest row is the longest of its batch
            length = len(prompts[row]) + max_new_tokens
            full = batches and (
                len(batches[-1]) >= self.max_rows
                or (len(batches[-1]) + 1) * length > self.max_tokens
            )
            if not batches or full:
                batches.append([])
            batches[-1].append(row)
        return batches


class _Decoder:
    """The decode loop of one batch. B rows are alive; each knows its request."""

    def __init__(
        self,
        policy: Policy,
        prompts: list[Sequence[int]],
        uniforms: np.ndarray,
        sampling: Sampling,
    ) -> None:
        self.policy, self.model, self.sampling = policy, policy.model, sampling
        self.device = policy.device
        self.stop = torch.tensor(policy.stop_ids, device=self.device)
        self.uniforms = torch.from_numpy(uniforms).to(self.device)  # (R, T)
        self.prompts, self.pad_id = prompts, policy.pad_id
        self.ids: list[list[int]] = [[] for _ in prompts]
        self.logprobs: list[list[float]] = [[] for _ in prompts]
        self.done = [False] * len(prompts)

    def run(self) -> list[Completion]:
        """Decode every row to its stop id, its stop text or the length limit."""
        logits, cache, mask, positions = self._prefill()
        alive = torch.arange(len(self.prompts), device=self.device)  # (B,) request of each row
        for step in range(self.sampling.max_new_tokens):
            uniforms = self.uniforms[alive, step]
            tokens, logprobs = sample_tokens(logits, uniforms, self.sampling)  # (B,)
            stopped = torch.isin(tokens, self.stop)
            self._record(alive, tokens, logprobs, stopped)
            running = [row for row, request in enumerate(alive.tolist()) if not self.done[request]]
            if step + 1 == self.sampling.max_new_tokens or not running:
                break
            if (len(alive) - len(running)) * 4 >= len(alive):  # worth a copy of the cache
                keep = torch.tensor(running, device=self.device)
                cache.reorder_cache(keep)  # pyright: ignore[reportArgumentType]
                alive, tokens, mask = alive[keep], tokens[keep], mask[keep]
                positions = positions[keep]
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)  # (B, P + step + 1)
            positions = positions + 1
            logits = self._forward(tokens[:, None], mask, positions, cache)
        return [
            Completion(tuple(ids), tuple(logprobs), done)
            for ids, logprobs, done in zip(self.ids, self.logprobs, self.done, strict=True)
        ]

    def _record(self, alive: Tensor, tokens: Tensor, logprobs: Tensor, stopped: Tensor) -> None:
        rows = zip(
            alive.tolist(), tokens.tolist(), logprobs.tolist(), stopped.tolist(), strict=True
        )
        for request, token, logprob, stop in rows:
            if self.done[request]:  # still in the batch, waiting for the next compaction
                continue
            if not math.isfinite(logprob):
                raise FloatingPointError(
                    f"the logits of a {type(self.model).__name__} must be finite, got a log-prob "
                    f"of {logprob} after {len(self.ids[request])} tokens; the weights have diverged"
                )
            self.ids[request].append(token)
            self.logprobs[request].append(logprob)
            self.done[request] = stop or self.policy.says_stop(self.ids[request])

    def _prefill(self) -> tuple[Tensor, DynamicCache, Tensor, Tensor]:
        """Run each distinct prompt once, left-padded, and expand to one row per request.

        What all prompts begin with runs once for all of them, where the model allows it.
        """
        distinct = list(dict.fromkeys(tuple(prompt) for prompt in self.prompts))
        cache = DynamicCache(config=self.model.config)
        longest = max(map(len, distinct)) + self.sampling.max_new_tokens
        shared = shared_length(distinct) if attends_to_all(self.model.config, longest) else 0
        if shared:
            self._prefill_shared(distinct[0][:shared], len(distinct), cache)
        width = max(len(prompt) for prompt in distinct) - shared
        ids = torch.full((len(distinct), width), self.pad_id, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(distinct):
            rest = prompt[shared:]
            ids[row, width - len(rest) :] = torch.tensor(rest)
            mask[row, width - len(rest) :] = 1
        mask = torch.cat([mask.new_ones(len(distinct), shared), mask], dim=1)  # (U, P)
        ids, mask = ids.to(self.device), mask.to(self.device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]  # pitfall 5
        logits = self._forward(ids, mask, positions, cache)  # (U, V)
        index = {prompt: row for row, prompt in enumerate(distinct)}
        expand = torch.tensor([index[tuple(p)] for p in self.prompts], device=self.device)
        if len(distinct) < len(self.prompts):
            cache.reorder_cache(expand)  # pyright: ignore[reportArgumentType]
        return logits[expand], cache, mask[expand], positions[expand, -1:]

    def _prefill_shared(self, prefix: Sequence[int], rows: int, cache: DynamicCache) -> None:
        """Run the common beginning once and give every row its copy."""
        ids = torch.tensor([prefix], device=self.device)
        positions = torch.arange(len(prefix), device=self.device)[None]
        self._forward(ids, torch.ones_like(ids), positions, cache)
        copies = torch.zeros(rows, dtype=torch.long, device=self.device)
        cache.reorder_cache(copies)  # pyright: ignore[reportArgumentType]

    def _forward(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        """Logits of the last position, (B, V) float32."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()


def sample_tokens(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the distribution function at a given uniform number.

    Args:
        logits: (B, V) float32.
        uniforms: (B,) in [0, 1); one number decides one token.
        sampling: Temperature and filters.

    Returns:
        Tokens (B,) and their log-probs (B,) under softmax(logits / temperature), unfiltered; for
        greedy sampling under softmax(logits).
    """
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
        return tokens, logits.log_softmax(-1).gather(1, tokens[:, None]).squeeze(1)
    logprobs = (logits / sampling.temperature).log_softmax(-1)  # (B, V)
    if sampling.filters:
        tokens = _sample_filtered(logprobs, uniforms, sampling)
    else:
        tokens = _invert(logprobs.exp(), uniforms)
    return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)


def _sample_filtered(logprobs: Tensor, uniforms: Tensor, sampling: Sampling) -> Tensor:
    """Sample among the tokens that top-k, then top-p, then min-p keep. (B, V), (B,) -> (B,).

    In the order of `transformers`: top-p takes its share of what top-k has left. vLLM applies
    min-p first, which only matters where both are used.
    """
    probs, order = logprobs.exp().sort(dim=-1, descending=True, stable=True)
    if sampling.top_k > 0:
        probs[:, sampling.top_k :] = 0
    before = probs.cumsum(-1) - probs  # probability of all more likely tokens
    keep = before < sampling.top_p * probs.sum(-1, keepdim=True)  # always keeps the most likely
    keep &= probs >= sampling.min_p * probs[:, :1]
    choice = _invert(probs * keep, uniforms)
    return order.gather(1, choice[:, None]).squeeze(1)


def _invert(weights: Tensor, uniforms: Tensor) -> Tensor:
    """First index whose cumulated share exceeds the uniform number; never one of weight zero."""
    cumulated = weights.double().cumsum(-1)  # (B, V)
    target = uniforms.double()[:, None] * cumulated[:, -1:]
    index = torch.searchsorted(cumulated, target, right=True).squeeze(1)
    last = (weights > 0).long().cumsum(-1).argmax(-1)  # last index with weight
    return torch.minimum(index, last)


def _streams(requests: int, seed: int | Sequence[int], first: int) -> list[np.random.SeedSequence]:
    """The stream of every request, whatever else is in the batch."""
    if isinstance(seed, int):
        return [np.random.SeedSequence(seed, spawn_key=(first + i,)) for i in range(requests)]
    return [np.random.SeedSequence(one) for one in seed]


def _uniforms(streams: Sequence[np.random.SeedSequence], length: int) -> np.ndarray:
    """(R, T) float64 in [0, 1), a row per stream."""
    return np.stack([np.random.Generator(np.random.Philox(s)).random(length) for s in streams])
