"""Which replies a benchmark needs: one `Job` per generation, each with the replies it reads.

A job is a value: equal jobs are one generation, so whatever several methods share (the drafts, the
extra samples of a vote) is made once. Building the jobs needs no model, which is what `--dry-run`
prints. What a job asks is `prompts.py`; which methods there are is `methods.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from learners.seeds import stream_seed

Stage = Literal["solo", "solve", "unread", "other", "refine", "judge", "moa", "self_draft"]
"""solo: the plain prompt. solve: reads a draft. unread: a solver that is shown nothing of a draft.
other: reads the draft of another problem. refine: mends its own reply. judge: says whether a
reply is right. moa: reads several whole replies. self_draft: reads the best of its own."""


@dataclass(frozen=True)
class Job:
    """One reply of one agent."""

    agent: str
    """The agent's name, which says exactly what answers."""
    problem: str
    """Id of the problem."""
    stage: Stage
    seed: int
    """Repetition: 0, 1, ..."""
    sample: int = 0
    """Of several in one repetition, for votes and the best of k."""
    reads: tuple[Job, ...] = ()
    """The replies that the prompt shows something of."""

    @property
    def draft_key(self) -> str:
        """What it reads, as text; "" for nothing."""
        return " + ".join(
            f"{j.agent} {j.problem} {j.stage}#{j.sample} seed {j.seed}" for j in self.reads
        )

    @property
    def depth(self) -> int:
        """0: reads nothing; else one more than the deepest of what it reads."""
        return 1 + max((job.depth for job in self.reads), default=-1)

    def key(self, task: str) -> tuple[str, ...]:
        """Under which the reply is stored."""
        stage = f"{self.stage}#{self.sample}" if self.sample else self.stage
        return (self.agent, task, self.problem, stage, self.draft_key, str(self.seed))

    def stream(self, task: str) -> int:
        """Seed of its random numbers, its own for every key."""
        return stream_seed("benchmark", *self.key(task))


def solo(agent: str, problem: str, seed: int, sample: int = 0) -> Job:
    """The agent alone."""
    return Job(agent, problem, "solo", seed, sample)


def samples(agent: str, problem: str, seed: int, k: int) -> tuple[Job, ...]:
    """k attempts of the agent alone; the first is its `solo`."""
    return tuple(solo(agent, problem, seed, sample) for sample in range(k))


def solve(drafter: str, solver: str, problem: str, seed: int) -> Job:
    """The solver, reading the drafter's attempt."""
    return Job(solver, problem, "solve", seed, reads=(solo(drafter, problem, seed),))


def other(drafter: str, solver: str, problem: str, elsewhere: str, seed: int) -> Job:
    """The solver, reading the drafter's attempt at another problem."""
    return Job(solver, problem, "other", seed, reads=(solo(drafter, elsewhere, seed),))


def moa_proposals(agents: tuple[str, str], problem: str, seed: int, k: int) -> tuple[Job, ...]:
    """k attempts, by two agents in turn."""
    return tuple(solo(agents[i % 2], problem, seed, i // 2) for i in range(k))
