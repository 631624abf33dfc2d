"""Playing the next step while this one's update runs: whose weights, when, and across a resume."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import probe_task
import pytest
import tiny_llm
from loopback_llm import loopback
from loopback_vllm import FakeVLLM, refused
from rich.console import Console

from learners.config import PairConfig
from learners.engines import Sampling, VLLMServerConfig
from learners.monitor import Monitor
from learners.pair import PairTrainer
from learners.policy import LoRA
from learners.run_folder import EPISODES


@contextmanager
def training(root: Path, fake: FakeVLLM, **changes: Any) -> Iterator[PairConfig]:
    """A config of two adapters behind a loopback server."""
    config = probe_task.lora_config(root, eval_every=0, transcripts_per_step=8, **changes)
    fake.base = config.models[0]
    with loopback(fake) as server:
        options = VLLMServerConfig(urls=(server.url,), backoff_s=0.01, retries=1)
        yield replace(config, engine="vllm-server", vllm_server=options, play_ahead=True)


def models_asked(fake: FakeVLLM) -> list[str]:
    """The adapters that completions were asked of, in order of the requests."""
    return [body["model"] for body in fake.asked("/v1/completions")]


def test_a_step_is_played_with_the_weights_of_before_the_update(tmp_path: Path) -> None:
    fake = FakeVLLM()
    with training(tmp_path, fake, checkpoint_every=0) as config:
        trainer = PairTrainer(config, tmp_path / "run")
        moved = trainer.train_step()
        assert moved["agent_0/moved"] or moved["agent_1/moved"]
        trainer.ahead.settle()
        asked = models_asked(fake)
        half = len(asked) // 2
        assert half == 2 * 2 * 4, "drafts and solutions of 2 problems x 4"
        assert set(asked[:half]) == set(asked[half:]), "step 2 was played as step 1"
        trainer.train_step()
        trainer.ahead.settle()
        assert set(models_asked(fake)[2 * half :]) != set(asked), "step 3 after the first update"
        player = trainer.players["agent_0"]
        player.engine.generate(player.policy, [[20]], Sampling(3), 0)
        assert models_asked(fake)[-1] in fake.loaded, "follows the weights again"
        trainer.evaluate("validation", Monitor(Console(quiet=True)))
        trainer.train_step()
        assert trainer.pair().answer("question 1").draft
        asked_by_pair = models_asked(fake)[-1]
        assert asked_by_pair in fake.loaded, "the newest weights, though a step was under way"
        trainer.close()


def test_the_update_does_not_wait_for_the_servers(tmp_path: Path) -> None:
    answering = threading.Event()
    answering.set()

    def wait(number: int, body: dict[str, Any]) -> None:
        assert answering.wait(60)

    fake = FakeVLLM(complete=wait)
    with training(tmp_path, fake, checkpoint_every=0) as config:
        trainer = PairTrainer(config, tmp_path / "run")
        start = trainer.ahead.start

        def stop_and_start(play: Any) -> None:
            answering.clear()
            start(play)

        trainer.ahead.start = stop_and_start
        assert trainer.train_step()["step"] == 1, "though nothing of step 2 has been answered"
        answering.set()
        trainer.ahead.start = start
        assert trainer.train_step()["rollout_age"] == 1.0
        trainer.ahead.settle()
        trainer.close()


@pytest.mark.slow
def test_nothing_is_played_over_a_checkpoint_and_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    fake = FakeVLLM()
    with training(tmp_path, fake, checkpoint_every=3, steps=5) as config:
        whole = PairTrainer(config, tmp_path / "whole")
        whole.train()
        assert [line["rollout_age"] for line in whole.history] == [0, 1, 1, 0, 1]
        part = PairTrainer(config, tmp_path / "part")
        for _ in range(3):
            part.train_step()
        part.save()
        part.train_step()  # lost, with what is under way
        part.ahead.settle()
        part.close()
        resumed = PairTrainer.resume(tmp_path / "part")
        resumed.train()
    untimed = [
        [{k: v for k, v in line.items() if not k.startswith("seconds/")} for line in run.history]
        for run in (whole, resumed)
    ]
    assert untimed[0] == untimed[1]


@pytest.mark.slow
def test_a_checkpoint_beside_a_rollout_under_way_deals_its_problems_again(tmp_path: Path) -> None:
    fake = FakeVLLM()
    with training(tmp_path, fake, checkpoint_every=0, steps=5) as config:
        trainer = PairTrainer(config, tmp_path / "run")
        trainer.train_step()
        trainer.save()
        trainer.train_step()
        trainer.ahead.settle()
        trainer.close()
        played = [line["problem"] for line in trainer.folder.lines(EPISODES)]
        resumed = PairTrainer.resume(tmp_path / "run")
        resumed.train_step()
        resumed.ahead.settle()
        resumed.close()
        assert [line["problem"] for line in resumed.folder.lines(EPISODES)] == played


def test_a_server_that_fails_meanwhile_ends_the_next_step(tmp_path: Path) -> None:
    fake = FakeVLLM()
    with training(tmp_path, fake, checkpoint_every=0) as config:
        trainer = PairTrainer(config, tmp_path / "run")
        start = trainer.ahead.start

        def fail_and_start(play: Any) -> None:
            fake.complete = lambda number, body: refused(400, "no")
            start(play)

        trainer.ahead.start = fail_and_start
        trainer.train_step()
        with pytest.raises(ValueError, match="got HTTP 400: no"):
            trainer.train_step()
        assert trainer.step == 1
        trainer.close()


def test_an_error_ends_what_is_under_way(tmp_path: Path) -> None:
    """No request is sent after it; a run that is stopped does not wait for all of them."""
    answering, asked = threading.Event(), threading.Event()

    def wait(number: int, body: dict[str, Any]) -> None:
        asked.set()
        assert answering.wait(60)

    fake = FakeVLLM()
    with training(tmp_path, fake, checkpoint_every=0) as config:
        slow = replace(config, vllm_server=replace(config.vllm_server, concurrency=1))
        trainer = PairTrainer(slow, tmp_path / "run")
        start = trainer.ahead.start

        def wait_and_start(play: Any) -> None:
            fake.complete = wait
            start(play)
            assert asked.wait(60)

        def fail(*args: Any) -> Any:
            raise FloatingPointError("the loss must be finite")

        trainer.ahead.start = wait_and_start
        trainer.learners["agent_0"].update = fail
        with pytest.raises(FloatingPointError):
            trainer.train(Monitor(Console(quiet=True)))
        under_way = len(models_asked(fake))
        answering.set()
        with pytest.raises(ConnectionError, match="the run is ending"):
            trainer.ahead.take()
        assert len(models_asked(fake)) == under_way
        trainer.close()


def test_what_cannot_be_played_ahead_is_refused(tmp_path: Path) -> None:
    name = tiny_llm.save(tmp_path / "llama", "llama")
    two = PairConfig(models=(name, name), lora=LoRA(rank=2, alpha=4))
    with pytest.raises(ValueError, match='play_ahead needs engine "vllm-server"'):
        replace(two, play_ahead=True)
    served = replace(two, engine="vllm-server", update=replace(two.update, importance="off"))
    with pytest.raises(ValueError, match="one update old and needs"):
        replace(served, play_ahead=True)
