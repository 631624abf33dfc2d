"""A model's name -> the sizes that its memory follows from. The config alone is read.

Activations follow the layers of a dense decoder (norms, rotary attention, gated feed forward) as
autograd keeps them; other families are estimated by the same formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agon_env.types import AGENTS
from learners.adapters import LoRA, adapted, adapter_parameters
from learners.models import empty_model
from learners.policy import context_of, text_parameters

FLOAT = 4
"""Bytes of a number in float32."""


@dataclass(frozen=True)
class Shape:
    """Sizes of one model with its adapter."""

    base: int
    """Bytes of all weights without adapters."""
    trained: tuple[tuple[int, int], ...]
    """(numbers, bytes per number) of each trained tensor."""
    layers: int
    cached_layers: int
    """Layers with keys and values of every token."""
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    itemsize: int
    """Bytes of a number in the base's dtype."""
    context: int | None
    """Most tokens of prompt and completion together, if the config names a limit."""
    norms_queries: bool = False
    """Queries and keys are normed, as in Qwen 3."""
    lora_rank: int = 0

    @property
    def trained_bytes(self) -> int:
        """What trains: the adapter, or all weights of the text model."""
        return sum(count * size for count, size in self.trained)

    @property
    def trained_numbers(self) -> int:
        """Parameters that train."""
        return sum(count for count, _ in self.trained)

    @property
    def cached_per_token(self) -> int:
        """Bytes of the keys and values of one token."""
        return self.cached_layers * 2 * self.kv_heads * self.head_dim * self.itemsize

    @property
    def kept_per_token(self) -> int:
        """Bytes of activations that one layer keeps of one token for the backward pass.

        Two norms keep their input in float32, the normed and the scaled output; attention keeps
        rotated queries, repeated keys and values, and its output, and where it norms queries and
        keys, these too; the feed forward gate, activated gate, up and product. Each adapted map
        keeps its low-rank input.
        """
        queries, values = self.heads * self.head_dim, self.kv_heads * self.head_dim
        kept = 2 * 2 * self.hidden + 4 * queries + 4 * self.feed_forward
        if self.norms_queries:
            kept += 2 * queries + 2 * values
        return self.itemsize * (kept + 7 * self.lora_rank) + FLOAT * 2 * self.hidden


def shape_of(name: str, lora: LoRA | None, dtype: str = "float32") -> Shape:
    """Sizes from a model's config alone.

    Raises:
        ValueError: There is no such model.
    """
    model = empty_model(name, dtype=dtype)
    base = _bytes(model.parameters()) + _bytes(model.buffers())
    text: Any = model.config.get_text_config()
    trained: Sequence[nn.Parameter] = list(text_parameters(model).values())
    if lora is not None:
        with torch.device("meta"):
            trained = list(
                adapter_parameters(adapted(model, lora, [AGENTS[0]], 0), AGENTS[0]).values()
            )
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    heads = text.num_attention_heads
    return Shape(
        base=base,
        trained=tuple((p.numel(), p.element_size()) for p in trained),
        layers=text.num_hidden_layers,
        cached_layers=sum(kind.endswith("attention") and "linear" not in kind for kind in kinds),
        hidden=text.hidden_size,
        feed_forward=text.intermediate_size,
        heads=heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // heads,
        vocabulary=text.vocab_size,
        itemsize=next(model.parameters()).element_size(),
        context=context_of(model),
        norms_queries=any(module.endswith("q_norm") for module, _ in model.named_modules()),
        lora_rank=lora.rank if lora else 0,
    )


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
