"""A benchmark from its settings to its replies: the plan, what it will cost, and playing it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agon_env.judging import Judging
from agon_env.types import Problem, Reveal
from learners.agents import Agent, AgentOptions, Decoding
from learners.benchmark.jobs import Job
from learners.benchmark.methods import CONTROLS, Method, all_methods, cascade
from learners.benchmark.problems import ProblemSets, load_sets
from learners.benchmark.prompts import Prompts
from learners.benchmark.runner import Played, Progress, Runner
from learners.benchmark.store import FIELDS, Store, peek, token_means
from learners.checks import check_fields
from learners.seeds import stream_seed

STORE = "generations.jsonl"
Examples = Literal["auto", "all"]
LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Settings:
    """What is benchmarked."""

    agents: tuple[str, ...]
    """Agents as strings, see `learners.agents`."""
    task: str
    """A name of `agon_env.tasks()` or a file of problems."""
    n: int = 300
    """Most test problems."""
    n_validation: int = 100
    """Most validation problems, on which the direction of each pair is chosen."""
    split: str | None = None
    """Of the test problems; None: "test", or all of a single file."""
    seeds: int = 3
    """Repetitions of everything."""
    k: int = 4
    """Samples of the controls that need several."""
    controls: tuple[str, ...] = ()
    """Which of `CONTROLS`."""
    influence: bool = True
    """Also let solvers read nothing, and a draft of another problem."""
    reveal: Reveal = "summary"
    """What of a draft a solver sees."""
    examples: Examples = "auto"
    """Who is shown worked examples in place of a description of the form: "auto", base models;
    "all", every agent. A task whose prompt shows examples already shows them to all."""
    decoding: Decoding = field(default_factory=Decoding)
    """The same for all agents."""
    options: AgentOptions = field(default_factory=AgentOptions)
    """How agents run."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 2 <= len(self.agents) <= len(LABELS):
            raise ValueError(f"name 2 to {len(LABELS)} agents, got {len(self.agents)}")
        if self.seeds < 1 or self.k < 2:
            raise ValueError(f"seeds must be at least 1 and k 2, got {self.seeds} and {self.k}")
        if unknown := sorted(set(self.controls) - set(CONTROLS)):
            raise ValueError(f"unknown controls {unknown}; choose from {list(CONTROLS)}")


@dataclass(frozen=True)
class Plan:
    """Every job of a benchmark, before anything is generated."""

    settings: Settings
    sets: ProblemSets
    labels: Mapping[str, str]
    """Label (A, B, ...) -> name of the agent."""
    methods: tuple[Method, ...]
    """On the test problems."""
    elsewhere: Mapping[str, str]
    """Test problem -> the one whose draft is shown in its place; empty with less than two."""

    @property
    def directions(self) -> list[Method]:
        """The cascades, which also play the validation problems."""
        return [cascade(self.labels, d, s) for d in self.labels for s in self.labels if d != s]

    @property
    def seeds(self) -> range:
        """Repetitions."""
        return range(self.settings.seeds)

    def jobs(self) -> list[Job]:
        """All generations, each once."""
        test = self._jobs_of(self.methods, self.sets.test)
        return list(dict.fromkeys(test + self._jobs_of(self.directions, self.sets.validation)))

    def _jobs_of(self, methods: Sequence[Method], problems: Sequence[Problem]) -> list[Job]:
        return [
            job
            for method in methods
            for problem in problems
            for seed in self.seeds
            for job in method.jobs(problem.id, seed)
        ]


def make_plan(settings: Settings, names: Sequence[str]) -> Plan:
    """Load the problems and list the methods.

    Args:
        settings: What is benchmarked.
        names: Of the agents, which may say more than their strings (a checkpoint's step).
    """
    sets = load_sets(settings.task, settings.n, settings.n_validation, settings.split)
    labels = dict(zip(LABELS, names, strict=False))
    elsewhere = _others(sets.test) if settings.influence else {}
    methods = all_methods(labels, k=settings.k, controls=settings.controls, elsewhere=elsewhere)
    if not settings.influence:
        methods = [method for method in methods if method.kind != "influence"]
    return Plan(settings, sets, labels, tuple(methods), elsewhere)


def play(
    plan: Plan,
    agents: Sequence[Agent],
    out: Path,
    *,
    judging: Judging | None = None,
    progress: Progress | None = None,
) -> tuple[dict[Job, Played], Prompts]:
    """Generate what the store does not hold yet, and judge everything.

    Raises:
        AgentError: An agent cannot go on; all replies so far are in the store.
    """
    problems = {problem.id: problem for problem in plan.sets.all}
    everyone = plan.settings.examples == "all"
    shown = {agent.name for agent in agents if everyone or agent.needs_examples}
    prompts = Prompts(problems, plan.sets.template, plan.settings.reveal, shown)
    with Store(out / STORE) as store:
        runner = Runner(
            {agent.name: agent for agent in agents},
            prompts,
            store,
            task=plan.settings.task,
            decoding=plan.settings.decoding,
            judging=judging,
            progress=progress,
        )
        return runner.run(plan.jobs()), prompts


@dataclass(frozen=True)
class Estimated:
    """What one agent still has to write at one stage, as `--dry-run` shows it."""

    label: str
    stage: str
    generations: int
    stored: int
    """Of them in the store already, by their keys."""
    tokens: float
    """Prompt and completion tokens of those that miss."""


def estimate(plan: Plan, out: Path) -> list[Estimated]:
    """Generations and tokens of a plan, without an agent.

    Tokens are the means of what the store holds for that agent and stage; else a guess: a quarter
    of the question's characters, half of the length limit per reply, and as much per reply read.
    """
    lines = peek(out / STORE)
    means = token_means(lines)
    stored = {tuple(line[name] for name in FIELDS) for line in lines}
    label_of = {name: label for label, name in reversed(list(plan.labels.items()))}
    questions = {problem.id: len(problem.question) / 4 for problem in plan.sets.all}
    guess = plan.settings.decoding.max_new_tokens / 2
    found: dict[tuple[str, str], list[float]] = {}
    for job in plan.jobs():
        entry = found.setdefault((label_of[job.agent], job.stage), [0, 0, 0])
        entry[0] += 1
        if job.key(plan.settings.task) in stored:
            entry[1] += 1
            continue
        default = (questions[job.problem] + 60 + guess * len(job.reads), guess)
        entry[2] += sum(means.get((job.agent, job.stage), default))
    return [
        Estimated(label, stage, int(n), int(have), tokens)
        for (label, stage), (n, have, tokens) in found.items()
    ]


def _others(problems: Sequence[Problem]) -> dict[str, str]:
    """Each problem -> another one, in a fixed random circle."""
    ids = [problem.id for problem in problems]
    if len(ids) < 2:
        return {}
    random.Random(stream_seed("elsewhere")).shuffle(ids)
    return dict(zip(ids, [*ids[1:], ids[0]], strict=True))
