"""A task whose reward every random model earns sometimes, so that training really updates.

A reply counts as right when its length is even: half of all random replies are. Importing this
module registers task and verifier; `run` trains on it in a process of its own (to be killed).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import tiny_llm
import torch

from agon_env.tasks import register_task
from agon_env.types import Problem, Verdict
from agon_env.verifiers import register
from learners.config import PairConfig
from learners.engines import Sampling
from learners.optim import OptimConfig
from learners.pair import PairTrainer
from learners.policy import LoRA
from learners.update_config import UpdateConfig

SIZES = {"train": 12, "validation": 6, "test": 6}


def judge_even(problem: Problem, text: str) -> Verdict:
    """Right when the reply has an even number of characters."""
    even = len(text) % 2 == 0
    return Verdict(even, "match" if even else "mismatch", answer=text[:1] or None)


def load_probe(split: str) -> list[Problem]:
    """A few numbered questions."""
    return [
        Problem(id=f"{split}-{i}", question=f"question {i}", answer="even", verifier="even")
        for i in range(SIZES[split])
    ]


register("even", judge_even, where="inline")
register_task("probe", load_probe, sizes=SIZES, verifier="even")

CONFIG = PairConfig(
    task="probe",
    steps=4,
    problems_per_step=2,
    samples=4,
    sampling=Sampling(max_new_tokens=6),
    update=UpdateConfig(optim=OptimConfig(learning_rate=1e-2), minibatches=2),
    eval_every=2,
    validation_problems=4,
    test_problems=4,
    checkpoint_every=1,
)


def config(root: Path, **changes: object) -> PairConfig:
    """The probe's config for two full models of different families, written below `root`."""
    models = (
        tiny_llm.save(root / "qwen3", "qwen3", seed=1),
        tiny_llm.save(root / "gemma3", "gemma3", seed=2),
    )
    return replace(CONFIG, models=models, **changes)  # pyright: ignore


def lora_config(root: Path, **changes: object) -> PairConfig:
    """The probe's config for two adapters on one base."""
    base = tiny_llm.save(root / "llama", "llama", seed=3)
    return replace(CONFIG, models=(base, base), lora=LoRA(rank=2, alpha=4), **changes)  # pyright: ignore


def run(folder: str) -> None:
    """Start or continue the run in a folder that already has its config's models beside it."""
    torch.set_num_threads(1)
    path = Path(folder)
    if (path / "config.json").exists():
        trainer = PairTrainer.resume(path)
    else:
        trainer = PairTrainer(config(path.parent, steps=30, eval_every=7), path)
    trainer.train()


if __name__ == "__main__":
    run(sys.argv[1])
