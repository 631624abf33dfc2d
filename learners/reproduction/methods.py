"""What is compared: rows of the table, and the training run that each takes its models from.

One run serves several rows: the two models of "grpo" are looked at alone, as a cascade of models
that never met in training, and in two passes of one model. At the CPU scales every trained model
samples 2N replies per problem, in all runs alike, for the same number of steps. At the paper's
scale, where roles alternate by step, a pair samples 2N replies per problem together, and a model
that is trained alone 2N. Nothing else differs but what is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from learners.config import PairConfig
from learners.presets import PAPER, SMOLLM2, TINY
from learners.warmup import WarmUp

Use = Literal["alone", "cascade", "self", "majority"]
BASE = "base"
"""The run without training."""


@dataclass(frozen=True)
class Method:
    """One row of the table."""

    key: str
    label: str
    run: str
    """Key of `RUNS`, or "base"."""
    use: Use
    """How the run's models answer: the better one alone, as a cascade in the better direction, one
    model that reads its own draft, or one model's vote over four samples. What is better is decided
    on validation problems."""
    paper: float | None = None
    """Pass@1 in the paper (Qwen3-0.6B, DeepMath hard), %."""


METHODS = (
    Method("zero_shot", "zero-shot", BASE, "alone", 23),
    Method("moa", "Mixture-of-Agents, untrained", BASE, "cascade", 34),
    Method("vote", "self-consistency of 4, untrained", BASE, "majority"),
    Method("grpo", "GRPO, same budget", "grpo", "alone", 30),
    Method("grpo_vote", "GRPO, self-consistency of 4", "grpo", "majority"),
    Method("grpo_self", "GRPO self-cascade", "grpo", "self", 35),
    Method("grpo_pair", "GRPO pair as a cascade", "grpo", "cascade"),
    Method("refine_0", "self-refinement, model 0", "refine_0", "self", 32),
    Method("refine_1", "self-refinement, model 1", "refine_1", "self", 32),
    Method("shared", "competitive, one shared draft", "shared", "cascade", 32),
    Method("cooperative", "cooperative", "cooperative", "cascade", 46),
    Method("margin", "margin reward", "margin", "cascade", 49),
    Method("fixed", "fixed roles", "fixed", "cascade", 52),
    Method("both_paid", "bonus in both seats", "both_paid", "cascade"),
    Method("copies", "two copies of model 0", "copies", "cascade"),
    Method("unseen", "bonus for unseen failed drafts", "unseen", "cascade"),
    Method("agon_step", "Agon, roles by step", "agon_step", "cascade"),
    Method("agon", "Agon", "agon", "cascade", 61),
    Method("brevity", "Agon with brevity", "brevity", "cascade", 60),
    Method("agon_ppo", "Agon with PPO", "agon_ppo", "cascade"),
)
MAIN = ("zero_shot", "moa", "grpo", "grpo_self", "grpo_pair", "agon")
"""Rows of the small scale: they need two training runs per seed."""


SAME_IN_THE_PAPER = ("refine_1", "copies", "agon_step")
"""Rows that the paper's set-up, two adapters on one base with roles by step, already has."""


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    config: PairConfig
    """Of the run "agon"; the others change it."""
    seeds: int
    methods: tuple[str, ...]
    recipe: WarmUp = field(default_factory=WarmUp)
    """Of the warm-up of tiny models; the same for all methods."""


SCALES: Mapping[str, Scale] = {
    "cpu-small": Scale(replace(TINY, steps=180, eval_every=45, checkpoint_every=45), 2, MAIN),
    "cpu": Scale(TINY, 5, tuple(method.key for method in METHODS)),
    "smollm2": Scale(
        replace(SMOLLM2, validation_problems=16),
        2,
        ("zero_shot", "moa", "grpo", "grpo_pair", "agon"),
    ),
    "gpu": Scale(
        replace(PAPER, engine="vllm"),
        1,
        tuple(m.key for m in METHODS if m.key not in SAME_IN_THE_PAPER),
    ),
}


def method(key: str) -> Method:
    """The method of that key.

    Raises:
        ValueError: There is none.
    """
    for found in METHODS:
        if found.key == key:
            return found
    raise ValueError(f"unknown method {key!r}; choose among {[m.key for m in METHODS]}")


def run_config(run: str, base: PairConfig) -> PairConfig:
    """The config of a run, at the budget of `base`.

    With rotation "both" an agent samples two replies per match. Where it plays one role per match
    ("fixed", "step") a problem gets twice the matches; where one model plays both seats, one of
    them drafts.
    """
    twice = {} if base.rotation != "both" else {"samples": 2 * base.samples}
    first, second = base.models
    alone = {"regime": "self", "rotation": "fixed", "reward": "cooperative"}
    changes: dict[str, dict[str, Any]] = {
        BASE: {"steps": 0},
        "grpo": {"regime": "solo"},
        "refine_0": {**alone, "models": (first, first)},
        "refine_1": {**alone, "models": (second, second)},
        "shared": {"shared_draft": True},
        "cooperative": {"reward": "cooperative"},
        "margin": {"reward": "margin"},
        "fixed": {"rotation": "fixed", **twice},
        "both_paid": {"reward": "both-paid"},
        "copies": {"models": (first, first)},
        "unseen": {"reveal": "none"},
        "agon_step": {"rotation": "step", **twice},
        "agon": {},
        "brevity": {"reward": "agon-brevity"},
        "agon_ppo": {"learner": ("ppo",)},
    }
    if run not in changes:
        raise ValueError(f"unknown run {run!r}; choose among {sorted(changes)}")
    return replace(base, **changes[run])
