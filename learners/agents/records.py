"""What every agent takes and returns: chat messages and a seed in, text with its costs out.

Free of torch, so that agents behind a server or a function need no model library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from learners.checks import check_fields


class AgentError(RuntimeError):
    """An agent cannot go on; one line that says which, why, and what to do."""


@dataclass(frozen=True)
class Decoding:
    """How every agent of a benchmark samples."""

    max_new_tokens: int = 512
    """Longest reply, in the agent's own tokens."""
    temperature: float = 1.0
    """0 is greedy; then all seeds of a local model give the same reply."""
    top_p: float = 1.0
    """Keep the most likely tokens whose probabilities reach this sum; 1 keeps all."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.max_new_tokens < 1 or self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                "decoding needs max_new_tokens >= 1, temperature >= 0 and 0 < top_p <= 1, got "
                f"{self.max_new_tokens}, {self.temperature} and {self.top_p}"
            )


@dataclass(frozen=True)
class AgentOptions:
    """How agents run; none of it changes what they are asked."""

    device: str = "auto"
    """Of local models: "auto" takes CUDA where there is one."""
    dtype: str = "float32"
    """Of local models: float32, bfloat16 or float16."""
    batch: int = 32
    """Replies that a local model writes, and the benchmark stores, at once."""
    concurrency: int = 8
    """Requests under way at a server."""
    retries: int = 5
    """Repeats of a request that failed for a reason that may pass (429, 5xx, no connection)."""
    backoff_s: float = 1.0
    """Wait before the first repeat; doubles each time, up to a minute."""
    timeout_s: float = 600.0
    """Longest wait for one answer of a server."""

    def __post_init__(self) -> None:
        check_fields(self)
        if min(self.batch, self.concurrency) < 1 or self.retries < 0:
            raise ValueError(
                "batch and concurrency must be at least 1 and retries at least 0, got "
                f"{self.batch}, {self.concurrency} and {self.retries}"
            )


@dataclass(frozen=True)
class Request:
    """One reply that is asked for."""

    messages: tuple[Mapping[str, str], ...]
    """Chat messages with role and content."""
    seed: int
    """Own random stream of this reply, so that it does not depend on what else is asked."""


@dataclass(frozen=True)
class Reply:
    """One reply with what it cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finished: bool
    """False when the length limit cut it."""
    seconds: float
    """Until it was there; of replies written in one batch, the batch's time over its size."""
    error: str | None = None
    """Why there is no reply though others got theirs, such as a prompt too long for the server."""


class Agent(Protocol):
    """Anything that answers chat messages."""

    @property
    def name(self) -> str:
        """Says exactly what answers; equal names are taken to give equal replies."""
        ...

    @property
    def needs_examples(self) -> bool:
        """True of a base model, which follows worked examples and no instructions."""
        ...

    def replies(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[tuple[int, Reply]]:
        """(index of the request, its reply) as they come, in any order.

        Raises:
            AgentError: It cannot go on. Replies that were there are yielded first.
        """
        ...


def words(messages: Sequence[Mapping[str, str]]) -> int:
    """Words of a prompt: the token count of agents that have no tokens."""
    return sum(len(message["content"].split()) for message in messages)
