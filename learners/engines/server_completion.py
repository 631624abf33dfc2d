"""One prompt of token ids -> a request to a vLLM server; its answer -> a completion."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from typing import Any

from learners.engines.records import Completion, Sampling
from learners.engines.server_http import RefusedError, Server
from learners.policy import Policy

_NO_LOGPROB = -9999.0
"""What vLLM's server says instead of minus infinity."""


def request_of(policy: Policy, sampling: Sampling) -> dict[str, Any]:
    """What all requests of a batch have in common.

    Everything that the server would fill from the model's own generation config is said.
    """
    return {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": [] if policy.stop_text is None else [policy.stop_text],
        "stop_token_ids": list(policy.stop_ids),
        "logprobs": 0,  # that of the sampled token alone
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def complete(
    server: Server, body: Mapping[str, Any], vocabulary: int, stop: threading.Event
) -> Completion:
    """Ask for one completion.

    Args:
        server: Who is asked.
        body: `request_of`, with model, prompt and seed.
        vocabulary: Ids are below it.
        stop: Once set, nothing is sent, and a lost connection is not tried again.

    Raises:
        ConnectionError: The server does not answer.
        FloatingPointError: A log-prob is not finite (pitfall 15).
        ValueError: It refuses the request, or its answer is not what was asked for.
    """
    if stop.is_set():
        raise ConnectionError(f"{server.url} was not asked: the run is ending")
    try:
        text = server.ask("/v1/completions", body, stop)
    except RefusedError as error:
        hint = "; it may have been restarted: go on with --resume" if error.status == 404 else ""
        raise ValueError(
            f"the server at {server.url} must complete every prompt, got {error}{hint}"
        ) from error
    try:
        choice = json.loads(text)["choices"][0]
        ids = tuple(int(token) for token in choice["token_ids"])
        logprobs = tuple(float(value) for value in choice["logprobs"]["token_logprobs"])
        reason = choice["finish_reason"]
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"the server at {server.url} must give token ids and log-probs, got {text[:80]!r}; "
            "is it a vLLM of a version with return_token_ids? (0.32 was tested)"
        ) from error
    _check_whole(server, len(ids), len(logprobs), reason, body["max_tokens"])
    if not all(0 <= token < vocabulary for token in ids):
        raise ValueError(
            f"the server at {server.url} must sample ids below {vocabulary}, the model's "
            "vocabulary, got others; does it serve the trainer's base model?"
        )
    if not all(math.isfinite(value) and value > _NO_LOGPROB for value in logprobs):
        raise FloatingPointError(f"the server at {server.url} gave a log-prob that is not finite")
    return Completion(ids=ids, logprobs=logprobs, finished=reason == "stop")


def _check_whole(server: Server, ids: int, logprobs: int, reason: object, most: int) -> None:
    """A server may cut completions by limits of its own; that would train on other lengths."""
    whole = ids <= most if reason == "stop" else reason == "length" and ids == most
    if not whole or ids != logprobs:
        raise ValueError(
            f"the server at {server.url} must end a completion at a stop or at {most} tokens, got "
            f"{ids} tokens, {logprobs} log-probs and the reason {reason!r}; start it without a "
            "limit of new tokens in --generation-config, and see its log"
        )
