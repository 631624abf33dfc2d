"""A trained pair as a two-stage cascade: one model drafts, the other reads and answers.

Loads what `PairTrainer` wrote and plays the game's own rules, so a deployed solver sees exactly the
prompts it was trained on. Cost: two generations per question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from agon_env.prompts import template_for
from agon_env.rules import Match
from agon_env.tasks import find_task
from agon_env.types import AGENTS, AgentID, Problem, rival_of
from learners.config import PairConfig
from learners.engines import Engine, HFEngine, VLLMEngine, VLLMServerEngine
from learners.evaluate import Evaluation
from learners.policy import policy_pair, single_policy
from learners.rollout import Player
from learners.run_folder import EVALUATIONS, RunFolder, step_of
from learners.seeds import stream_seed


@dataclass(frozen=True)
class Answer:
    """What the cascade said about one question."""

    text: str
    """The final answer as read from the solution; "" when it has none."""
    draft: str
    """The drafter's whole reply."""
    solution: str
    """The solver's whole reply."""


class Pair:
    """A trained pair as a two-stage cascade: one model drafts, the other reads and answers."""

    def __init__(
        self, players: Mapping[AgentID, Player], drafter: AgentID, config: PairConfig
    ) -> None:
        self.players, self.drafter, self.config = players, drafter, config

    @classmethod
    def load(
        cls,
        run: str | Path,
        *,
        drafter: AgentID | None = None,
        checkpoint: Literal["newest", "best"] = "newest",
    ) -> Pair:
        """Load a checkpoint of a run.

        Args:
            run: Folder that `PairTrainer` wrote.
            checkpoint: The newest, or the one with the best validation result.
            drafter: Who drafts; None takes the direction that was better on validation.

        Raises:
            FileNotFoundError: The folder holds no run, or the run has no checkpoint yet.
        """
        folder = RunFolder(run)
        config = PairConfig.from_dict(folder.config())
        step = best_step(folder) if checkpoint == "best" else None
        found = folder.checkpoint(step)
        if found is None:
            raise FileNotFoundError(f"{run} has no checkpoint yet; train it first")
        players = players_of(config)
        for agent, player in players.items():
            player.policy.load_weights(found / agent)
        if drafter is None:
            drafter = chosen_drafter(folder, step_of(found))
        rival_of(drafter)  # refuses an unknown id
        return cls(players, drafter, config)

    def answer(self, question: str, *, seed: int = 0) -> Answer:
        """Answer one question."""
        return self.batch([question], seed=seed)[0]

    def batch(self, questions: Sequence[str], *, seed: int = 0) -> list[Answer]:
        """Answer several questions at once.

        Args:
            questions: Texts as the task asks them.
            seed: Seeds the sampling; the same seed gives the same answers.
        """
        task = find_task(self.config.task)
        problems = [
            Problem(id=str(i), question=question, answer="", verifier=task.verifier)
            for i, question in enumerate(questions)
        ]
        matches = [
            Match(p, (self.drafter,), task.template or template_for(p), self.config.reveal)
            for p in problems
        ]
        for number, agent in enumerate((self.drafter, rival_of(self.drafter))):
            chats = [match.template.messages(match.observe(agent)) for match in matches]
            replies = self.players[agent].reply(chats, stream_seed(seed, number))
            matches = [
                match.play(agent, text)
                for match, (_, _, text) in zip(matches, replies, strict=True)
            ]
        return [_answer_of(match) for match in matches]


def players_of(config: PairConfig) -> dict[AgentID, Player]:
    """The two players that a config describes, untrained.

    Raises:
        ConnectionError: A generation server does not answer.
        ValueError: The device is not there, a model cannot be loaded, or no server has it.
    """
    first, second = (_usable(name) for name in config.devices)
    settings = {"lora": config.lora, "seed": config.seed, "dtype": config.dtype}
    if config.regime == "self":
        policies = (single_policy(config.models[0], device=first, **settings),) * 2
    else:
        devices = first if config.shares_base else (first, second)
        noise = config.adapter_noise
        policies = policy_pair(config.models, noise=noise, device=devices, **settings)
    return {
        agent: Player(policy, engine, config.sampling)
        for agent, policy, engine in zip(AGENTS, policies, _engines_of(config), strict=True)
    }


def _usable(device: str) -> str:
    """The device itself; of "auto" what is there."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # unknown name, or no such hardware
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device {device!r} cannot be used here: {reason} | choose auto, cpu, or, where "
            "there is a GPU, cuda or cuda:N"
        ) from error
    return device


def _engines_of(config: PairConfig) -> tuple[Engine, Engine]:
    """The engines of both agents; one vLLM serves both where they have the same base, unless they
    work side by side."""
    if config.engine == "hf":
        return HFEngine(), HFEngine()
    first, second = config.models
    engine = _vllm_of(first, config)
    together = first == second and not config.apart
    return engine, engine if together else _vllm_of(second, config)


def _vllm_of(name: str, config: PairConfig) -> Engine:
    if config.engine == "vllm-server":
        return VLLMServerEngine(name, config.vllm_server)
    rank = config.lora.rank if config.lora else 0
    return VLLMEngine(name, config.vllm, lora_rank=rank, dtype=config.dtype)


def chosen_drafter(folder: RunFolder, step: int) -> AgentID:
    """Who drafts in the direction that was better on validation, up to this step.

    Raises:
        ValueError: The run has no validation result up to that step.
    """
    found: dict[str, Any] | None = None
    for line in folder.lines(EVALUATIONS):
        if line["split"] == "validation" and line["step"] <= step:
            found = line
    if found is None:
        raise ValueError(
            f"{folder.path} has no validation result up to step {step}, so no direction was "
            "chosen; finish the run, or load it with drafter='agent_0' or 'agent_1'"
        )
    return Evaluation.from_dict(found["evaluation"]).best_direction.drafter


def best_step(folder: RunFolder) -> int | None:
    """The step with the best cascade on validation, the earliest of equals; None without any.

    The untrained pair has no checkpoint: it counts only where nothing was trained.
    """
    results = {
        line["step"]: Evaluation.from_dict(line["evaluation"])
        for line in folder.lines(EVALUATIONS)
        if line["split"] == "validation"
    }
    if not results:
        return None
    if len(results) > 1:
        results.pop(0, None)
    return max(results, key=lambda s: (_share_right(results[s]), -s))


def _share_right(evaluation: Evaluation) -> float:
    correct = evaluation.best_direction.solution.correct
    return correct.k / max(correct.n, 1)


def _answer_of(match: Match) -> Answer:
    draft, solution = match.turns
    reply = match.template.read(match.problem, solution.reply)
    return Answer(text=reply.answer or "", draft=draft.reply, solution=solution.reply)
