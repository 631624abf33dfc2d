"""What every engine takes, refuses and returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from learners.checks import check_fields
from learners.policy import Policy


@dataclass(frozen=True)
class Sampling:
    """How to sample a completion."""

    max_new_tokens: int = 512
    """Longest completion, stop token included."""
    temperature: float = 1.0
    """Divides the logits; 0 is greedy. The training log-probs use the same one (pitfall 10)."""
    top_p: float = 1.0
    """Keep the most likely tokens whose probabilities reach this sum; 1 keeps all."""
    top_k: int = 0
    """Keep this many most likely tokens; 0 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this share as likely as the most likely one; 0 keeps all."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if not self.temperature >= 0:
            raise ValueError(f"temperature must be 0 (greedy) or positive, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or positive, got {self.top_k}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be in [0, 1], got {self.min_p}")

    @property
    def filters(self) -> bool:
        """Whether some tokens are never drawn, so that they are drawn from another distribution
        than the one of the model."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


@dataclass(frozen=True)
class Completion:
    """One sampled completion, exactly as it was sampled (pitfalls 1, 7, 53)."""

    ids: tuple[int, ...]
    """Sampled ids, the stop token or the tokens of the stop text included."""
    logprobs: tuple[float, ...]
    """Log-prob of each id under the temperature-scaled distribution. The embedded engine takes it
    before top-p, top-k and min-p, so that it is comparable with the trainer's (pitfall 11); vLLM
    can only give the one after them. For greedy: at temperature 1."""
    finished: bool
    """True when a stop id was sampled, or the stop text of a policy that has one; False when the
    length limit cut the completion."""


class Engine(Protocol):
    """Anything that samples completions from a policy's current weights."""

    def generate(
        self,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seed: int | Sequence[int],
        first: int = 0,
    ) -> list[Completion]:
        """Sample one completion per prompt.

        Args:
            policy: Whose weights, stop ids and pad id to use.
            prompts: Token ids per request; none may be empty.
            sampling: Length, temperature and filters.
            seed: Request i draws from the stream (seed, first + i); or one seed per request.
            first: Where these requests stand in a larger batch that shares the seed.

        Returns:
            One `Completion` per prompt, in order.

        Raises:
            FloatingPointError: Logits or a log-prob are not finite (pitfall 15).
            ValueError: A prompt is empty, or does not fit into the model's context.
        """
        ...


def check_requests(policy: Policy, prompts: Sequence[Sequence[int]], sampling: Sampling) -> None:
    """Raise ValueError where a prompt is empty or does not fit into the model's context."""
    if any(len(prompt) == 0 for prompt in prompts):
        raise ValueError("every prompt must have at least one token, got an empty one")
    policy.check_fits(max(map(len, prompts), default=0), sampling.max_new_tokens)
