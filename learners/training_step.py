"""One step of the paper: draw problems, play them, pay both, update both -> metrics and episodes.

The only state it changes is that of its arguments: the sampler's position, the learners and the
weights. Everything random is keyed by the run's seed and the number of the step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from agon_env.tasks.sampler import ProblemSampler
from agon_env.types import AGENTS, AgentID, Problem
from agon_env.vector import vector_env
from learners import processes
from learners.concurrency import are_independent, run_jobs
from learners.config import PairConfig
from learners.learner import Learner, make_learner
from learners.refill import refilled
from learners.rollout import Player, Rollout, play
from learners.schedule import plan_step, trains
from learners.seeds import stream_seed
from learners.step_metrics import rollout_metrics
from learners.update_config import Horizon

Players = Mapping[AgentID, Player]
Learners = Mapping[AgentID, Learner]


def make_learners(config: PairConfig, players: Players) -> dict[AgentID, Learner]:
    """A learner for every policy that trains: two, or one where both seats are one model."""
    return {
        agent: make_learner(
            config.learner_names[AGENTS.index(agent)],
            players[agent].policy,
            config.learner_configs,
            Horizon(
                total_steps=config.steps,
                temperature=config.sampling.temperature,
                max_new_tokens=config.sampling.max_new_tokens,
                seed=stream_seed(config.seed, agent),
            ),
        )
        for agent in _seats_of(config)
    }


@dataclass(frozen=True)
class Played:
    """The matches of a step."""

    rollout: Rollout
    metrics: dict[str, float]
    seconds: float
    """That playing took."""


def play_step(
    config: PairConfig, env: vector_env, players: Players, sampler: ProblemSampler, step: int
) -> Played:
    """Draw the problems of a step and play them.

    Raises:
        FloatingPointError: Logits are not finite (pitfall 15).
    """
    started = time.perf_counter()

    def play_some(problems: Sequence[Problem], refill_round: int) -> Rollout:
        return _play(config, env, players, problems, step, refill_round)

    first = play_some(sampler.next_batch(), 0)
    rollout, refill = refilled(first, config.refill_rounds, sampler.next_batch, play_some)
    return Played(rollout, rollout_metrics(rollout) | refill, time.perf_counter() - started)


def update_step(
    config: PairConfig, players: Players, learners: Learners, played: Played, step: int
) -> dict[str, float]:
    """Train on what was played; returns the metrics of both.

    Raises:
        FloatingPointError: A loss or a gradient is not finite (pitfall 39).
    """
    started = time.perf_counter()
    metrics = played.metrics | _update(config, players, learners, played.rollout, step)
    seconds = time.perf_counter() - started
    return metrics | {"seconds/rollout": played.seconds, "seconds/update": seconds}


def _seats_of(config: PairConfig) -> dict[AgentID, tuple[AgentID, ...]]:
    """Who has a learner -> the seats that it learns from."""
    if config.regime == "self":
        return {AGENTS[0]: AGENTS}
    return {agent: (agent,) for agent in AGENTS}


def _play(
    config: PairConfig,
    env: vector_env,
    players: Players,
    problems: Sequence[Problem],
    step: int,
    refill_round: int,
) -> Rollout:
    plan = plan_step(
        [problem.id for problem in problems],
        step,
        samples=config.samples,
        rotation=config.rotation,
        regime=config.regime,
        shared_draft=config.shared_draft,
    )
    key = (config.seed, "rollout", step, *([refill_round] if refill_round else []))
    return play(env, players, plan, step=step, seed=stream_seed(*key))


def _update(
    config: PairConfig, players: Players, learners: Learners, rollout: Rollout, step: int
) -> dict[str, float]:
    """Train every agent that is due on what its seats sampled; the others' schedules move on."""
    seats_of = _seats_of(config)
    due = [a for a in learners if trains(AGENTS.index(a), step, config.alternate_every)]
    policies = {agent: players[agent].policy for agent in due}
    before = {agent: policy.fingerprint() for agent, policy in policies.items()}
    jobs = []
    for agent, learner in learners.items():
        seats = seats_of[agent] if agent in due else ()
        jobs.append(partial(learner.update, [t for seat in seats for t in rollout.of(seat)]))
    apart = processes.count() == 1 and are_independent(*(players[a].policy for a in AGENTS))
    metrics: dict[str, float] = {}
    for agent, update in zip(learners, run_jobs(jobs, side_by_side=apart), strict=True):
        metrics |= {f"{agent}/{key}": value for key, value in update.items()}
    for agent, policy in policies.items():
        moved = not torch.equal(before[agent], policy.fingerprint())
        metrics[f"{agent}/moved"] = float(moved)
    return metrics
