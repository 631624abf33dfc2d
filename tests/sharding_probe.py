"""What both processes do in `test_sharding.py`: train models in shards, and say what each held.

    torchrun --standalone --nproc-per-node 2 tests/sharding_probe.py cases ROOT

Results are folders below ROOT and `held-<rank>.json`, which has for each case what `held` counts.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import parallel_probe
import pytest
import torch
from tiny_llm import tokenizer, trajectory
from transformers import Qwen3Config, Qwen3ForCausalLM

from learners import policy_gradient, processes, sharding
from learners.config import PairConfig
from learners.optim import OptimConfig
from learners.pair import PairTrainer
from learners.policy import Policy
from learners.policy_gradient import PolicyGradient
from learners.throughput.memory_peak import peak_mib, resident_mib, start_peak
from learners.update_config import Horizon, UpdateConfig

HELD = ("weights", "masters", "averages", "reference")


def cases(root: Path) -> dict[str, PairConfig]:
    """Full models in shards: a Qwen 3, and a Gemma 3 whose embeddings are its output weights."""
    full = replace(parallel_probe.cases(root)["full"], checkpoint_every=0)
    update = replace(full.update, shard=True)
    with_masters = replace(update.optim, master_weights=True)
    return {
        "full": replace(full, update=update),
        "kl-masters-recomputed": replace(
            full,
            update=replace(update, beta=0.1, optim=with_masters, gradient_checkpointing=True),
        ),
        "one-completion": replace(  # at a time: a process has no micro-batch, and no problem
            full,
            problems_per_step=1,
            regime="solo",
            samples=2,
            update=replace(update, minibatches=4),
        ),
    }


def held(trainer: PairTrainer) -> dict[str, int]:
    """Numbers that this process holds of both agents between two steps, by what they are."""
    count: dict[str, int] = dict.fromkeys(HELD, 0)
    for learner in trainer.learners.values():
        gradient = learner.gradient  # pyright: ignore
        reference = gradient.reference.models if gradient.reference else []
        tensors = {
            "weights": gradient.policy.model.parameters(),
            "masters": gradient.optim.masters or [],
            "averages": [
                value
                for one in gradient.optim.adamw.state.values()
                for value in (one["exp_avg"], one["exp_avg_sq"])
            ],
            "reference": [p for model in reference for p in model.parameters()],
        }
        for name, some in tensors.items():
            parts = [sharding.local(t).untyped_storage() for t in some]
            count[name] += sum(part.nbytes() for part in parts) // 4
    return count


def train(config: PairConfig, run: Path) -> dict[str, int | list[int]]:
    """Train; what was held at the end, and the micro-batches of each minibatch."""
    counts: list[int] = []
    cut = policy_gradient.shared_microbatches

    def counted(*args):
        parts = cut(*args)
        counts.append(len(parts))
        return parts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_gradient, "shared_microbatches", counted)
        trainer = PairTrainer(config, run)
        trainer.train()
    return {**held(trainer), "microbatches": counts}


def main(root: Path) -> None:
    """Every case from its start, one that one process began, and one that is left to it."""
    torch.set_num_threads(1)
    configs = cases(root)
    found: dict[str, object] = {n: train(config, root / n) for n, config in configs.items()}
    PairTrainer.resume(root / "begun-by-one").train()
    begun = PairTrainer(configs["kl-masters-recomputed"], root / "begun-by-two")
    begun.train_step()
    begun.save()
    begun.close()
    found["refused"] = {"pair": parallel_probe.message(begun.pair)}
    (root / f"held-{processes.rank()}.json").write_text(json.dumps(found))


def grown(*, shard: bool) -> dict[str, float]:
    """MiB by which this process grows for one bfloat16 policy of 18M parameters with masters."""
    start_peak("cpu")
    before = resident_mib("cpu")
    update = UpdateConfig(shard=shard, microbatch_tokens=8, optim=OptimConfig(master_weights=True))
    gradient = PolicyGradient(wide_policy(), update, Horizon(2, 1.0, 10))
    rows = [trajectory([8, 9, 10], [60 + i, 70 + i]) for i in range(2)]
    start_peak("cpu")
    metrics = gradient.update(rows, [torch.tensor(1.0), torch.tensor(-0.5)])
    peak = peak_mib("cpu") - before
    start_peak("cpu")  # gives freed memory back
    return {"held": resident_mib("cpu") - before, "peak": peak, "norm": metrics["grad_norm"]}


def wide_policy() -> Policy:
    """A random Qwen 3 whose weights are more than what a process has anyway."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )
    model = Qwen3ForCausalLM(config).to(dtype=torch.bfloat16)  # pyright: ignore
    return Policy(model, tokenizer())


def memory(root: Path) -> None:
    """Whole and then in shards, one after the other."""
    torch.set_num_threads(1)
    processes.connect("cpu")
    found = {name: grown(shard=name == "shards") for name in ("whole", "shards")}
    (root / f"grown-{processes.rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    {"cases": main, "memory": memory}[sys.argv[1]](Path(sys.argv[2]))
