"""The paper's table, at the scale of a CPU or of its own GPU set-up.

    python benchmarks/reproduce.py                        # cpu-small: two seeds, the main rows
    python benchmarks/reproduce.py --scale cpu            # five seeds, every row: hours
    python benchmarks/reproduce.py --scale cpu --methods grpo agon --seeds 3
    python benchmarks/reproduce.py --task carry-hard      # another task family, same settings
    python benchmarks/reproduce.py --scale cpu --steps 440  # twice as long
    python benchmarks/reproduce.py --gaps 0.25 0          # models that lack more and err nowhere
    python benchmarks/reproduce.py --scale smollm2        # a real LLM on a CPU: hours
    python benchmarks/reproduce.py --scale gpu            # Qwen3-0.6B on DeepMath hard, with vLLM
    python benchmarks/reproduce.py --scale gpu --plan     # how much that is

Each (run, seed) is kept as it is done, so a command that was stopped goes on where it was. The
table and the learning curves are written anew at the end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import matplotlib.pyplot as plt
import tyro
from rich.console import Console
from rich.markdown import Markdown

from agon_env.tasks import load_problems
from agon_env.tasks.chains import rules_of
from learners.memory import is_out_of_memory, out_of_memory_line
from learners.monitor import Monitor
from learners.presets import WARM_UP
from learners.reproduction.curves import Curve, curves_table, validation_curve
from learners.reproduction.gaps import gap_costs, gaps_table
from learners.reproduction.methods import BASE, SCALES, Scale, Use, method
from learners.reproduction.plan import plan_table, work_of
from learners.reproduction.runs import make_record
from learners.reproduction.table import Records, make_row, markdown, ordering_broken

ORDER = ("zero_shot", "grpo", "agon")
"""Pass@1 must rise along these rows."""


@dataclass(frozen=True)
class Args:
    """What to reproduce."""

    scale: Literal["cpu-small", "cpu", "smollm2", "gpu"] = "cpu-small"
    """Models, task, steps, seeds and rows: see `learners.reproduction.methods.SCALES`."""
    task: str | None = None
    """Instead of the scale's task; everything else stays as it is."""
    gaps: tuple[float, float] | None = None
    """Shares of the facts that the tiny models never see in their warm-up, and see wrong; None:
    0.15 and 0.15."""
    models: tuple[str, str] | None = None
    """Instead of the scale's: names as for training."""
    engine: Literal["hf", "vllm"] | None = None
    """Instead of the scale's."""
    new_tokens: int | None = None
    """Longest completion; None: that of the scale."""
    steps: int | None = None
    """Length of training; None: as many as the scale has."""
    seeds: int | None = None
    """Seeds 0, 1, ...; None: as many as the scale has."""
    methods: tuple[str, ...] = ()
    """Rows; none: those of the scale."""
    plan: bool = False
    """Only print how much each run would generate, if the task has as many problems."""
    out: Path | None = None
    """Folder of records, runs and table; None: named after the choices, below runs/reproduce."""


def main(args: Args) -> str | None:
    """Make what is missing, write the table; returns what is wrong with the ordering."""
    console, scale, out = Console(), scale_of(args), folder_of(args)
    methods = [method(key) for key in scale.methods]
    seeds = range(scale.seeds if args.seeds is None else args.seeds)
    if not seeds:
        raise ValueError(f"seeds must be at least 1, got {args.seeds}")
    runs = list(dict.fromkeys(m.run for m in methods))
    if args.plan:
        uses: dict[str, set[Use]] = {r: {m.use for m in methods if m.run == r} for r in runs}
        works = [work_of(run, scale.config, uses[run]) for run in runs]
        console.print(Markdown(plan_table(works, len(seeds))))
        return None
    jobs = [(run, seed) for seed in seeds for run in runs]
    records = {}
    for number, (run, seed) in enumerate(jobs):
        console.rule(f"{number + 1} of {len(jobs)}: {run}, seed {seed}")
        records[run, seed] = make_record(run, seed, scale, out, Monitor(console))
    rows = [make_row(m, records, seeds) for m in methods]
    text = markdown(rows)
    if scale.config.models == (WARM_UP, WARM_UP):
        text += "\n" + gaps_of(records, runs, scale.config.task)
    curves = {
        run: [validation_curve(out / "runs" / f"{run}-seed{seed}", run) for seed in seeds]
        for run in runs
        if run != BASE
    }
    if any(curve for found in curves.values() for curve in found):
        text += "\n" + curves_table(curves)
        plot_curves(curves, out / "curves.png")
    (out / "table.md").write_text(text)
    console.print(Markdown(text))
    console.print(f"wrote {out / 'table.md'}", highlight=False)
    present = [key for key in ORDER if key in {m.key for m in methods}]
    return ordering_broken(rows, present)


