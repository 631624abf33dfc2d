"""Tokens per second and memory of a training step: ours against two TRL trainers on equal work.

    python benchmarks/throughput.py                              # 2M parameters, minutes
    python benchmarks/throughput.py --model smollm2-135m         # two adapters on one base
    python benchmarks/throughput.py --model qwen3-0.6b-random --device cuda --dtype bfloat16

Every contender gets the same model, prompts, number of completions and their length: none may end
early, all have an advantage, so nobody saves work by luck. Each runs in a process of its own, in
turn, for several rounds, so that drift of the machine shows. A command that was stopped goes on
where it was. See docs/scale.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from learners.conditions import conditions
from learners.policy import LoRA
from learners.presets import SMOLLM2, TINY
from learners.run_folder import write_atomically
from learners.throughput import (
    CONTENDERS,
    EngineRow,
    Goal,
    Kept,
    Measured,
    Row,
    Work,
    goals,
    measure,
    measure_engines,
    quiet,
    rows,
)
from learners.throughput.models import prepare

TASKS = {"tiny": TINY.task, "smollm2-135m": SMOLLM2.task}
"""What the presets of `examples/train_pair.py` train these models on."""


@dataclass(frozen=True)
class Args:
    """What to measure."""

    model: str = "tiny"
    """tiny, qwen3-0.6b-random (random weights), or any name that training takes."""
    lora_rank: int | None = None
    """Of the adapters; 0: all weights of two models. Default: 0 for tiny, else 16."""
    task: str | None = None
    """Default: what the preset of the model trains on, else arithmetic-medium."""
    problems: int = 2
    """Problems of a step."""
    samples: int = 8
    """Drafts of a problem, each with one solution."""
    new_tokens: int = 32
    """Length of every completion."""
    microbatch_tokens: int = 16_384
    """Padded tokens of a forward and backward pass."""
    steps: int = 3
    """Counted steps of a contender in each round, after one that is not."""
    rounds: int = 2
    """Times that every contender runs."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights."""
    device: str = "cpu"
    """cpu or cuda."""
    engine: Literal["hf", "vllm"] = "hf"
    """What generates for all."""
    engines: bool = False
    """Also compare three ways of generating, without training."""
    profile: bool = False
    """Also show the operations that take longest in our step."""
    seed: int = 0
    """Of problems, samples and random weights."""
    out: Path | None = None
    """JSON file of all numbers; None: named after the model, below runs/throughput."""

    def work(self, folder: str) -> Work:
        """The step, with the model in that folder."""
        rank = (0 if self.model == "tiny" else 16) if self.lora_rank is None else self.lora_rank
        return Work(
            model=folder,
            task=self.task or TASKS.get(self.model, "arithmetic-medium"),
            lora=LoRA(rank=rank, alpha=2 * rank) if rank else None,
            problems=self.problems,
            samples=self.samples,
            new_tokens=self.new_tokens,
            warmup=1,
            steps=self.steps,
            microbatch_tokens=self.microbatch_tokens,
            dtype=self.dtype,
            device=self.device,
            engine=self.engine,
            seed=self.seed,
        )


def run_rounds(
    work: Work, args: Args, kept: Kept, note: Callable[[str], None]
) -> dict[str, list[Measured]]:
    """Every contender in turn, `rounds` times, but for what is kept."""
    last = kept.found["ours"][args.rounds - 1 : args.rounds]
    if args.profile and last and not last[0].profile:
        del kept.found["ours"][args.rounds :]
        kept.drop_last("ours")
    for number in range(args.rounds):
        for name in CONTENDERS:
            if len(kept.found[name]) > number:
                continue
            note(f"round {number + 1} of {args.rounds}: {name}")
            ours = kept.found["ours"]
            profiled = args.profile and name == "ours" and number + 1 == args.rounds
            kept.add(measure(name, work, ours[-1].prompts if ours else None, profiled=profiled))
    return {name: kept.found[name][: args.rounds] for name in CONTENDERS}


def comparable() -> dict[str, object]:
    """What two rounds of one comparison must have in common, beside the work."""
    found = conditions()
    names = ("commit", "uncommitted_changes", "python", "machine", "versions")
    return {name: found[name] for name in names} | {"threads": os.environ.get("OMP_NUM_THREADS")}


def tables(
    table: Sequence[Row], reached: Sequence[Goal], engines: Sequence[EngineRow]
) -> list[Table]:
    """What is printed."""
    speed = Table("tokens/s", "step", "range", "by round", "generation", "update")
    held = Table("", "env + verifier", "peak MiB", "above imports", "prompt tokens", "new tokens")
    for row in table:
        if row.contender != "one of ours":  # half of the update: its speed is no comparison
            speed.add_row(
                row.contender,
                f"{row.step:.1f}",
                f"{row.slowest:.1f} - {row.fastest:.1f}",
                ", ".join(f"{rate:.1f}" for rate in row.step_of_rounds),
                f"{row.generation:.1f}",
                f"{row.update:.1f}",
            )
        held.add_row(
            row.contender,
            f"{row.judging_share:.1%}",
            f"{row.peak_mib:.0f}",
            f"{row.growth_mib:.0f}",
            f"{row.prompt_tokens:.0f}",
            f"{row.new_tokens}",
        )
    wanted = Table("goal", "wanted", "measured", "")
    for goal in reached:
        wanted.add_row(goal.name, goal.wanted, f"{goal.measured:.3f}", "yes" if goal.met else "NO")
    alone = Table("engine", "tokens", "tokens/s, median", "range")
    for row in engines:
        span = f"{min(row.rates):.1f} - {max(row.rates):.1f}"
        alone.add_row(row.engine, str(row.new_tokens), f"{median(row.rates):.1f}", span)
    return [speed, held, wanted, *([alone] if engines else [])]


def benchmark(args: Args, console: Console) -> None:
    """Measure, print, and write."""
    quiet()
    out = args.out or Path("runs/throughput") / f"{args.model.replace('/', '-')}.json"
    with tempfile.TemporaryDirectory() as folder, console.status("the model") as status:
        work = args.work(prepare(args.model, Path(folder) / "model", args.seed))
        settings = asdict(work) | {"model": args.model} | comparable()
        kept = Kept(out.with_suffix(".partial"), settings)
        found = run_rounds(work, args, kept, lambda text: status.update(text))
        engines: list[EngineRow] = []
        if args.engines:
            status.update("engines alone")
            engines = measure_engines(work, found["ours"][0].prompts)
    table = rows(found)
    reached = goals(table, adapters=work.lora is not None)
    for part in tables(table, reached, engines):
        console.print(part)
    if profile := found["ours"][-1].profile:
        console.print(profile, markup=False, highlight=False, soft_wrap=True)
    results = {
        "schema": "agon-throughput/1",
        **conditions(),
        "load_1min": os.getloadavg()[0],
        "threads": found["ours"][0].threads,
        "settings": asdict(work) | {"model": args.model, "rounds": args.rounds},
        "rows": [asdict(row) for row in table],
        "goals": [asdict(goal) for goal in reached],
        "engines": [asdict(row) for row in engines],
        "steps": {
            name: [[asdict(step) for step in one.steps] for one in measured]
            for name, measured in found.items()
        },
    }
    write_atomically(out, json.dumps(results, indent=1) + "\n")
    console.print(f"wrote {out}", markup=False)
    kept.forget()


def main(args: Args) -> None:
    """Run, with one line for whatever stops it."""
    try:
        benchmark(args, Console())
    except (OSError, ValueError, ImportError, MemoryError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from the last contender that ended")


if __name__ == "__main__":
    main(tyro.cli(Args))
