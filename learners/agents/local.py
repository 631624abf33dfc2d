"""A Hugging Face model in this process as an agent: a hub id, a folder, an adapter, or a run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from peft import PeftModel

from agon_env.types import AGENTS
from learners.agents.records import AgentError, AgentOptions, Decoding, Reply, Request
from learners.cascade import players_of
from learners.config import PairConfig
from learners.engines import HFEngine, Sampling
from learners.models import load_model
from learners.policy import Policy
from learners.run_folder import RunFolder, step_of


class LocalAgent:
    """Samples from a policy with the embedded engine, a batch at a time."""

    def __init__(self, name: str, policy: Policy, batch: int) -> None:
        self.name, self.policy, self._batch = name, policy, batch

    def replies(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[tuple[int, Reply]]:
        """Batch after batch; each reply has its own random stream, whatever its batch.

        Raises:
            AgentError: The model's weights are broken (NaN).
        """
        sampling = Sampling(decoding.max_new_tokens, decoding.temperature, decoding.top_p)
        for start in range(0, len(requests), self._batch):
            rows = requests[start : start + self._batch]
            began = time.perf_counter()
            prompts = [self.policy.encode(request.messages) for request in rows]
            try:
                completions = HFEngine().generate(
                    self.policy, [p.ids for p in prompts], sampling, [r.seed for r in rows]
                )
            except FloatingPointError as error:
                raise AgentError(f"{self.name}: {error}") from error
            seconds = (time.perf_counter() - began) / len(rows)
            for i, (prompt, found) in enumerate(zip(prompts, completions, strict=True)):
                text = self.policy.decode(found.ids, prompt)
                counts = (len(prompt.ids), len(found.ids))
                yield start + i, Reply(text, *counts, found.finished, seconds)


def hf_agent(rest: str, options: AgentOptions) -> LocalAgent:
    """`org/model`, a folder, a `.gguf` file, or one of these with `#folder-of-an-adapter`."""
    base, _, adapter = rest.partition("#")
    model, tokenizer = load_model(base, dtype=options.dtype, device=_device(options))
    if adapter:
        try:
            model = PeftModel.from_pretrained(model, adapter)
        except (OSError, ValueError, RuntimeError) as error:
            first_line = str(error).strip().splitlines()[0]
            raise ValueError(
                f"cannot load adapter {adapter!r} on {base!r}: {first_line}"
            ) from error
        return LocalAgent(f"hf:{rest}", Policy(model, tokenizer, "default"), options.batch)
    return LocalAgent(f"hf:{rest}", Policy(model, tokenizer), options.batch)


def run_agent(rest: str, options: AgentOptions) -> LocalAgent:
    """`runs/x#agent_1`: that agent of a training run, from the newest checkpoint."""
    path, _, agent = rest.rpartition("#")
    if agent not in AGENTS or not path:
        raise ValueError(f"run: needs a folder and one of {AGENTS}: runs/x#agent_0, got {rest!r}")
    folder = RunFolder(path)
    config = PairConfig.from_dict(
        {**folder.config(), "device": _device(options), "dtype": options.dtype}
    )
    checkpoint = folder.checkpoint()
    if checkpoint is None:
        raise ValueError(f"run {path} has no checkpoint yet; train it first")
    policy = players_of(config)[agent].policy
    policy.load_weights(checkpoint / agent)
    return LocalAgent(f"run:{rest}@step_{step_of(checkpoint)}", policy, options.batch)


def _device(options: AgentOptions) -> str:
    if options.device != "auto":
        return options.device
    return "cuda" if torch.cuda.is_available() else "cpu"
