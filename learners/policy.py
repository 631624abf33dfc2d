"""One language model as a player: messages -> prompt ids, sampled ids -> text, ids -> log-probs.

A policy owns its tokenizer, chat template, stop ids and (for LoRA) one named adapter of a base
model that it may share with the other agent. Text is all that crosses between two policies
(pitfalls 42, 43, 53). The text side is `chat.py`, the adapters `adapters.py`, sampling `engines/`,
the optimizer the learner's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from peft import PeftModel
from torch import nn
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from agon_env.types import AGENTS
from learners import processes, sharding
from learners.adapters import (
    LoRA,
    adapted,
    adapter_parameters,
    keep_adapter,
    load_adapter,
    perturb_adapter,
    save_adapter,
    select_adapter,
)
from learners.chat import Prompt, read_ids, render, stop_ids_of
from learners.models import load_model
from learners.plain_chat import REPLY_END


@dataclass
class Policy:
    """A model that plays one agent.

    Two policies may hold the same `PeftModel` under different `adapter` names: the memory of one
    model. `using()` selects this policy's adapter; every method that runs the model needs it.
    """

    model: PreTrainedModel | PeftModel
    tokenizer: PreTrainedTokenizerBase
    adapter: str | None = None
    template_kwargs: Mapping[str, object] = field(default_factory=dict)
    """Extra arguments of the chat template, such as enable_thinking."""

    def __post_init__(self) -> None:
        self.stop_ids = stop_ids_of(self.model, self.tokenizer)
        if not self.stop_ids:
            raise ValueError(
                "the model has no end-of-sequence id (generation_config, config and tokenizer were "
                "asked); set tokenizer.eos_token"
            )

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return next(self.model.parameters()).device

    @property
    def pad_id(self) -> int:
        """An id to fill ragged batches with. Never used to build a mask (pitfall 3)."""
        pad = self.tokenizer.pad_token_id
        return self.stop_ids[0] if pad is None else pad  # pyright: ignore[reportReturnType]

    @property
    def stop_text(self) -> str | None:
        """Text that ends a completion as a stop id does; None for a model with a chat template."""
        return REPLY_END if self.tokenizer.chat_template is None else None

    def says_stop(self, ids: Sequence[int]) -> bool:
        """Whether sampled ids end in the stop text; a token is at least one character of it."""
        stop = self.stop_text
        return stop is not None and stop in str(self.tokenizer.decode(list(ids[-len(stop) :])))

    @contextmanager
    def using(self) -> Iterator[nn.Module]:
        """Select this policy's adapter (if it has one) for the calls inside."""
        if self.adapter is not None:
            select_adapter(self.model, self.adapter)
        yield self.model

    def encode(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """Chat messages -> prompt ids, through the model's own template (see `chat.render`)."""
        return render(self.tokenizer, messages, self.template_kwargs)

    def decode(self, ids: Sequence[int], prompt: Prompt) -> str:
        """Sampled ids -> the reply as text, without the stop token, with the prompt's prefix."""
        return prompt.prefix + read_ids(self.tokenizer, ids, self.stop_ids)

    def trainable_parameters(self) -> dict[str, nn.Parameter]:
        """Name -> parameter of what this policy trains: its adapter, or the whole text model."""
        if self.adapter is not None:
            return adapter_parameters(self.model, self.adapter)
        return text_parameters(cast(PreTrainedModel, self.model))

    def check_fits(self, prompt_tokens: int, new_tokens: int) -> None:
        """Refuse what is longer than the model's context, where its text would be noise.

        Raises:
            ValueError: Prompt and completion together are too long.
        """
        limit = context_of(self.model)
        if limit is not None and prompt_tokens + new_tokens > limit:
            raise ValueError(
                f"a prompt of {prompt_tokens} tokens and {new_tokens} new ones do not fit into the "
                f"model's context of {limit}; choose a smaller sampling.max_new_tokens, shorter "
                "problems or a model with a longer context"
            )

    def fingerprint(self) -> torch.Tensor:
        """Some values of every trained tensor, copied: tells whether the weights moved."""
        parameters = self.trainable_parameters().values()
        parts = [sharding.local(p.detach()).flatten() for p in parameters]
        values = torch.cat([part[:: max(1, len(part) // 64)].float().cpu() for part in parts])
        if sharding.is_sharded(self.model):
            return torch.cat(processes.gather(values))
        return values

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass of training instead of keeping them."""
        model = cast(PreTrainedModel, self.model)
        model.gradient_checkpointing_enable({"use_reentrant": False})

    def save(self, folder: str | Path, weights: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write weights and tokenizer in Hugging Face format (an adapter alone for LoRA).

        Args:
            folder: Where to.
            weights: Those of a sharded model, gathered (`sharding.whole`).
        """
        folder = Path(folder)
        if self.adapter is not None and isinstance(self.model, PeftModel):
            save_adapter(self.model, self.adapter, folder)
        else:
            state = None if weights is None else dict(weights)
            self.model.save_pretrained(str(folder), state_dict=state)
        self.tokenizer.save_pretrained(folder)

    def load_weights(self, folder: str | Path) -> None:
        """Read weights written by `save` into this policy, in place.

        Raises:
            ValueError: They do not fit this policy's adapter.
        """
        if self.adapter is not None:
            load_adapter(cast(PeftModel, self.model), self.adapter, Path(folder))
            return
        model = cast(PreTrainedModel, self.model)
        kind = cast(type[PreTrainedModel], sharding.plain_class(model))
        fresh = kind.from_pretrained(folder, dtype=model.dtype)
        sharding.load_weights(model, fresh.state_dict())


def text_parameters(model: PreTrainedModel) -> dict[str, nn.Parameter]:
    """Name -> parameter of the text model.

    The towers of a multimodal checkpoint are left out: no gradient ever reaches them.
    """
    parts = (model.get_decoder(), model.get_output_embeddings())
    text = {p for part in parts if part is not None for p in part.parameters()}
    return {name: p for name, p in model.named_parameters() if p in text}


def context_of(model: nn.Module) -> int | None:
    """Most tokens of prompt and completion together; None where the config names no limit."""
    text = cast(Any, model).config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    if limit is not None and "original_max_position_embeddings" in rope:  # extended, as by yarn
        limit = max(limit, int(rope["original_max_position_embeddings"] * rope.get("factor", 1)))
    return limit


def single_policy(
    name: str,
    *,
    lora: LoRA | None = None,
    dtype: str = "float32",
    device: str | torch.device = "cpu",
    adapter: str = "agent_0",
    seed: int = 0,
) -> Policy:
    """One policy from a model name (see `models.load_model`); `seed` makes a LoRA's values."""
    model, tokenizer = load_model(name, dtype=dtype, device=device)
    if lora is None:
        return Policy(model, tokenizer)
    return Policy(adapted(model, lora, [adapter], seed), tokenizer, adapter)


def policy_pair(
    names: tuple[str, str],
    *,
    lora: LoRA | None = None,
    noise: float = 1e-3,
    seed: int = 0,
    dtype: str = "float32",
    device: str | torch.device | tuple[str, str] = "cpu",
) -> tuple[Policy, Policy]:
    """The two policies of a pair.

    The same name twice with `lora` gives two adapters on one frozen base; otherwise, and with two
    devices, each policy has its own model.

    Args:
        names: Model names of agent_0 and agent_1.
        lora: Adapter settings; None trains all weights.
        noise: Std of the Gaussian that agent_1's adapter starts from (its B matrix; agent_0's is
            zero). Breaks the symmetry of two adapters on one base.
        seed: Seeds the adapters' initial values.
        dtype: Of the weights.
        device: Where the models go; two names: one for each.
    """
    devices = device if isinstance(device, tuple) else (device, device)
    if lora is None or names[0] != names[1]:
        first, second = (
            single_policy(name, lora=lora, dtype=dtype, device=where, adapter=adapter, seed=seed)
            for name, where, adapter in zip(names, devices, AGENTS, strict=True)
        )
    else:
        model, tokenizer = load_model(names[0], dtype=dtype, device=devices[0])
        first = Policy(adapted(model, lora, AGENTS, seed), tokenizer, AGENTS[0])
        second = Policy(first.model, tokenizer, AGENTS[1])
        if isinstance(device, tuple):  # a base for each, with the adapters they would have on one
            model, tokenizer = load_model(names[1], dtype=dtype, device=devices[1])
            second = Policy(adapted(model, lora, AGENTS, seed), tokenizer, AGENTS[1])
            keep_adapter(first.model, AGENTS[0])
            keep_adapter(second.model, AGENTS[1])
    if second.adapter is not None:
        perturb_adapter(second.model, second.adapter, noise, seed)
    return first, second