def scale_of(args: Args) -> Scale:
    """The scale with what was chosen in its place."""
    scale = SCALES[args.scale]
    config, curriculum = scale.config, scale.recipe.curriculum
    if args.task is not None:
        config = replace(config, task=args.task)
    if args.models is not None:
        config = replace(config, models=args.models)
    if args.engine is not None:
        config = replace(config, engine=args.engine)
    if args.new_tokens is not None:
        sampling = replace(config.sampling, max_new_tokens=args.new_tokens)
        config = replace(config, sampling=sampling)
    if args.steps is not None:
        config = replace(config, steps=args.steps)
    if args.gaps is not None:
        if config.models != (WARM_UP, WARM_UP):
            raise ValueError(
                "gaps are what the tiny models' warm-up leaves out, got the models "
                f"{list(config.models)}; leave gaps out, or take a cpu scale without models"
            )
        unknown, mistaken = args.gaps
        curriculum = replace(curriculum, unknown=unknown, mistaken=mistaken)
    return replace(
        scale,
        config=config,
        recipe=replace(scale.recipe, curriculum=curriculum),
        methods=args.methods or scale.methods,
    )


def folder_of(args: Args) -> Path:
    """Where it all goes: what was chosen has a folder of its own."""
    if args.out is not None:
        return args.out
    chosen = [args.task, *(args.models or ()), args.engine, *(args.gaps or ())]
    counts = {"steps": args.steps, "tokens": args.new_tokens}
    chosen += [f"{count}-{what}" for what, count in counts.items() if count is not None]
    name = [args.scale, *(str(part) for part in chosen if part is not None)]
    return Path("runs/reproduce") / re.sub(r"[^\w.=]+", "-", "-".join(name))


def gaps_of(records: Records, runs: list[str], task: str) -> str:
    """What gaps of knowledge cost the models of each run, as Markdown."""
    by_run = {run: [record for (name, _), record in records.items() if name == run] for run in runs}
    count = len(by_run[runs[0]][0]["test"]["alone"]["agent_0"]["correct"])
    problems = load_problems(task, split="test", limit=count)
    rules = rules_of(task)
    costs = {run: gap_costs(found, rules, problems) for run, found in by_run.items()}
    return (
        f"Odds of a right answer, times, for each gap that a problem meets:\n\n{gaps_table(costs)}"
    )


def plot_curves(curves: Mapping[str, Sequence[Curve]], file: Path) -> None:
    """Validation pass@1 of the better direction over the steps, one line per run and seed."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for index, (run, found) in enumerate(curves.items()):
        for number, curve in enumerate(filter(None, found)):
            label = run if number == 0 else None
            axes.plot(*zip(*curve.items(), strict=True), color=f"C{index}", label=label, alpha=0.8)
    axes.set_xlabel("training step")
    axes.set_ylabel("validation pass@1")
    axes.set_title("better model (grpo) or better direction of the cascade", fontsize=10)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    try:
        wrong = main(tyro.cli(Args, description=__doc__))
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command goes on from here")
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        sys.exit(f"error: {error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sys.exit(f"error: {out_of_memory_line(error)}")
    if wrong is not None:
        sys.exit(f"error: the ordering zero-shot < GRPO < Agon does not hold: {wrong}")
