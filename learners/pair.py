"""Two policies and a task -> a trained pair: the loop of the paper and its checkpoints.

One step: draw problems, play N matches on each (one model drafts, the other reads and solves), pay
both by the comparative reward, update both, and swap roles. `PairTrainer` is that loop with
evaluation, logging and resume; `cascade.Pair` is its result in use. Started by `accelerate launch`,
several processes run the same loop and share its work (see `processes.py`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from agon_env.records import episode_to_json
from agon_env.tasks import load_problems
from agon_env.tasks.sampler import ProblemSampler
from agon_env.types import Problem
from agon_env.vector import vector_env
from learners import processes, sharding
from learners.ahead import Ahead
from learners.alarms import alarms
from learners.cascade import Pair, best_step, chosen_drafter, players_of
from learners.config import PairConfig
from learners.evaluate import Evaluation, evaluate
from learners.monitor import Monitor
from learners.prompt_lengths import check_prompts_fit
from learners.rollout import Rollout
from learners.run_folder import (
    ALARMS,
    EPISODES,
    EVALUATIONS,
    METRICS,
    RunFolder,
    load_tensors,
    save_tensors,
)
from learners.seeds import stream_seed
from learners.training_step import Played, make_learners, play_step, update_step


class PairTrainer:
    """Trains two policies against each other and keeps everything in a run folder."""

    def __init__(self, config: PairConfig, run: str | Path) -> None:
        """Start a new run.

        Args:
            config: What to do.
            run: Folder to write; must not hold a run yet.

        Raises:
            ValueError: Unknown task or model, or prompts that do not fit into a model's context;
                one line that says what to do.
            FileExistsError: The folder holds a run.
        """
        self.config = config
        processes.connect(config.device)
        self.folder = RunFolder(run, shared=processes.count() > 1)
        self.folder.refuse_existing()
        self._prepare()
        processes.main_first(partial(check_prompts_fit, config, self.problems, self.players))
        self.folder.create(config.to_dict())

    @classmethod
    def resume(cls, run: str | Path) -> PairTrainer:
        """Continue a run from its newest checkpoint, or from its start if there is none.

        Raises:
            FileNotFoundError: The folder holds no run.
            ValueError: The newest checkpoint is damaged.
        """
        trainer = cls.__new__(cls)
        trainer.config = PairConfig.from_dict(RunFolder(run).config())
        processes.connect(trainer.config.device)
        trainer.folder = RunFolder(run, shared=processes.count() > 1)
        trainer.folder.lock()
        trainer._prepare()
        checkpoint = trainer.folder.checkpoint()
        if checkpoint is not None:
            trainer._load(checkpoint)
        trainer.folder.rewind(trainer.step)
        trainer.history = trainer.folder.lines(METRICS)
        return trainer

    def _prepare(self) -> None:
        config = self.config
        if config.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it
            torch.use_deterministic_algorithms(True)
        if config.engine == "vllm" and processes.count() > 1:
            raise ValueError(
                f'engine "vllm" runs in one process so far, got {processes.count()}; choose engine '
                '"hf", or start one process'
            )
        if config.play_ahead and processes.count() > 1:
            raise ValueError(
                f"play_ahead needs one process, got {processes.count()}; set it False, or start one"
            )
        self.problems = processes.main_first(partial(_load_problems, config))
        self.envs = {
            split: vector_env(
                config.task,
                problems=problems,
                seed=config.seed,
                reward=config.reward,
                reveal=config.reveal,
            )
            for split, problems in self.problems.items()
        }
        self.sampler = ProblemSampler(
            self.problems["train"], config.problems_per_step, seed=config.seed
        )
        self.players = processes.main_first(partial(players_of, config))
        for player in self.players.values():
            player.sync()  # a server that cannot take the adapters says so before the run begins
        self.learners = make_learners(config, self.players)
        self.ahead = Ahead(self.players.values(), self.sampler)
        self.history: list[dict[str, float]] = []
        """Metrics of the steps so far."""
        self.step = 0

    def train(self, monitor: Monitor | None = None, *, judged_on: str = "test") -> Evaluation:
        """Run the steps that remain; returns the evaluation of the trained pair.

        Args:
            monitor: Where progress is shown.
            judged_on: The split on which the pair is evaluated before and after; "validation"
                leaves the test problems to somebody else.

        Raises:
            FloatingPointError: A loss or gradient is not finite; the message names the last
                checkpoint.
        """
        monitor = monitor or Monitor(Console(quiet=not processes.is_main()))
        with monitor, self.ahead:
            if self.step == 0:
                for split in dict.fromkeys((judged_on, "validation")):
                    self.evaluate(split, monitor)
            advance = monitor.stage("train", self.config.steps)
            while self.step < self.config.steps:
                monitor.step(self.train_step())
                for line in self._new_alarms():
                    monitor.note(line)
                advance(self.step, self.config.steps)
                last = self.step == self.config.steps
                evaluated = last or _due(self.step, self.config.eval_every)
                if evaluated:
                    self.evaluate("validation", monitor)
                    advance = monitor.stage("train", self.config.steps)
                best = evaluated and best_step(self.folder) == self.step
                if last or best or _due(self.step, self.config.checkpoint_every):
                    self.save()
            if not self.folder.checkpoints():  # a run of no steps deploys the untrained pair
                self.save()
            result = self.evaluate(judged_on, monitor)
        self.close()
        return result

    def train_step(self) -> dict[str, float]:
        """One step of the paper: play, reward, update both; returns and logs the metrics.

        Raises:
            FloatingPointError: Logits, a loss or a gradient are not finite (pitfall 39).
        """
        try:
            started = time.perf_counter()
            age, played = 1.0, self.ahead.take()
            if played is None:
                age, played = 0.0, self._play(self.step)
            if self.config.play_ahead and not self._needs_weights_at(self.step + 1):
                self.ahead.start(partial(self._play, self.step + 1))
            metrics = update_step(self.config, self.players, self.learners, played, self.step)
            metrics["seconds/step"] = time.perf_counter() - started
            if self.config.play_ahead:
                metrics["rollout_age"] = age
        except FloatingPointError as error:
            saved = RunFolder(self.folder.path).checkpoints()  # this process may be alone here
            where = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint yet"
            found = FloatingPointError(f"step {self.step}: {error}; {where}")
            raise processes.of_all(found) from error
        self.step += 1
        metrics["step"] = self.step
        if self.config.deterministic:
            metrics = {k: v for k, v in metrics.items() if not k.startswith("seconds/")}
        self.folder.append(METRICS, metrics)
        self.history.append(metrics)
        self._store_transcripts(played.rollout)
        return metrics

    def _play(self, step: int) -> Played:
        return play_step(self.config, self.envs["train"], self.players, self.sampler, step)

    def _needs_weights_at(self, step: int) -> bool:
        """Whether an evaluation, a checkpoint or the end follows that many steps."""
        every = (self.config.eval_every, self.config.checkpoint_every)
        return step >= self.config.steps or any(_due(step, e) for e in every)

    def _new_alarms(self) -> list[str]:
        """Alarms that were not raised before in this run; they are logged."""
        raised = {line["alarm"] for line in self.folder.lines(ALARMS)}
        fresh = {k: text for k, text in alarms(self.history).items() if k not in raised}
        for name, text in fresh.items():
            self.folder.append(ALARMS, {"step": self.step, "alarm": name, "text": text})
        return [f"alarm at step {self.step}: {text}" for text in fresh.values()]

    def evaluate(self, split: str, monitor: Monitor) -> Evaluation:
        """Evaluate on held-out problems; an evaluation of this step is not made twice."""
        for line in self.folder.lines(EVALUATIONS):
            if (line["step"], line["split"]) == (self.step, split):
                return Evaluation.from_dict(line["evaluation"])
        self.ahead.settle()
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

    def pair(self) -> Pair:
        """The pair as it is now; the direction is that of the last validation result.

        Raises:
            ValueError: There is no validation result yet.
            RuntimeError: The weights are spread over several processes.
        """
        self.ahead.settle()
        if any(sharding.is_sharded(player.policy.model) for player in self.players.values()):
            raise RuntimeError(
                f"the weights are spread over {processes.count()} processes: the pair needs them "
                "whole; save() a checkpoint and use Pair.load"
            )
        return Pair(self.players, chosen_drafter(self.folder, self.step), self.config)

    def close(self) -> None:
        """Release the run's folder; the trainer must not be used to train afterwards."""
        self.folder.unlock()

    def save(self) -> Path:
        """Write a checkpoint of the state after the last step.

        Raises:
            RuntimeError: The weights of the processes are no longer the same.
        """
        for agent, player in self.players.items():
            processes.check_equal(player.policy.fingerprint(), f"the weights of {agent}")
        models = {a: sharding.weights(player.policy.model) for a, player in self.players.items()}
        learners = {agent: learner.state_dict() for agent, learner in self.learners.items()}
        write = partial(self._write, sharding.whole(models), sharding.whole(learners))
        return self.folder.save_checkpoint(
            self.step,
            write,
            keep=self.config.keep_checkpoints,
            best=best_step(self.folder),
        )

    def _write(self, weights: Mapping[str, Any], learners: Mapping[str, Any], folder: Path) -> None:
        """Write a checkpoint.

        Args:
            weights: Agent -> gathered weights of a sharded model, or None.
            learners: Agent -> state of its learner.
            folder: Where to.
        """
        for agent, player in self.players.items():
            player.policy.save(folder / agent, weights[agent])
        state = {
            "step": self.step,
            "sampler": self.ahead.sampler_state(),
            "learners": dict(learners),
            "torch_rng": torch.get_rng_state(),
        }
        save_tensors(state, folder / "trainer.pt")
        (folder / "config.json").write_text(json.dumps(self.config.to_dict(), indent=2))

    def _load(self, checkpoint: Path) -> None:
        state = load_tensors(checkpoint / "trainer.pt")
        for agent, player in self.players.items():
            player.policy.load_weights(checkpoint / agent)
        for agent, learner in self.learners.items():
            learner.load_state_dict(state["learners"][agent])
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


def _load_problems(config: PairConfig) -> dict[str, list[Problem]]:
    task = config.task
    return {
        "train": load_problems(task, split="train", limit=config.train_problems, seed=config.seed),
        "validation": load_problems(task, split="validation", limit=config.validation_problems),
        "test": load_problems(task, split="test", limit=config.test_problems),
    }


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
