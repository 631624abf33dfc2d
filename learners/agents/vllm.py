"""A model in vLLM, in this process, as an agent. For a vLLM server use `openai:`."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from learners.agents.records import AgentOptions, Decoding, Reply, Request

CHUNK = 512
"""Requests handed to vLLM at once; what it finishes of a chunk is stored together."""


class VLLMAgent:
    """Chats with `vllm.LLM`, which renders the model's own template."""

    def __init__(self, name: str, model: str, adapter: str, options: AgentOptions) -> None:
        self.name = name
        self._vllm: Any = _imported("vllm")
        dtype = "auto" if options.dtype == "float32" else options.dtype
        self._llm = self._vllm.LLM(model=model, dtype=dtype, enable_lora=bool(adapter))
        self._lora = None
        if adapter:
            self._lora = _imported("vllm.lora.request").LoRARequest("adapter", 1, adapter)

    def replies(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[tuple[int, Reply]]:
        """Chunk after chunk, each reply with its own seed."""
        for start in range(0, len(requests), CHUNK):
            rows = requests[start : start + CHUNK]
            began = time.perf_counter()
            outputs = self._llm.chat(
                [[dict(message) for message in request.messages] for request in rows],
                [self._parameters(request, decoding) for request in rows],
                lora_request=self._lora,
                use_tqdm=False,
            )
            seconds = (time.perf_counter() - began) / len(rows)
            for i, output in enumerate(outputs):
                found = output.outputs[0]
                counts = (len(output.prompt_token_ids), len(found.token_ids))
                finished = found.finish_reason != "length"
                yield start + i, Reply(found.text, *counts, finished, seconds)

    def _parameters(self, request: Request, decoding: Decoding) -> Any:
        return self._vllm.SamplingParams(
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            seed=request.seed,
        )


def vllm_agent(rest: str, options: AgentOptions) -> VLLMAgent:
    """`org/model` or a folder, or one of these with `#folder-of-an-adapter`."""
    model, _, adapter = rest.partition("#")
    return VLLMAgent(f"vllm:{rest}", model, adapter, options)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"vllm: cannot be imported here ({error}); run: pip install 'agon-rl[vllm]', or start "
            "a server elsewhere and name it as openai:http://host:port/v1#model"
        ) from error
