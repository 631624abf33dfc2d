"""Benchmark any two agents (or more): alone, in both cascades, and against token-matched controls.

    python benchmarks/pairs.py hf:org/a openai:http://localhost:8000/v1#b --task gsm8k --n 300
    python benchmarks/pairs.py A B --task mine.jsonl --controls self_refine self_consistency
    python benchmarks/pairs.py A B --task gsm8k --dry-run

Writes `results.json`, `table.md` and `report.html` into --out. Every reply is stored there as it
comes: the same command goes on after a kill and pays for nothing twice. See docs/benchmark.md.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agon_env.types import Reveal
from learners.agents import AgentError, AgentOptions, Decoding, make_agents
from learners.benchmark import Examples, Plan, Settings, estimate, make_plan, play, results_of
from learners.benchmark.page import page
from learners.benchmark.progress import Bar
from learners.benchmark.tables import markdown
from learners.benchmark.transcripts import transcripts
from learners.conditions import conditions


@dataclass(frozen=True)
class Args:
    """What to benchmark."""

    agents: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Two or more of hf:model, hf:path#adapter, run:folder#agent_0, vllm:model,
    openai:http://host:port/v1#model, completions:http://host:port/v1#base-model,
    scripted:module:function, human."""
    task: str
    """A name of `python -m agon_env.tasks`, or a file of problems."""
    n: int = 300
    """Most test problems."""
    n_validation: int = 100
    """Most validation problems, on which each pair's direction is chosen."""
    split: str | None = None
    """Of the test problems; default: "test", or all of a single file."""
    seeds: int = 3
    """Repetitions of everything."""
    controls: tuple[str, ...] = ()
    """Any of self_refine, self_cascade, self_consistency, best_of_k, best_of_k_judged, moa,
    self_moa, self_draft; or all."""
    k: int = 4
    """Samples of the controls that need several."""
    influence: bool = True
    """Also solve without the draft and with the draft of another problem."""
    reveal: Reveal = "summary"
    """What of a draft the solver sees."""
    examples: Examples = "auto"
    """Who is shown worked examples in place of a description of how to reply: base models, or all.
    For chat models that are too small to follow a description."""
    decoding: Decoding = field(default_factory=Decoding)
    """The same for all agents."""
    options: AgentOptions = field(default_factory=AgentOptions)
    """How agents run."""
    out: Path = Path("runs/pairs")
    """Folder of the replies and the results."""
    dry_run: bool = False
    """Print the plan, the number of generations and an estimate of the tokens; generate nothing.
    Loads no agent, so replies of `run:` agents, whose names hold a step, do not count as stored."""

    def settings(self) -> Settings:
        """What the library is asked."""
        from learners.benchmark.methods import CONTROLS

        return Settings(
            agents=self.agents,
            task=self.task,
            n=self.n,
            n_validation=self.n_validation,
            split=self.split,
            seeds=self.seeds,
            k=self.k,
            controls=CONTROLS if self.controls == ("all",) else self.controls,
            influence=self.influence,
            reveal=self.reveal,
            examples=self.examples,
            decoding=self.decoding,
            options=self.options,
        )


def show_plan(plan: Plan, out: Path, console: Console) -> None:
    """Print what would be generated."""
    for label, name in plan.labels.items():
        console.print(f"{label}: {name}", markup=False)
    sets = plan.sets
    console.print(
        f"{len(sets.test)} test problems ({sets.test_split}), {len(sets.validation)} validation "
        f"({sets.validation_split}), {plan.settings.seeds} seeds, {len(plan.methods)} methods"
    )
    rows = estimate(plan, out)
    table = Table("agent", "stage", "generations", "stored", "tokens still to come, about")
    for row in rows:
        cells = (str(row.generations), str(row.stored), f"{row.tokens:,.0f}")
        table.add_row(row.label, row.stage, *cells)
    total = (sum(r.generations for r in rows), sum(r.stored for r in rows))
    tokens = sum(row.tokens for row in rows)
    table.add_row("all", "", str(total[0]), str(total[1]), f"{tokens:,.0f}")
    console.print(table)


def benchmark(args: Args, console: Console) -> None:
    """Generate what is missing, count, and write the results."""
    settings = args.settings()
    if args.dry_run:
        show_plan(make_plan(settings, settings.agents), args.out, console)
        return
    agents = make_agents(settings.agents, settings.options)
    plan = make_plan(settings, [agent.name for agent in agents])
    start = time.perf_counter()
    with Bar(len(plan.jobs()), console, hidden="human" in settings.agents) as bar:
        played, prompts = play(plan, agents, args.out, progress=bar.update)
    spent = {"generated_now": bar.new, "wall_seconds": time.perf_counter() - start}
    results = results_of(plan, played, prompts, {**conditions(), **spent})
    text = markdown(results)
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.out / "table.md").write_text(text)
    (args.out / "report.html").write_text(
        page(results, transcripts(plan, played)), encoding="utf-8"
    )
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{bar.new} replies generated now, {len(played) - bar.new} were stored")
    console.print(f"wrote results.json, table.md and report.html in {args.out}", markup=False)


def main(args: Args) -> None:
    """Run, with one line for whatever stops it."""
    try:
        benchmark(args, Console())
    except AgentError as error:
        sys.exit(f"error: {error}\nAll replies so far are in {args.out}; the same command goes on.")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(f"stopped; all replies so far are in {args.out}, the same command goes on")


if __name__ == "__main__":
    main(tyro.cli(Args))
