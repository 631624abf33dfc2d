"""One language model as a player: messages -> prompt ids, sampled ids -> text, ids -> log-probs.

A policy owns its tokenizer, chat template, stop ids and (for LoRA) one named adapter of a base
model that it may share with the other agent. Text is all that crosses between two policies
(pitfalls 42, 43, 53). Sampling is in `engines/`, the optimizer in the learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.utils import load_peft_weights, set_peft_model_state_dict
from safetensors.torch import save_file
from torch import nn
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from learners.models import load_model

_TURN_ENDS = ("<|im_end|>", "<end_of_turn>", "<turn|>", "<|eot_id|>", "<|end|>")
"""Tokens that close a chat turn in public templates; generation configs forget some (pitfall 4)."""


@dataclass(frozen=True)
class LoRA:
    """Adapter settings (paper: rank 16 on one frozen base)."""

    rank: int = 16
    """Rank of the update."""
    alpha: int = 32
    """Scale: the update is multiplied by alpha / rank."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """Module names to adapt, or "all-linear"."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"LoRA.rank must be at least 1, got {self.rank}")


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt."""

    ids: tuple[int, ...]
    prefix: str = ""
    """Text that the template already opened for the reply (such as "<think>"); part of the reply
    when it is read, never of the sampled ids."""


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

    @contextmanager
    def using(self) -> Iterator[nn.Module]:
        """Select this policy's adapter (if it has one) for the calls inside."""
        if self.adapter is not None:
            select_adapter(self.model, self.adapter)
        yield self.model

    def encode(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """Chat messages -> prompt ids, through the model's own template.

        A tokenizer without a template gets the contents as plain text, joined by blank lines.
        The messages are not changed (pitfall 56).
        """
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages) + "\n\n"
            return Prompt(tuple(self.tokenizer(text)["input_ids"]))  # pyright: ignore
        text = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            **self.template_kwargs,  # pyright: ignore[reportArgumentType]
        )
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]  # the template has them
        tail = str(text).rstrip()
        return Prompt(tuple(ids), "<think>\n" if tail.endswith("<think>") else "")  # pyright: ignore

    def decode(self, ids: Sequence[int], prompt: Prompt) -> str:
        """Sampled ids -> the reply as text, without the stop token, with the prompt's prefix."""
        if ids and ids[-1] in self.stop_ids:
            ids = ids[:-1]
        text = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return prompt.prefix + str(text)

    def trainable_parameters(self) -> dict[str, nn.Parameter]:
        """Name -> parameter of what this policy trains: its adapter, or the whole model."""
        named = dict(self.model.named_parameters())
        if self.adapter is None:
            return named
        return {name: p for name, p in named.items() if f".{self.adapter}." in name}

    def save(self, folder: str | Path) -> None:
        """Write weights and tokenizer in Hugging Face format (an adapter alone for LoRA)."""
        folder = Path(folder)
        if self.adapter is not None and isinstance(self.model, PeftModel):
            _save_adapter(self.model, self.adapter, folder)
        else:
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load_weights(self, folder: str | Path) -> None:
        """Read weights written by `save` into this policy, in place."""
        if self.adapter is not None:
            weights = load_peft_weights(str(folder), device=str(self.device))
            set_peft_model_state_dict(self.model, weights, adapter_name=self.adapter)
            return
        fresh = type(self.model).from_pretrained(folder, dtype=self.model.dtype)
        self.model.load_state_dict(fresh.state_dict())


def single_policy(
    name: str,
    *,
    lora: LoRA | None = None,
    dtype: str = "float32",
    device: str | torch.device = "cpu",
    adapter: str = "agent_0",
) -> Policy:
    """One policy from a model name (see `models.load_model`)."""
    model, tokenizer = load_model(name, dtype=dtype, device=device)
    if lora is None:
        return Policy(model, tokenizer)
    return Policy(_adapted(model, lora, adapter), tokenizer, adapter)


def policy_pair(
    names: tuple[str, str],
    *,
    lora: LoRA | None = None,
    noise: float = 1e-3,
    seed: int = 0,
    dtype: str = "float32",
    device: str | torch.device = "cpu",
) -> tuple[Policy, Policy]:
    """The two policies of a pair.

    The same name twice with `lora` gives two adapters on one frozen base; otherwise each policy
    has its own model.

    Args:
        names: Model names of agent_0 and agent_1.
        lora: Adapter settings; None trains all weights.
        noise: Std of the Gaussian that agent_1's adapter starts from (its B matrix; agent_0's is
            zero). Breaks the symmetry of two adapters on one base.
        seed: Seeds the adapters' initial values.
        dtype: Of the weights.
        device: Where the models go.
    """
    if lora is None or names[0] != names[1]:
        first, second = (
            single_policy(name, lora=lora, dtype=dtype, device=device, adapter=f"agent_{i}")
            for i, name in enumerate(names)
        )
    else:
        model, tokenizer = load_model(names[0], dtype=dtype, device=device)
        with _seeded(seed):
            shared = _adapted(model, lora, "agent_0")
            shared.add_adapter("agent_1", _peft_config(lora))
        first = Policy(shared, tokenizer, "agent_0")
        second = Policy(shared, tokenizer, "agent_1")
    if second.adapter is not None:
        _perturb_adapter(second, noise, seed)
    return first, second


def stop_ids_of(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a completion: of both configs, the tokenizer and its chat turns."""
    found: list[Any] = []
    for config in (getattr(model, "generation_config", None), model.config):
        eos = getattr(config, "eos_token_id", None)
        found += eos if isinstance(eos, list) else [eos]
    found.append(tokenizer.eos_token_id)
    vocabulary = tokenizer.get_vocab()
    found += [vocabulary[token] for token in _TURN_ENDS if token in vocabulary]
    return tuple(dict.fromkeys(i for i in found if i is not None))


def select_adapter(model: nn.Module, adapter: str) -> None:
    """Make `adapter` the active and the only trainable one."""
    if model.active_adapter != adapter:
        model.set_adapter(adapter)  # pyright: ignore[reportCallIssue]


def _peft_config(lora: LoRA) -> LoraConfig:
    modules = lora.target_modules
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=modules if isinstance(modules, str) else list(modules),
        task_type="CAUSAL_LM",
    )


def _adapted(model: PreTrainedModel, lora: LoRA, adapter: str) -> PeftModel:
    return get_peft_model(model, _peft_config(lora), adapter_name=adapter)  # pyright: ignore


def _perturb_adapter(policy: Policy, std: float, seed: int) -> None:
    """Add Gaussian noise to the adapter's B matrices, which start at zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.trainable_parameters().items():
            if ".lora_B." in name:
                noise = torch.randn(parameter.shape, generator=generator) * std
                parameter.add_(noise.to(parameter))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Run with a seeded global torch generator and put the old state back (peft draws from it)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _save_adapter(model: PeftModel, adapter: str, folder: Path) -> None:
    """Write one adapter so that `PeftModel.from_pretrained(base, folder)` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    state = get_peft_model_state_dict(model, adapter_name=adapter)
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "adapter_model.safetensors")
    config = model.peft_config[adapter]
    trained, config.inference_mode = config.inference_mode, True
    config.save_pretrained(str(folder))
    config.inference_mode = trained
