"""URLs -> the vLLM servers that can generate for a base model, or one line that says what is wrong.

Asked before a run begins: is the server up, does it serve this model, does it take adapters while
it runs, are its log-probs those at the sampling temperature. Rank and folder are checked by loading
the first adapters (`server_adapters.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learners.engines.server_http import RefusedError, Server

_PROBE = [1, 2, 3]
"""Token ids of a prompt that any vocabulary has."""
_HOT = 2.0
"""Temperature of the probe, vLLM's highest: log-probs of two tokens are then twice as close."""
RUNTIME_LORA = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
"""What must be in the environment of the server."""


@dataclass(frozen=True)
class ModelServer:
    """A server and what it says of the base model."""

    server: Server
    base: str
    """Name of the base model at the server."""
    max_length: int | None
    """Most tokens of prompt and completion together; None where the server does not say."""


def find_servers(name: str, servers: Sequence[Server]) -> tuple[ModelServer, ...]:
    """Those that serve the model, each checked.

    Args:
        name: Model name of the trainer: a hub id or a folder.
        servers: All that may serve it.

    Raises:
        ConnectionError: One does not answer.
        ValueError: None serves the model, or one that does was started otherwise than needed.
    """
    found: list[ModelServer] = []
    others: list[str] = []
    for server in servers:
        cards = _base_models(server)
        card = next((card for card in cards if _is_model(name, card)), None)
        if card is None:
            others.append(f"{server.url} with {[card.get('id') for card in cards]}")
            continue
        length = card.get("max_model_len")
        found.append(ModelServer(server, card["id"], length if isinstance(length, int) else None))
    if not found:
        raise ValueError(
            f"a server of vllm_server.urls must serve {name!r}, got {', '.join(others)}; start one "
            f"with --model {name}, or of a copy of it with --served-model-name {name}"
        )
    for one in found:
        _check_runtime_lora(one.server)
        _check_logprobs(one)
    return tuple(found)


def _base_models(server: Server) -> list[Mapping[str, Any]]:
    try:
        cards = json.loads(server.ask("/v1/models"))["data"]
        return [card for card in cards if not card.get("parent")]
    except (RefusedError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{server.url} must be an OpenAI-compatible vLLM server, got no list of models "
            f"({error}); check vllm_server.urls, and OPENAI_API_KEY if the server has a key"
        ) from error


def _is_model(name: str, card: Mapping[str, Any]) -> bool:
    names = {name}
    if Path(name).exists():
        names.add(str(Path(name).resolve()))
    return not names.isdisjoint({card.get("id"), card.get("root")})


def _check_runtime_lora(server: Server) -> None:
    """A request without a name is refused with 400 where there is such a route, with 404 if not."""
    try:
        server.ask("/v1/load_lora_adapter", {"lora_name": "", "lora_path": ""})
    except RefusedError as error:
        if error.status in (404, 405):
            raise ValueError(
                f"the server at {server.url} must load adapters while it runs, got {error}; start "
                f"it with {RUNTIME_LORA} in its environment and --enable-lora"
            ) from error


def _check_logprobs(found: ModelServer) -> None:
    """One token at temperature 1 and one at 2: log-probs after the temperature come closer.

    A model whose tokens are all equally likely does not tell.
    """
    mild, hot = (_top_logprobs(found, temperature) for temperature in (1.0, _HOT))
    both = mild.keys() & hot.keys()
    if len(both) < 2:
        return
    wide, narrow = (_width([top[token] for token in both]) for top in (mild, hot))
    raw = wide > 1e-3 and abs(narrow - wide) < abs(narrow - wide / _HOT)
    if raw or sum(math.exp(min(value, 1.0)) for value in mild.values()) > 1.01:
        raise ValueError(
            f"the server at {found.server.url} must report log-probs at the sampling temperature, "
            "got others; start it with --logprobs-mode processed_logprobs"
        )


def _width(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _top_logprobs(found: ModelServer, temperature: float) -> dict[str, float]:
    """Token -> reported log-prob of the likely ones after the probe, by the base model."""
    body = {
        "model": found.base,
        "prompt": _PROBE,
        "max_tokens": 1,
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "seed": 0,
        "logprobs": 5,
        "return_tokens_as_token_ids": True,
    }
    try:
        answer = json.loads(found.server.ask("/v1/completions", body))
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        return {str(token): float(value) for token, value in top.items()}
    except (RefusedError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the server at {found.server.url} must answer a prompt of token ids with log-probs, "
            f"got {error}; is it a vLLM of a version with these? (0.32 was tested)"
        ) from error
