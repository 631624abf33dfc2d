"""Train two language models against each other and answer with the trained cascade.

    python examples/train_pair.py tiny                      # the default: CPU, offline, minutes
    python examples/train_pair.py smollm2                   # a real LLM with two LoRA adapters
    python examples/train_pair.py qwen3-0.6b-deepmath-hard  # the paper's set-up, one GPU

Every field is a flag (`--help`). A run that was stopped goes on with `--resume`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from learners.cascade import Pair, chosen_drafter
from learners.config import PairConfig
from learners.engines import Sampling
from learners.evaluate import Evaluation
from learners.monitor import Monitor, evaluation_tables
from learners.optim import OptimConfig
from learners.pair import PairTrainer
from learners.policy import LoRA
from learners.policy_gradient import UpdateConfig
from learners.report import write_report
from learners.run_folder import EVALUATIONS, RunFolder
from learners.warmup import pair_folders, warm_up_pair

WARM_UP = "warm-up"
"""Stands for the two tiny models that can play a little."""
SHIPPED = Path(__file__).parent / "warm_up"
"""Those of seed 0, made by `make_warm_up.py`; for other seeds they are made before training."""


@dataclass(frozen=True)
class Args:
    """What to train, and where."""

    pair: Annotated[PairConfig, tyro.conf.arg(name="")]
    run: Path = Path("runs/pair")
    """Folder of the run."""
    resume: bool = False
    """Continue the run in that folder; its own config counts, other flags are ignored."""


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
    sampling=Sampling(max_new_tokens=32, temperature=1.0),
    update=UpdateConfig(
        optim=OptimConfig(learning_rate=3e-4, schedule="constant_with_warmup"),
        microbatch_tokens=2_048,
    ),
    eval_every=0,
    validation_problems=8,
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
PRESETS = {
    "tiny": (
        "two small architectures (0.23M parameters each) on modchain-hard; CPU, minutes",
        Args(TINY, run=Path("runs/tiny")),
    ),
    "smollm2": (
        "SmolLM2-135M-Instruct with two LoRA adapters on arithmetic-easy; CPU or GPU",
        Args(SMOLLM2, run=Path("runs/smollm2")),
    ),
    "qwen3-0.6b-deepmath-hard": (
        "the paper's set-up: Qwen3-0.6B, LoRA rank 16, DeepMath difficulty 8; one GPU",
        Args(PAPER, run=Path("runs/qwen3-0.6b-deepmath-hard")),
    ),
}


def start(args: Args, console: Console) -> PairTrainer:
    """The trainer of a new run, or of one that goes on."""
    if args.resume:
        trainer = PairTrainer.resume(args.run)
        console.print(f"resuming {args.run} after step {trainer.step}", highlight=False)
        return trainer
    config = args.pair
    if config.models == (WARM_UP, WARM_UP):
        config = replace(config, models=warm_models(config.seed, args.run.parent / "warm_up"))
    return PairTrainer(config, args.run)


def warm_models(seed: int, folder: Path) -> tuple[str, str]:
    """The two tiny models of a seed: shipped, or made in a folder (about a minute)."""
    shipped = list(pair_folders(SHIPPED, seed).values())
    ready = all(path.exists() for path in shipped)
    first, second = shipped if ready else warm_up_pair(folder, seed)
    return str(first), str(second)


def before_training(folder: RunFolder) -> Evaluation:
    """The evaluation of the untrained pair on the test problems."""
    lines = folder.lines(EVALUATIONS)
    first = next(line for line in lines if (line["step"], line["split"]) == (0, "test"))
    return Evaluation.from_dict(first["evaluation"])


def main(args: Args) -> None:
    """Train, print the table, write the report, answer one question."""
    console = Console()
    trainer = start(args, console)
    after = trainer.train(Monitor(console))
    before = before_training(trainer.folder)
    drafter = chosen_drafter(trainer.folder, trainer.step)
    console.print(evaluation_tables(before, after, drafter, trainer.config.task))
    for file in write_report(args.run):
        console.print(f"wrote {file}", highlight=False)
    question = trainer.problems["test"][0].question
    answer = Pair.load(args.run).answer(question)
    console.print(f"\nquestion: {question}\nanswer:   {answer.text}", highlight=False)


def parse(command: list[str]) -> Args:
    """The command line; without a preset it is `tiny`."""
    if not command or (command[0].startswith("-") and command[0] not in ("-h", "--help")):
        command = ["tiny", *command]
    return tyro.extras.overridable_config_cli(
        PRESETS, args=command, description=__doc__, prog="train_pair.py"
    )


if __name__ == "__main__":
    try:
        chosen = parse(sys.argv[1:])
        try:
            main(chosen)
        except KeyboardInterrupt:
            sys.exit(f"\nstopped; continue with: python {sys.argv[0]} --run {chosen.run} --resume")
    except (ValueError, OSError, FloatingPointError) as error:
        sys.exit(f"error: {error}")
