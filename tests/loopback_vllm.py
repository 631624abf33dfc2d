"""What a vLLM server says to our trainer, without a model: for `loopback_llm.loopback`.

Completions are made from the seed alone, so two runs that ask for the same get the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

Answer = tuple[int, bytes, dict[str, str]]


def said(status: int, value: object) -> Answer:
    """An answer as JSON."""
    return status, json.dumps(value).encode(), {}


def refused(status: int, message: str) -> Answer:
    """An error as vLLM words it."""
    return said(status, {"error": {"message": message, "type": "BadRequestError"}})


@dataclass
class FakeVLLM:
    """A behaviour of the loopback server; the fields say how it was started."""

    base: str = "tiny"
    runtime_lora: bool = True
    mode: str = "processed_logprobs"
    max_length: int | None = 512
    stop_id: int = 2
    load: Callable[[dict[str, Any]], Answer | None] = lambda body: None
    """May refuse an adapter."""
    complete: Callable[[int, dict[str, Any]], Answer | None] | None = None
    """May answer the n-th completion in its own way."""
    loaded: list[str] = field(default_factory=list)
    log: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """(path, body) of every request."""

    def __call__(self, number: int, body: dict[str, Any]) -> Answer | None:
        path = body.pop("path")
        self.log.append((path, body))
        if path == "/v1/models":
            card = {"id": self.base, "root": self.base, "parent": None}
            cards = [{"id": name, "parent": self.base} for name in self.loaded]
            return said(200, {"data": [{**card, "max_model_len": self.max_length}, *cards]})
        if path == "/v1/completions":
            return self._completion(body)
        if not self.runtime_lora:
            return said(404, {"detail": "Not Found"})
        return self._adapter(path, body)

    def asked(self, path: str) -> list[dict[str, Any]]:
        """The bodies of the requests to a path; of completions those that are no probe."""
        return [b for p, b in self.log if p == path and b.get("model") != self.base]

    def _adapter(self, path: str, body: dict[str, Any]) -> Answer:
        name = body["lora_name"]
        if not name:
            return refused(400, "Both 'lora_name' and 'lora_path' must be provided.")
        if path == "/v1/unload_lora_adapter":
            if name not in self.loaded:
                return refused(404, f"The lora adapter '{name}' cannot be found.")
            self.loaded.remove(name)
            return 200, b"Success", {}
        if (answer := self.load(body)) is not None:
            return answer
        self.loaded.append(name)
        return 200, b"Success: LoRA adapter added", {}

    def _completion(self, body: dict[str, Any]) -> Answer | None:
        if body["model"] == self.base:
            return self._probe(body["temperature"])
        if body["model"] not in self.loaded:
            return refused(404, f"The model `{body['model']}` does not exist.")
        if self.complete is not None:
            answer = self.complete(len(self.asked("/v1/completions")) - 1, body)
            if answer is not None:
                return answer
        generator = np.random.default_rng(body["seed"])
        length = int(generator.integers(1, body["max_tokens"] + 1))
        ids = [int(token) for token in generator.integers(10, 200, length)]
        stopped = length < body["max_tokens"]
        if stopped:
            ids[-1] = self.stop_id
        return completion(ids, [-5.0] * length, "stop" if stopped else "length")

    def _probe(self, temperature: float) -> Answer:
        logits = torch.tensor([4.0, 3.0, 1.0])
        if self.mode.startswith("processed"):
            logits = logits / temperature
        values = logits if self.mode.endswith("logits") else logits.log_softmax(-1)
        top = {f"token_id:{i}": float(value) for i, value in enumerate(values)}
        return said(200, {"choices": [{"logprobs": {"top_logprobs": [top]}}]})


def completion(ids: list[int], logprobs: list[float], reason: str | None) -> Answer:
    """One choice as vLLM gives it."""
    choice = {
        "text": "",
        "token_ids": ids,
        "logprobs": {"token_logprobs": logprobs},
        "finish_reason": reason,
    }
    return said(200, {"choices": [choice]})
