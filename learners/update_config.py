"""Options that every learner shares, and what a learner must know of its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from learners.checks import check_fields
from learners.losses import BeyondCap, Importance, LossType
from learners.optim import OptimConfig


@dataclass(frozen=True)
class UpdateConfig:
    """Options that every learner shares."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimizer and schedule."""
    loss_type: LossType = "dapo"
    """Aggregation and ratio: see `losses.policy_loss`."""
    clip_low: float = 0.2
    """Lower clip distance of the ratio."""
    clip_high: float = 0.2
    """Upper clip distance of the ratio."""
    beta: float = 0.0
    """Weight of the KL to the reference (the base without adapter, or a frozen copy); 0: none."""
    epochs: int = 1
    """Passes over the step's trajectories."""
    minibatches: int = 1
    """Optimizer steps per pass."""
    old_logprobs: Literal["trainer", "sampler"] = "trainer"
    """What the ratio refers to when one rollout feeds several optimizer steps: the trainer's own
    log-probs (a forward pass more), or the engine's (exact for the embedded engine)."""
    microbatch_tokens: int = 16_384
    """Padded tokens per forward pass; bounds the memory, does not change the loss."""
    importance: Importance = "token"
    """Correct the engine's log-probs by trainer / sampler weights per token, by one weight per
    completion, or not at all ("off")."""
    importance_cap: float = 3.0
    """Bound of such a weight."""
    beyond_cap: BeyondCap = "truncate"
    """What becomes of a weight above the cap: it is set to the cap, or to 0 ("mask")."""
    truncated: Literal["keep", "mask", "penalise"] = "keep"
    """Completions cut by the length limit train like others ("keep"), give no gradient ("mask":
    they still count in baselines and in the loss denominator), or lose `truncation_penalty` of
    their reward ("penalise")."""
    truncation_penalty: float = 0.5
    """What `truncated="penalise"` takes from the reward."""
    gradient_checkpointing: bool = False
    """True: recompute activations in the backward pass; less memory, about a third more time."""

    shard: bool = False
    """True: several processes hold a part each of a full model's weights, masters, gradients and
    optimizer state, and gather the weights while the model works (FSDP2). One process holds all."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epochs", "minibatches", "microbatch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("clip_low", "clip_high", "beta", "truncation_penalty"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not self.importance_cap > 0:
            raise ValueError(
                f"importance_cap must be above 0, got {self.importance_cap}; "
                'importance="off" turns the correction off'
            )

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps per update."""
        return self.epochs * self.minibatches


@dataclass(frozen=True)
class Horizon:
    """What a learner must know of the run that it is part of."""

    total_steps: int
    """Updates in the run; sets the schedule's length."""
    temperature: float
    """Of the sampling; greedy sampling cannot be trained on."""
    max_new_tokens: int
    """Length limit of a completion, the denominator of "dr_grpo"."""
    seed: int = 0
    """Seeds the minibatch shuffles and new weights."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(
                f"training needs a sampling temperature above 0, got {self.temperature}"
            )
