"""Generation alone: the same prompts and lengths through three ways of sampling from one model.

Ours, `transformers`' `generate`, and its continuous batching (`generate_batch`), whose paged cache
is limited to what the prompts need: by default it takes most of the machine's memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from learners.engines import HFEngine, Sampling
from learners.models import load_model
from learners.policy import Policy
from learners.throughput.ours import NEVER
from learners.throughput.records import EngineRow, Work

PAGE = 256
"""Tokens of a page of the paged cache; the default of `transformers`."""


def run_engines(work: Work, chats: Sequence[list[dict[str, str]]]) -> list[EngineRow]:
    """Sample a completion of each chat with each engine: once uncounted, then `work.steps` times.

    The paged engine replaces the model's attention, so it gets a model of its own.

    Raises:
        ValueError: They sampled different numbers of tokens.
    """
    policies = [
        Policy(*load_model(work.model, dtype=work.dtype, device=work.device)) for _ in range(2)
    ]
    plain, paged = policies
    prompts = [plain.encode(chat).ids for chat in chats]
    sampling = Sampling(max_new_tokens=work.new_tokens)
    plain.stop_ids = (NEVER,)
    config = GenerationConfig(
        max_new_tokens=work.new_tokens, do_sample=True, eos_token_id=NEVER, pad_token_id=0, top_k=0
    )
    ways: dict[str, Callable[[], Sequence[Sequence[int]]]] = {
        "ours": lambda: [c.ids for c in HFEngine().generate(plain, prompts, sampling, seed=0)],
        "transformers generate": lambda: _generate(plain.model, prompts, config),
        "transformers generate_batch": lambda: _paged(paged.model, prompts, config),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    counts: dict[str, int] = {}
    for _ in range(1 + work.steps):
        for name, way in ways.items():
            started = time.perf_counter()
            counts[name] = sum(map(len, way()))
            rates[name].append(counts[name] / (time.perf_counter() - started))
    if len(set(counts.values())) != 1:
        raise ValueError(f"engines must sample equally many tokens, got {counts}")
    return [EngineRow(name, counts[name], tuple(found[1:])) for name, found in rates.items()]


@torch.inference_mode()
def _generate(
    model: Any, prompts: Sequence[Sequence[int]], config: GenerationConfig
) -> list[list[int]]:
    width = max(map(len, prompts))
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    sampled = model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        generation_config=config,
    )
    return sampled[:, width:].tolist()


def _paged(
    model: Any, prompts: Sequence[Sequence[int]], config: GenerationConfig
) -> list[list[int]]:
    pages = sum(-(-(len(prompt) + config.max_new_tokens) // PAGE) + 1 for prompt in prompts)
    outputs = model.generate_batch(
        [list(prompt) for prompt in prompts],
        generation_config=config,
        continuous_batching_config=ContinuousBatchingConfig(num_blocks=pages, page_size=PAGE),
        progress_bar=False,
    )
    return [output.generated_tokens for output in outputs.values()]
