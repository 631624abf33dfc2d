"""A memory plan -> what is printed, and the length of a task's prompts, for which it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.table import Table

from agon_env.tasks import load_problems
from agon_env.types import AGENTS
from learners.chat import render
from learners.config import PairConfig
from learners.memory import KNOBS, MemoryPlan, rows_of
from learners.models import load_tokenizer
from learners.prompt_lengths import LOOKED_AT, longest_prompt

MIB = 2**20


def prompt_of(config: PairConfig) -> int:
    """Tokens of the longest of some drafters' prompts of the task, for the longer tokenizer."""
    problems = load_problems(config.task, split="train", limit=LOOKED_AT, seed=config.seed)
    tokenizers = [load_tokenizer(name) for name in dict.fromkeys(config.models)]
    lengths = [lambda chat, one=one: len(render(one, chat, {}).ids) for one in tokenizers]
    return longest_prompt(config, problems, lengths)


def plan_tables(plan: MemoryPlan, config: PairConfig, prompt: int) -> Sequence[RenderableType]:
    """The agents' parts, the sums for both engines, and what can be turned."""
    parts = [rows_of(agent) for agent in plan.agents]
    agents = Table("MiB in each process", *AGENTS[: len(parts)], "sum")
    for name in parts[0]:
        values = [part[name] for part in parts]
        agents.add_row(name, *(_mib(value) for value in (*values, sum(values))))
    engines = ("hf",) if config.apart else ("hf", "vllm")
    sums = Table("MiB in each process", *engines)
    for place, part in _places(plan, config).items():
        held = {"hf": part.held, "vllm": part.held + part.vllm}
        sums.add_row(f"held through the run{place}", *(_mib(held[name]) for name in engines))
        sums.add_row(f"peak{place}", *(_mib(part.peak(name)) for name in engines))
    if "vllm" in engines:
        sums.add_row("more, to have all completions under way", "", _mib(plan.vllm_queue))
    size = plan.size
    work = (
        f"{size.completions} completions and at most {size.tokens:,} tokens a step; prompts of "
        f"{prompt} tokens, at most {size.longest} with draft and completion; "
        f'engine "{config.engine}"'
    )
    knobs = Table("too much of", "turn")
    for name, options in KNOBS.items():
        knobs.add_row(name, options)
    return [agents, sums, work, knobs]


def _places(plan: MemoryPlan, config: PairConfig) -> dict[str, MemoryPlan]:
    """What is added to a row's name -> the plan of what is there together."""
    if not config.apart:
        return {"": plan}
    pairs = zip(plan.agents, AGENTS, config.devices, strict=True)
    return {f", {who} on {where}": replace(plan, agents=(one,)) for one, who, where in pairs}


def _mib(count: int) -> str:
    return f"{count / MIB:,.1f}"
