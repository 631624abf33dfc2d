"""Two policies and a task -> a trained pair: the loop of the paper, its checkpoints, its use.

One step: draw problems, play N matches on each (one model drafts, the other reads and solves), pay
both by the comparative reward, update both, and swap roles. `PairTrainer` is that loop with
evaluation, logging and resume; `Pair` is the trained cascade.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agon_env.prompts import template_for
from agon_env.records import episode_to_json
from agon_env.rules import Match
from agon_env.tasks import find_task, load_problems
from agon_env.tasks.sampler import ProblemSampler
from agon_env.types import AGENTS, AgentID, Problem, rival_of
from agon_env.vector import vector_env
from learners.config import PairConfig
from learners.engines import Engine, HFEngine, Sampling
from learners.evaluate import Evaluation, evaluate
from learners.grpo import GRPO
from learners.monitor import Monitor
from learners.policy import Policy, policy_pair
from learners.rollout import Player, Rollout, play
from learners.run_folder import (
    EPISODES,
    EVALUATIONS,
    METRICS,
    RunFolder,
    load_tensors,
    save_tensors,
    step_of,
)
from learners.seeds import stream_seed
from learners.step_metrics import rollout_metrics


class PairTrainer:
    """Trains two policies against each other and keeps everything in a run folder."""

    def __init__(self, config: PairConfig, run: str | Path) -> None:
        """Start a new run.

        Args:
            config: What to do.
            run: Folder to write; must not hold a run yet.

        Raises:
            ValueError: Unknown task or model; one line that says what to do.
            FileExistsError: The folder holds a run.
        """
        self.config = config
        self.folder = RunFolder(run)
        self._prepare()
        self.folder.create(config.to_dict())

    @classmethod
    def resume(cls, run: str | Path) -> PairTrainer:
        """Continue a run from its newest checkpoint, or from its start if there is none.

        Raises:
            FileNotFoundError: The folder holds no run.
            ValueError: The newest checkpoint is damaged.
        """
        trainer = cls.__new__(cls)
        trainer.folder = RunFolder(run)
        trainer.config = PairConfig.from_dict(trainer.folder.config())
        trainer.folder.lock()
        trainer._prepare()
        checkpoint = trainer.folder.latest_checkpoint()
        if checkpoint is not None:
            trainer._load(checkpoint)
        trainer.folder.rewind(trainer.step)
        return trainer

    def _prepare(self) -> None:
        config = self.config
        task = config.task
        train = load_problems(task, split="train", limit=config.train_problems, seed=config.seed)
        held_out = {
            "validation": load_problems(task, split="validation", limit=config.validation_problems),
            "test": load_problems(task, split="test", limit=config.test_problems),
        }
        self.problems: dict[str, list[Problem]] = {"train": train, **held_out}
        self.envs = {
            split: vector_env(
                task,
                problems=problems,
                seed=config.seed,
                reward=config.reward,
                reveal=config.reveal,
            )
            for split, problems in self.problems.items()
        }
        self.sampler = ProblemSampler(train, config.problems_per_step, seed=config.seed)
        self.players = players_of(config)
        self.learners = {
            agent: GRPO(
                player.policy,
                config.grpo,
                total_steps=config.steps,
                temperature=config.sampling.temperature,
                max_new_tokens=config.sampling.max_new_tokens,
                seed=stream_seed(config.seed, agent),
            )
            for agent, player in self.players.items()
        }
        self.step = 0

    def train(self, monitor: Monitor | None = None) -> Evaluation:
        """Run the steps that remain; returns the evaluation on the test problems.

        Raises:
            FloatingPointError: A loss or gradient is not finite; the message names the last
                checkpoint.
        """
        monitor = monitor or Monitor()
        with monitor:
            if self.step == 0:
                self.evaluate("test", monitor)
                self.evaluate("validation", monitor)
            advance = monitor.stage("train", self.config.steps)
            while self.step < self.config.steps:
                monitor.step(self.train_step())
                advance(self.step, self.config.steps)
                last = self.step == self.config.steps
                if last or _due(self.step, self.config.eval_every):
                    self.evaluate("validation", monitor)
                    advance = monitor.stage("train", self.config.steps)
                if last or _due(self.step, self.config.checkpoint_every):
                    self.save()
            result = self.evaluate("test", monitor)
        self.close()
        return result

    def train_step(self) -> dict[str, float]:
        """One step of the paper: play, reward, update both; returns and logs the metrics.

        Raises:
            FloatingPointError: Logits, a loss or a gradient are not finite (pitfall 39).
        """
        try:
            metrics, rollout = self._play_and_update()
        except FloatingPointError as error:
            saved = self.folder.checkpoints()
            where = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint yet"
            raise FloatingPointError(f"step {self.step}: {error}; {where}") from error
        self.step += 1
        metrics["step"] = self.step
        self.folder.append(METRICS, metrics)
        self._store_transcripts(rollout)
        return metrics

    def _play_and_update(self) -> tuple[dict[str, float], Rollout]:
        config, started = self.config, time.perf_counter()
        problems = self.sampler.next_batch()
        ids = [problem.id for problem in problems for _ in range(config.samples)]
        rollout = play(
            self.envs["train"],
            self.players,
            ids,
            seating=self._seating(),
            step=self.step,
            seed=stream_seed(config.seed, "rollout", self.step),
        )
        played = time.perf_counter()
        metrics = rollout_metrics(rollout)
        for agent, learner in self.learners.items():
            update = learner.update(rollout.of(agent))
            metrics |= {f"{agent}/{key}": value for key, value in update.items()}
        now = time.perf_counter()
        metrics |= {
            "seconds/rollout": played - started,
            "seconds/update": now - played,
            "seconds/step": now - started,
        }
        return metrics, rollout

    def evaluate(self, split: str, monitor: Monitor) -> Evaluation:
        """Evaluate on held-out problems; an evaluation of this step is not made twice."""
        for line in self.folder.lines(EVALUATIONS):
            if (line["step"], line["split"]) == (self.step, split):
                return Evaluation.from_dict(line["evaluation"])
        problems = self.problems[split]
        result = evaluate(
            self.players,
            self.envs[split],
            problems,
            seed=stream_seed(self.config.seed, "evaluate", split),
            progress=monitor.stage(f"evaluate on {split}", len(problems)),
        )
        line = {"step": self.step, "split": split, "evaluation": result.to_dict()}
        self.folder.append(EVALUATIONS, line)
        monitor.evaluation(self.step, split, result)
        return result

    def close(self) -> None:
        """Release the run's folder; the trainer must not be used to train afterwards."""
        self.folder.unlock()

    def save(self) -> Path:
        """Write a checkpoint of the state after the last step."""
        return self.folder.save_checkpoint(self.step, self._write, self.config.keep_checkpoints)

    def _seating(self) -> str:
        if self.config.rotation == "both":
            return "both"
        return AGENTS[self.step % 2 if self.config.rotation == "step" else 0]

    def _write(self, folder: Path) -> None:
        for agent, player in self.players.items():
            player.policy.save(folder / agent)
        state = {
            "step": self.step,
            "sampler": self.sampler.state_dict(),
            "learners": {agent: learner.state_dict() for agent, learner in self.learners.items()},
            "torch_rng": torch.get_rng_state(),
        }
        save_tensors(state, folder / "trainer.pt")
        (folder / "config.json").write_text(json.dumps(self.config.to_dict(), indent=2))

    def _load(self, checkpoint: Path) -> None:
        state = load_tensors(checkpoint / "trainer.pt")
        for agent, player in self.players.items():
            player.policy.load_weights(checkpoint / agent)
            self.learners[agent].load_state_dict(state["learners"][agent])
        self.sampler.load_state_dict(state["sampler"])
        torch.set_rng_state(state["torch_rng"])
        self.step = state["step"]

    def _store_transcripts(self, rollout: Rollout) -> None:
        """Keep a few whole episodes of the step, spread over its problems."""
        keep, episodes = self.config.transcripts_per_step, rollout.episodes
        stride = max(1, len(episodes) // max(keep, 1))
        for episode in episodes[::stride][:keep]:
            line = json.loads(episode_to_json(episode, {"step": self.step}))
            self.folder.append(EPISODES, line)


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
    def load(cls, run: str | Path, *, drafter: AgentID | None = None) -> Pair:
        """Load a run's newest checkpoint.

        Args:
            run: Folder that `PairTrainer` wrote.
            drafter: Who drafts; None takes the direction that was better on validation.

        Raises:
            FileNotFoundError: The folder holds no run, or the run has no checkpoint yet.
        """
        folder = RunFolder(run)
        config = PairConfig.from_dict(folder.config())
        checkpoint = folder.latest_checkpoint()
        if checkpoint is None:
            raise FileNotFoundError(f"{run} has no checkpoint yet; train it first")
        players = players_of(config)
        for agent, player in players.items():
            player.policy.load_weights(checkpoint / agent)
        if drafter is None:
            drafter = chosen_drafter(folder, step_of(checkpoint))
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


def players_of(config: PairConfig, engine: Engine | None = None) -> dict[AgentID, Player]:
    """The two players that a config describes, untrained."""
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    policies: tuple[Policy, Policy] = policy_pair(
        config.models,
        lora=config.lora,
        noise=config.adapter_noise,
        seed=config.seed,
        dtype=config.dtype,
        device=device,
    )
    sampling: Sampling = config.sampling
    return {
        agent: Player(policy, engine or HFEngine(), sampling)
        for agent, policy in zip(AGENTS, policies, strict=True)
    }


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
        raise ValueError(f"{folder.path} has no validation result; pass drafter='agent_0'")
    return Evaluation.from_dict(found["evaluation"]).best_direction.drafter


def _answer_of(match: Match) -> Answer:
    draft, solution = match.turns
    reply = match.template.read(match.problem, solution.reply)
    return Answer(text=reply.answer or "", draft=draft.reply, solution=solution.reply)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
