"""Our step, measured: the trainer's own code with a stopwatch, and completions that never end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from agon_env.rewards import Play
from agon_env.tasks import load_problems
from agon_env.tasks.sampler import ProblemSampler
from agon_env.types import AGENTS, AgentID
from agon_env.vector import vector_env
from learners.cascade import players_of
from learners.engines import Completion, VLLMEngine
from learners.policy import Prompt
from learners.rollout import Player, Rollout
from learners.throughput.memory_peak import peak_mib, resident_mib, start_peak
from learners.throughput.records import Measured, Prompts, Step, Work
from learners.training_step import make_learners, play_step, update_step

NEVER = -1
"""A stop id that no model samples."""

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, are spread evenly and never repeat."""


class UnequalReward:
    """Another number in [0, 1) at each call, so that no completion is without an advantage.

    Whatever was said: equal replies would make a constant group. The verdict of a play was made and
    is not looked at.
    """

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, play: Play | None = None) -> float:
        self._calls += 1
        return self._calls * GOLDEN % 1


@dataclass
class Log:
    """What a player was asked, and how long it took."""

    seconds: float = 0.0
    chats: list[list[dict[str, str]]] = field(default_factory=list)


@dataclass(frozen=True)
class LoggedPlayer(Player):
    """A player with a stopwatch."""

    log: Log

    def reply(
        self, messages: Sequence[Sequence[Mapping[str, str]]], seed: int, first: int = 0
    ) -> list[tuple[Prompt, Completion, str]]:
        """As `Player.reply`."""
        started = time.perf_counter()
        replies = super().reply(messages, seed, first)
        self.log.seconds += time.perf_counter() - started
        self.log.chats += [[dict(message) for message in chat] for chat in messages]
        return replies


def run_ours(work: Work, *, alone: bool = False, profiled: bool = False) -> Measured:
    """Step on one work.

    Args:
        work: What to do.
        alone: One model with one adapter plays both seats and trains on the first's completions:
            the same batches with half of the trained weights.
        profiled: Profile one more step.
    """
    config, imports = work.config(), resident_mib(work.device)
    kept = replace(config, regime="self") if alone else config
    players = {agent: _logged(player) for agent, player in players_of(kept).items()}
    learners = make_learners(kept, players)
    problems = load_problems(config.task, split="train", limit=1000, seed=config.seed)
    env = vector_env(config.task, problems=problems, seed=config.seed, reward=UnequalReward())
    sampler = ProblemSampler(problems, config.problems_per_step, seed=config.seed)
    prompts: Prompts = {agent: [] for agent in AGENTS}

    def step(number: int) -> Step:
        logs = {agent: player.log for agent, player in players.items()}
        for log in logs.values():
            log.seconds, log.chats = 0.0, []
        started = time.perf_counter()
        played = play_step(config, env, players, sampler, number)
        metrics = update_step(config, players, learners, played, number)
        metrics["seconds/step"] = time.perf_counter() - started
        _check_all_trained(metrics, learners)
        _note_prompts(prompts, played.rollout, logs)
        return _step_of(metrics, played.rollout, sum(log.seconds for log in logs.values()))

    start_peak(work.device)
    steps = tuple(step(number) for number in range(config.steps))[work.warmup :]
    return Measured(
        contender="one of ours" if alone else "ours",
        steps=steps,
        peak_mib=peak_mib(work.device),
        imports_mib=imports,
        threads=torch.get_num_threads(),
        prompts={agent: list(asked) for agent, asked in prompts.items()},
        profile=_profile(work, lambda: step(config.steps)) if profiled else "",
    )


def _logged(player: Player) -> LoggedPlayer:
    if player.policy.tokenizer.pad_token_id is None:  # else the stop id would fill batches
        player.policy.tokenizer.pad_token = player.policy.tokenizer.eos_token
    player.policy.stop_ids = (NEVER,)
    if isinstance(player.engine, VLLMEngine):
        _never_stop(player.engine)
    return LoggedPlayer(player.policy, player.engine, player.sampling, Log())


def _never_stop(engine: VLLMEngine) -> None:
    inner = engine._parameters

    def parameters(*args: Any) -> Any:
        asked = inner(*args)
        asked.stop_token_ids, asked.ignore_eos = [], True
        return asked

    engine._parameters = parameters  # pyright: ignore[reportAttributeAccessIssue]


def _note_prompts(prompts: Prompts, rollout: Rollout, logs: Mapping[AgentID, Log]) -> None:
    for agent, steps in prompts.items():
        ids = [trajectory.group[1] for trajectory in rollout.of(agent)]
        steps.append(list(zip(ids, logs[agent].chats, strict=True)))


def _check_all_trained(metrics: Mapping[str, float], agents: Iterable[AgentID]) -> None:
    """A completion without a gradient would be work that others did and we did not."""
    shares = {agent: metrics[f"{agent}/trained_share"] for agent in agents}
    if any(share < 1 for share in shares.values()):
        raise ValueError(f"every completion must be trained on, got the shares {shares}")


def _step_of(metrics: Mapping[str, float], rollout: Rollout, generation_s: float) -> Step:
    return Step(
        rows=len(rollout.trajectories),
        prompt_tokens=sum(len(t.prompt_ids) for t in rollout.trajectories),
        new_tokens=sum(len(t.completion_ids) for t in rollout.trajectories),
        generation_s=generation_s,
        judging_s=metrics["seconds/rollout"] - generation_s,
        update_s=metrics["seconds/update"],
        step_s=metrics["seconds/step"],
    )


def _profile(work: Work, step: Any) -> str:
    """The operations that took longest in one more step."""
    cuda = work.device.startswith("cuda")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as profiler:
        done: Step = step()
    key = "self_device_time_total" if cuda else "self_cpu_time_total"
    table = profiler.key_averages().table(sort_by=key, row_limit=12, max_name_column_width=40)
    phases = (done.generation_s, done.judging_s, done.update_s)
    shares = [f"{seconds / done.step_s:.0%}" for seconds in phases]
    return "generation {}, judging {}, update {}\n".format(*shares) + table
