"""The set-ups that examples and benchmarks share, as configs.

`TINY` trains two small architectures on the CPU in minutes, `SMOLLM2` a real pretrained LLM with
two adapters, `PAPER` is the set-up of arXiv 2607.07690 for one GPU.
"""

from __future__ import annotations

from learners.config import PairConfig
from learners.engines import Sampling
from learners.optim import OptimConfig
from learners.policy import LoRA
from learners.update_config import UpdateConfig

WARM_UP = "warm-up"
"""Stands for the two tiny models of `warm_models.py`."""

TINY = PairConfig(
    task="modchain-hard",
    models=(WARM_UP, WARM_UP),
    rotation="both",
    steps=220,
    problems_per_step=12,
    samples=8,
    sampling=Sampling(max_new_tokens=24, temperature=1.0),
    update=UpdateConfig(
        optim=OptimConfig(
            learning_rate=4e-4, schedule="constant_with_warmup", warmup_ratio=0.04, beta2=0.98
        ),
        minibatches=2,
        old_logprobs="sampler",
    ),
    train_problems=20_000,
    eval_every=55,
    validation_problems=256,
    test_problems=512,
    checkpoint_every=55,
)
SMOLLM2 = PairConfig(
    task="arithmetic-easy",
    models=("smollm2-135m", "smollm2-135m"),
    lora=LoRA(rank=16, alpha=32),
    steps=20,
    problems_per_step=2,
    samples=4,
    sampling=Sampling(max_new_tokens=48, temperature=1.0),
    update=UpdateConfig(
        optim=OptimConfig(learning_rate=3e-4, schedule="constant_with_warmup"),
        microbatch_tokens=2_048,
    ),
    eval_every=0,
    validation_problems=4,
    test_problems=48,
    checkpoint_every=2,
)
PAPER = PairConfig(
    task="deepmath-hard",
    models=("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
    lora=LoRA(rank=16, alpha=32),
    dtype="bfloat16",
    steps=375,
    problems_per_step=8,
    samples=8,
    sampling=Sampling(max_new_tokens=8_192, temperature=0.6, top_p=0.95),
    update=UpdateConfig(
        optim=OptimConfig(learning_rate=5e-5, schedule="linear", warmup_ratio=0.1),
        microbatch_tokens=16_384,
    ),
    train_problems=3_000,
    eval_every=50,
    validation_problems=100,
    test_problems=300,
    checkpoint_every=25,
)
