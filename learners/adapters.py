"""LoRA adapters on a shared base: make, select, perturb, save and load one by name.

Two agents may own two adapters of one `PeftModel`: the memory of one model. Only the text part of
a model is adapted; the vision and audio towers of multimodal checkpoints never run here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.utils import load_peft_weights, set_peft_model_state_dict
from safetensors.torch import save_file
from torch import nn
from transformers.modeling_utils import PreTrainedModel

from learners.checks import check_fields


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
        check_fields(self)
        if min(self.rank, self.alpha) < 1:
            raise ValueError(
                f"LoRA.rank and LoRA.alpha must be at least 1, got {self.rank} and {self.alpha}"
            )


def adapted(model: PreTrainedModel, lora: LoRA, names: Iterable[str], seed: int) -> PeftModel:
    """Wrap a model with one fresh adapter per name; the first is selected.

    The adapters' values depend on the seed alone; the global random state is left as it was.
    """
    first, *others = names
    config = _peft_config(model, lora)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        result = get_peft_model(model, config, adapter_name=first)
        for name in others:
            result.add_adapter(name, _peft_config(model, lora))
    result.eval()
    return result  # pyright: ignore[reportReturnType]


def add_adapter(model: nn.Module, name: str, *, like: str, seed: int) -> None:
    """Add a fresh adapter with the settings of another one; the selected one stays selected."""
    assert isinstance(model, PeftModel)
    selected = model.active_adapter
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model.add_adapter(name, copy.copy(model.peft_config[like]))
    model.set_adapter(selected)  # pyright: ignore[reportArgumentType]


def select_adapter(model: nn.Module, adapter: str) -> None:
    """Make `adapter` the active and the only trainable one."""
    if model.active_adapter != adapter:
        model.set_adapter(adapter)  # pyright: ignore[reportCallIssue]


def keep_adapter(model: nn.Module, adapter: str) -> None:
    """Select one adapter and remove the others."""
    assert isinstance(model, PeftModel)
    select_adapter(model, adapter)
    for other in set(model.peft_config) - {adapter}:
        model.delete_adapter(other)


def adapter_parameters(model: nn.Module, adapter: str) -> dict[str, nn.Parameter]:
    """Name -> parameter of one adapter."""
    return {name: p for name, p in model.named_parameters() if f".{adapter}." in name}


def perturb_adapter(model: nn.Module, adapter: str, std: float, seed: int) -> None:
    """Add Gaussian noise to the adapter's B matrices, which start at zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapter_parameters(model, adapter).items():
            if ".lora_B." in name:
                noise = torch.randn(parameter.shape, generator=generator) * std
                parameter.add_(noise.to(parameter))


def save_adapter(model: PeftModel, adapter: str, folder: Path) -> None:
    """Write one adapter so that `PeftModel.from_pretrained(base, folder)` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    state = get_peft_model_state_dict(model, adapter_name=adapter)
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "adapter_model.safetensors")
    config = model.peft_config[adapter]
    with _inference_mode(config):
        config.save_pretrained(str(folder))


def load_adapter(model: PeftModel, adapter: str, folder: Path) -> None:
    """Read what `save_adapter` wrote into an adapter that exists.

    Raises:
        ValueError: The folder's adapter does not fit (other rank, modules or model).
    """
    device = next(model.parameters()).device
    weights = load_peft_weights(str(folder), device=str(device))
    expected = get_peft_model_state_dict(model, adapter_name=adapter)
    if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in expected.items()}:
        raise ValueError(
            f"the adapter in {folder} must have the modules and rank of {adapter!r}, it has "
            f"{len(weights)} tensors where {len(expected)} are needed or other shapes; load it "
            "with the model and the LoRA settings that it was trained with"
        )
    set_peft_model_state_dict(model, weights, adapter_name=adapter)


def _peft_config(model: PreTrainedModel, lora: LoRA) -> LoraConfig:
    modules = lora.target_modules
    text = {id(module) for module in model.get_decoder().modules()}
    text.add(id(model.get_output_embeddings()))
    outside = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and id(module) not in text
    ]
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=modules if isinstance(modules, str) else list(modules),
        exclude_modules=outside or None,
        task_type="CAUSAL_LM",
    )


@contextmanager
def _inference_mode(config: PeftConfig) -> Iterator[None]:
    """A saved adapter loads frozen, as peft's own do."""
    before, config.inference_mode = config.inference_mode, True
    yield
    config.inference_mode = before
