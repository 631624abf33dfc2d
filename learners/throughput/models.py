"""A name -> a folder with a model that every contender loads in the same way. Works offline.

Random weights are as fast and as large as trained ones.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from learners.models import load_model

POSITIONS = 4096
SPECIAL = ("<pad>", "<eos>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LAST_LINES = CHAT_TEMPLATE.replace("m.content", "m.content.split('\n')[-1]")
"""Leaves the instructions out, as the tiny models of `tiny_models.py` do: prompts are short."""

SHAPES = {
    "tiny": {
        "vocab_size": 512,
        "hidden_size": 192,
        "intermediate_size": 576,
        "num_hidden_layers": 5,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 32,
        "max_position_embeddings": POSITIONS,
    },
    "qwen3-0.6b-random": {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "tie_word_embeddings": True,
    },
}
"""Qwen 3 with random weights: 2.4M parameters, and the shape of Qwen3-0.6B."""


def prepare(name: str, folder: Path, seed: int = 0) -> str:
    """Write the model of that name (a key of `SHAPES`, or as for `load_model`) into a folder."""
    if name not in SHAPES:
        model, tokenizer = load_model(name)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)
    tokenizer = byte_tokenizer(LAST_LINES if name == "tiny" else CHAT_TEMPLATE)
    tokens = {
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(**SHAPES[name], **tokens))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def byte_tokenizer(chat_template: str) -> PreTrainedTokenizerFast:
    """A token per byte. Higher ids of a larger vocabulary decode to nothing."""
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(BPE({word: i for i, word in enumerate(words)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<eos>",
        pad_token="<pad>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = chat_template
    return tokenizer
