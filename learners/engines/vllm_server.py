"""Generation by vLLM servers elsewhere: prompts go out as token ids, ids and log-probs come back.

The servers hold the base model; only adapters move, through a folder that they see. Whether weights
changed is told by the policy's fingerprint (pitfall 16). Several processes send requests side by
side; the first alone writes and loads adapters, in `sync`, which all call together.

Log-probs are those of the distribution that was sampled from, as in `vllm.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, cast

from torch import nn
from transformers.modeling_utils import PreTrainedModel

from learners import processes
from learners.checks import check_fields
from learners.engines.records import Completion, Sampling, check_requests
from learners.engines.server_adapters import ServerAdapters
from learners.engines.server_check import ModelServer, find_servers
from learners.engines.server_completion import complete, request_of
from learners.engines.server_http import Server
from learners.engines.vllm import request_seeds
from learners.policy import Policy


@dataclass(frozen=True)
class VLLMServerConfig:
    """Where the vLLM servers are, and how they are asked."""

    urls: tuple[str, ...] = ("http://localhost:8000/v1",)
    """Of all servers. Those of one base model share its requests; a pair of two base models needs
    servers of both."""
    adapter_folder: str = ""
    """Where adapters are written for the servers to read, under the same path there: on a shared
    file system. "": the temporary folder, for a server on this machine."""
    concurrency: int = 256
    """Requests under way at once, of each process and, with two devices, of each agent; a server
    queues what it cannot run."""
    timeout_s: float = 1800.0
    """Longest wait for one completion, in seconds, the time in the server's queue included."""
    retries: int = 5
    """Repeats of a request whose connection was lost."""
    backoff_s: float = 1.0
    """Wait before the first repeat, in seconds; doubles each time, up to a minute."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.urls or not all(u.startswith(("http://", "https://")) for u in self.urls):
            raise ValueError(
                "vllm_server.urls must be http:// or https:// addresses, at least one, got "
                f"{list(self.urls)}"
            )
        if self.concurrency < 1 or min(self.retries, self.backoff_s) < 0 or self.timeout_s <= 0:
            raise ValueError(
                "vllm_server needs concurrency of at least 1, retries and backoff_s of at least 0 "
                f"and timeout_s above 0, got {self.concurrency}, {self.retries}, {self.backoff_s} "
                f"and {self.timeout_s}"
            )


class VLLMServerEngine:
    """Samples from adapters of one base model."""

    def __init__(self, name: str, config: VLLMServerConfig) -> None:
        """Find and check the servers of a model.

        Args:
            name: Of the base model, as for `models.load_model`.
            config: Options.

        Raises:
            ConnectionError: A server does not answer.
            ValueError: No server has this model, or one of them cannot serve training.
        """
        self._concurrency = config.concurrency
        options = {
            "timeout_s": config.timeout_s,
            "retries": config.retries,
            "backoff_s": config.backoff_s,
        }
        self._servers = find_servers(name, [Server(url, **options) for url in config.urls])
        self._adapters = ServerAdapters([s.server for s in self._servers], config.adapter_folder)
        self._stop, self._ended = threading.Event(), False
        self.kept = False
        """True: the weights of the last `sync` are sampled from, whatever a policy's are."""

    def sync(self, policy: Policy) -> None:
        """Bring the servers' adapter up to the policy's weights; all processes call it together.

        Raises:
            ConnectionError: A server does not answer.
            ValueError: The policy has no adapter, or a server does not take it.
        """
        if self.kept:
            return
        now = policy.fingerprint()
        name = processes.from_main(lambda: self._adapters.push(policy, now))
        self._adapters.note(policy, now, name)

    def generate(
        self,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seed: int | Sequence[int],
        first: int = 0,
    ) -> list[Completion]:
        """Sample one completion per prompt; see `Engine.generate`.

        Weights that changed since the last `sync` are pushed by this process, unless the servers'
        are `kept`.

        Raises:
            ConnectionError: A server does not answer.
            ValueError: A server refuses a prompt.
        """
        check_requests(policy, prompts, sampling)
        if not prompts:
            return []
        longest = max(map(len, prompts))
        for one in self._servers:
            _check_room(one, longest, sampling.max_new_tokens)
        common = request_of(policy, sampling)
        common["model"] = self._name_of(policy)
        seeds = request_seeds(seed, first, len(prompts))
        return self._complete(
            [
                {**common, "prompt": list(prompt), "seed": one}
                for prompt, one in zip(prompts, seeds, strict=True)
            ],
            _vocabulary_of(policy),
        )

    def _name_of(self, policy: Policy) -> str:
        if self.kept:
            return self._adapters.held(policy)
        return self._adapters.push(policy, policy.fingerprint())

    def cancel(self) -> None:
        """Send no further request, also of a `generate` under way in another thread: it fails."""
        self._ended = True
        self._stop.set()

    def _complete(self, bodies: Sequence[Mapping[str, Any]], vocabulary: int) -> list[Completion]:
        """Send all, neighbours to the same server; after a failure no further one is sent."""
        stop = self._stop = threading.Event()
        if self._ended:
            stop.set()
        with ThreadPoolExecutor(min(self._concurrency, len(bodies))) as pool:
            futures: list[Future[Completion]] = []
            for i, body in enumerate(bodies):
                one = self._servers[i * len(self._servers) // len(bodies)]
                futures.append(pool.submit(complete, one.server, body, vocabulary, stop))
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
                for future in futures:
                    future.cancel()
        for future in done:
            if (error := future.exception()) is not None:
                raise error
        return [future.result() for future in futures]


def _vocabulary_of(policy: Policy) -> int:
    embeddings = cast(PreTrainedModel, policy.model).get_input_embeddings()
    return cast(nn.Embedding, embeddings).num_embeddings


def _check_room(one: ModelServer, prompt: int, new: int) -> None:
    if one.max_length is not None and prompt + new > one.max_length:
        raise ValueError(
            f"a prompt of {prompt} tokens and {new} new ones must fit into the {one.max_length} of "
            f"the server at {one.server.url}; start it with a larger --max-model-len, or choose a "
            "smaller sampling.max_new_tokens or shorter problems"
        )
