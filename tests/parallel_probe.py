"""What every process of a launch does in `test_processes.py`: train, resume, fail.

    torchrun --standalone --nproc-per-node 2 tests/parallel_probe.py cases ROOT

Results are folders below ROOT; each process writes the errors that it saw to `errors-<rank>.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import probe_task
import torch

from learners import processes
from learners.config import PairConfig
from learners.grpo import GRPOConfig
from learners.optim import OptimConfig
from learners.pair import PairTrainer
from learners.update_config import UpdateConfig

STEPS = 2
UPDATE = UpdateConfig(optim=OptimConfig(learning_rate=1e-3), minibatches=2, microbatch_tokens=128)
"""Small micro-batches, so that both processes have some; at 1e-3 rounding stays below 1e-5."""


def cases(root: Path) -> dict[str, PairConfig]:
    """Configs that together reach every place where processes share work."""
    changes = {"steps": STEPS, "eval_every": 0, "update": UPDATE}
    changes |= {"validation_problems": 2, "test_problems": 2}
    full = processes.main_first(lambda: probe_task.config(root, **changes))
    lora = processes.main_first(lambda: probe_task.lora_config(root, **changes))
    with_kl = replace(UPDATE, beta=0.1, epochs=2)
    return {
        "full": replace(full, problems_per_step=3),
        "lora": replace(lora, rotation="both"),
        "kl": replace(lora, update=with_kl, grpo=GRPOConfig(constant_groups="mask")),
        "ppo": replace(lora, learner=("ppo",), rotation="episode"),
        "shared-draft-refill": replace(
            full, shared_draft=True, rotation="episode", refill_rounds=2
        ),
        "one-problem": replace(full, problems_per_step=1, regime="solo"),
    }


def message(act: Callable[[], object]) -> str:
    """The error that an act ends in."""
    try:
        act()
    except (ValueError, OSError, RuntimeError, FloatingPointError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(root: Path) -> None:
    """Every case from its start; one that another number of processes began; and failures."""
    torch.set_num_threads(1)
    configs = cases(root)
    for name, config in configs.items():
        PairTrainer(config, root / name).train()
    PairTrainer.resume(root / "begun-by-one").train()
    begun = PairTrainer(configs["lora"], root / "begun-by-two")
    begun.train_step()
    begun.save()
    begun.close()

    errors = {"exists": message(lambda: PairTrainer(configs["full"], root / "full"))}
    errors["vllm"] = message(
        lambda: PairTrainer(replace(configs["full"], engine="vllm"), root / "vllm")
    )
    apart = PairTrainer(configs["full"], root / "apart")
    weight = next(iter(apart.players["agent_0"].policy.trainable_parameters().values()))
    if processes.rank() == 1:
        weight.data += 1e-3
    errors["apart"] = message(apart.save)
    (root / f"errors-{processes.rank()}.json").write_text(json.dumps(errors))


def lose_one(root: Path) -> None:
    """Train with weights that are not finite in the second process alone."""
    trainer = PairTrainer(cases(root)["full"], root / "lost")
    if processes.rank() == 1:
        for parameter in trainer.players["agent_0"].policy.trainable_parameters().values():
            parameter.data.fill_(float("nan"))
    try:
        trainer.train_step()
    except FloatingPointError as error:
        found = {"error": str(error), "of all": processes.is_of_all(error)}
        (root / f"lost-{processes.rank()}.json").write_text(json.dumps(found))
        raise


if __name__ == "__main__":
    {"cases": main, "lose-one": lose_one}[sys.argv[1]](Path(sys.argv[2]))
