"""Tiny real language models and tokenizers, built in code: nothing is downloaded, nothing is faked.

Five families with the parts that break engines and losses: grouped-query attention (Qwen 3, Llama),
recurrent linear attention (Qwen 3.5), sliding windows shorter than any sequence (Gemma 3, Gemma 4),
layers that share keys and values, per-layer embeddings and capped logits (Gemma 4). Weights are
random but large, so that distributions are far from uniform and a wrong mask changes them visibly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from agon_env.types import AGENTS
from learners.policy import LoRA, Policy
from learners.trajectory import Trajectory

FAMILIES = ("qwen3", "qwen3_5", "gemma3", "gemma4", "llama")
WINDOW = 4
"""Sliding window of the Gemmas, in tokens."""

SPECIAL = ("<pad>", "<bos>", "<eos>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
CHAT = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINK = CHAT.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
Chat = Literal["plain", "think"]


def tokenizer(
    chat: Chat | None = "plain", *, pad: bool = True, shift: int = 0
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer: 256 bytes, two merges and the chat tokens.

    Args:
        chat: Template; None has none. "think" opens `<think>` in the generation prompt.
        pad: False leaves the tokenizer without a pad token.
        shift: Rotates the ids of the bytes, for a family with another vocabulary.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    alphabet = alphabet[shift:] + alphabet[:shift]
    words = [*SPECIAL, *alphabet, "th", "the"]
    bpe = BPE({word: i for i, word in enumerate(words)}, [("t", "h"), ("th", "e")])
    core = Tokenizer(bpe)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    result = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>" if pad else None,
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    result.add_tokens(["<think>", "</think>"])
    result.chat_template = {"plain": CHAT, "think": THINK, None: None}[chat]
    return result


VOCABULARY = len(tokenizer())


def model(family: str, seed: int = 0, *, hidden: int = 16) -> PreTrainedModel:
    """A random fp32 model of about 20k parameters; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _BUILD[family](hidden).eval()


def policy(family: str = "qwen3", seed: int = 0, chat: Chat | None = "plain") -> Policy:
    """A policy of which all weights train."""
    return Policy(model(family, seed), tokenizer(chat))


def save(folder: Path, family: str, seed: int = 0, **options: object) -> str:
    """Write a model with its tokenizer as a Hugging Face folder; returns its name."""
    model(family, seed).save_pretrained(folder)
    tokenizer(**options).save_pretrained(folder)  # pyright: ignore
    return str(folder)


SMALL_LORA = LoRA(rank=2, alpha=4)


def trajectory(
    prompt: list[int],
    completion: list[int],
    reward: float | None = 0.0,
    *,
    problem: str = "p",
    finished: bool = True,
    logprobs: list[float] | None = None,
) -> Trajectory:
    """A drafter's trajectory of agent_0 with made-up ids."""
    return Trajectory(
        agent=AGENTS[0],
        role="drafter",
        group=(0, problem, AGENTS[0], "drafter"),
        prompt_ids=tuple(prompt),
        completion_ids=tuple(completion),
        logprobs=tuple(logprobs if logprobs is not None else [-1.0] * len(completion)),
        finished=finished,
        reward=reward,
    )


def _shape(hidden: int, layers: int) -> dict:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "initializer_range": 0.3,
        "bos_token_id": SPECIAL.index("<bos>"),
        "eos_token_id": SPECIAL.index("<eos>"),
        "pad_token_id": SPECIAL.index("<pad>"),
    }


def _qwen3(hidden: int) -> PreTrainedModel:
    config = transformers.Qwen3Config(**_shape(hidden, 2), tie_word_embeddings=False)
    return transformers.Qwen3ForCausalLM(config)


def _llama(hidden: int) -> PreTrainedModel:
    config = transformers.LlamaConfig(**_shape(hidden, 2), tie_word_embeddings=True)
    return transformers.LlamaForCausalLM(config)


def _qwen3_5(hidden: int) -> PreTrainedModel:
    config = transformers.Qwen3_5TextConfig(
        **_shape(hidden, 3),
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 1.0,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
        },
    )
    return transformers.Qwen3_5ForCausalLM(config)


def _gemma3(hidden: int) -> PreTrainedModel:
    config = transformers.Gemma3TextConfig(
        **_shape(hidden, 3),
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        sliding_window=WINDOW,
        query_pre_attn_scalar=8,
    )
    return transformers.Gemma3ForCausalLM(config)


def _gemma4(hidden: int) -> PreTrainedModel:
    config = transformers.Gemma4TextConfig(
        **_shape(hidden, 4),
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        sliding_window=WINDOW,
        global_head_dim=16,
        vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=4,
        num_kv_shared_layers=2,
        final_logit_softcapping=30.0,
    )
    return transformers.Gemma4ForCausalLM(config)


_BUILD = {
    "qwen3": _qwen3,
    "qwen3_5": _qwen3_5,
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "llama": _llama,
}
