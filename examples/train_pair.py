"""Train two language models against each other and answer with the trained cascade.

    python examples/train_pair.py tiny                      # the default: CPU, offline, minutes
    python examples/train_pair.py smollm2                   # a real LLM with two LoRA adapters
    python examples/train_pair.py qwen3-0.6b-deepmath-hard  # the paper's set-up, one GPU

Every field is a flag (`--help`). A run that was stopped goes on with `--resume`; `--plan` tells
how much memory a run will need.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console

from learners import processes
from learners.cascade import Pair, chosen_drafter
from learners.config import PairConfig
from learners.evaluate import Evaluation
from learners.memory import is_out_of_memory, memory_plan, out_of_memory_line
from learners.memory_table import plan_tables, prompt_of
from learners.model_shape import shape_of
from learners.monitor import Monitor, evaluation_tables
from learners.pair import PairTrainer
from learners.presets import PAPER, SMOLLM2, TINY, WARM_UP
from learners.report import write_report
from learners.run_folder import EVALUATIONS, RunFolder
from learners.warm_models import warm_models


@dataclass(frozen=True)
class Args:
    """What to train, and where."""

    pair: Annotated[PairConfig, tyro.conf.arg(name="")]
    run: Path = Path("runs/pair")
    """Folder of the run."""
    resume: bool = False
    """Continue the run in that folder; its own config counts, other flags are ignored."""
    plan: bool = False
    """Print the memory that the run will need, and stop: no weights are loaded."""
    prompt_tokens: int | None = None
    """For the plan: tokens of a drafter's longest prompt. Default: that of 64 problems."""
    processes: int = 1
    """For the plan: processes that share the work of a step."""


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
    processes.connect(args.pair.device)
    return PairTrainer(processes.main_first(lambda: with_models(args)), args.run)


def with_models(args: Args) -> PairConfig:
    """The config with names of models in the place of `WARM_UP`."""
    config = args.pair
    if config.models == (WARM_UP, WARM_UP):
        first, second = warm_models(config.task, config.seed, args.run.parent / "warm_up")
        one = config.regime == "self"
        config = replace(config, models=(first, first if one else second))
    return config


def show_plan(args: Args, console: Console) -> None:
    """Print what the run would take, without loading weights."""
    config = with_models(args)
    names = dict.fromkeys(config.models) if config.regime == "self" else config.models
    shapes = [shape_of(name, config.lora, config.dtype) for name in names]
    prompt = args.prompt_tokens or prompt_of(config)
    cuda = config.device.startswith("cuda") or (
        config.device == "auto" and torch.cuda.is_available()
    )
    plan = memory_plan(config, shapes, prompt, on_cpu=not cuda, processes=args.processes)
    for part in plan_tables(plan, config, prompt):
        console.print(part, highlight=False)


def before_training(folder: RunFolder) -> Evaluation:
    """The evaluation of the untrained pair on the test problems."""
    lines = folder.lines(EVALUATIONS)
    first = next((line for line in lines if (line["step"], line["split"]) == (0, "test")), None)
    if first is None:
        raise ValueError(
            f"{folder.path} has no test of the untrained pair, so there is no table of before and "
            "after: it was started by another program, which has its results"
        )
    return Evaluation.from_dict(first["evaluation"])


def main(args: Args) -> None:
    """Train, print the table, write the report, answer one question."""
    console = Console(quiet=not processes.is_main())
    if args.plan:
        show_plan(args, console)
        return
    trainer = start(args, console)
    after = trainer.train(Monitor(console))
    if not processes.is_main():
        return
    folder = RunFolder(args.run)
    before = before_training(folder)
    drafter = chosen_drafter(folder, trainer.step)
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
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        shown = processes.is_main() or not processes.is_of_all(error)
        sys.exit(f"error: {error}" if shown else 1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sys.exit(f"error: {out_of_memory_line(error)}")
