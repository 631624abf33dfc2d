"""Tiny language models for chains: rules, an architecture and a seed -> model and tokenizer.

Two small architectures, Qwen 3 and Gemma 3, of about 0.23M parameters each, built from their
configs with random weights, and a word-level tokenizer whose vocabulary is the game's: a token per
value and per operation. `warmup.py` teaches them; as built they know nothing.

The chat template renders `< 3 +4 *2 A:` and, with a draft in the message, `< 3 +4 *2 D: ... A:`.
It takes only the last line of a message, which leaves the instructions out: the rules are in the
weights after the warm-up, and so small a vocabulary has no words for them.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agon_env.tasks.chains import END, WITHHELD, ChainRules

Kind = Literal["qwen3", "gemma3"]
KINDS: tuple[Kind, ...] = get_args(Kind)

BOS, PAD, UNKNOWN = "<", "<pad>", "<unk>"
ANSWER, DRAFT = "A:", "D:"
SPECIAL = (PAD, UNKNOWN, BOS, END, ANSWER, DRAFT, WITHHELD)
"""The same first tokens in every vocabulary."""

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'user' %} {{ message.content.split('\n')[-1] }}"
    "{% elif message.role == 'assistant' %} A: {{ message.content }} {{ eos_token }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %} A:{% endif %}"
)

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED_FORWARD = 96, 2, 4, 2, 288
POSITIONS = 128
"""Tokens of the longest sequence. The longest hard solution has 1 + 9 + 1 + 16 + 1 + 17 = 45."""

_LINEAR_STD = 0.08
"""About 1 / sqrt(HIDDEN). At the families' 0.02 the facts and the reading of drafts are learned
several times more slowly."""


def vocabulary(rules: ChainRules) -> tuple[str, ...]:
    """The tokens of a family, by id."""
    return (*SPECIAL, *rules.values, *rules.operations)


def tiny_tokenizer(rules: ChainRules) -> PreTrainedTokenizerFast:
    """The word-level tokenizer of a family; padding on the left, ready for generation."""
    ids = {token: i for i, token in enumerate(vocabulary(rules))}
    words = Tokenizer(WordLevel(ids, unk_token=UNKNOWN))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_model(rules: ChainRules, kind: Kind, seed: int) -> PreTrainedModel:
    """A model with random fp32 weights; the global random state is left as it was.

    Raises:
        ValueError: Unknown architecture.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown tiny model {kind!r}; choose one of {list(KINDS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _qwen3(rules) if kind == "qwen3" else _gemma3(rules)
    tokens = {"bos": BOS, "eos": END, "pad": PAD}
    for name, token in tokens.items():
        setattr(model.generation_config, f"{name}_token_id", SPECIAL.index(token))
    return model


def _shape(rules: ChainRules) -> dict:
    return {
        "vocab_size": len(vocabulary(rules)),
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "max_position_embeddings": POSITIONS,
        "layer_types": ["full_attention"] * LAYERS,
        "bos_token_id": SPECIAL.index(BOS),
        "eos_token_id": SPECIAL.index(END),
        "pad_token_id": SPECIAL.index(PAD),
    }


def _qwen3(rules: ChainRules) -> PreTrainedModel:
    config = Qwen3Config(**_shape(rules), initializer_range=_LINEAR_STD, tie_word_embeddings=False)
    return _with_embeddings(Qwen3ForCausalLM(config), std=0.5)


def _gemma3(rules: ChainRules) -> PreTrainedModel:
    config = Gemma3TextConfig(
        **_shape(rules),
        initializer_range=_LINEAR_STD,
        query_pre_attn_scalar=HIDDEN // HEADS,
        sliding_window=POSITIONS,
    )
    return _with_embeddings(Gemma3ForCausalLM(config), std=1 / math.sqrt(HIDDEN))


def _with_embeddings(model: PreTrainedModel, *, std: float) -> PreTrainedModel:
    """Draw the embeddings anew. Gemma multiplies its own by the root of the hidden size."""
    (weight,) = model.get_input_embeddings().parameters()  # (V, HIDDEN)
    torch.nn.init.normal_(weight, std=std)
    return model
