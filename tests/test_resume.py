"""A run that is killed and continued equals one that was never stopped, bit for bit on the CPU."""

from __future__ import annotations

import json
import multiprocessing
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import probe_task
import pytest
import torch

from learners.pair import PairTrainer
from learners.run_folder import RunFolder

MODELING = "transformers.models.{0}.modeling_{0}"
PRELOADED = ["learners.pair", MODELING.format("qwen3"), MODELING.format("gemma3")]
"""What takes seconds to import; the fork server does not find modules of this folder."""
TIMED = ("seconds/rollout", "seconds/update", "seconds/step")


def weights(trainer: PairTrainer) -> dict[str, torch.Tensor]:
    return {
        f"{agent}.{name}": parameter.detach().clone()
        for agent, player in trainer.players.items()
        for name, parameter in player.policy.trainable_parameters().items()
    }


def untimed_metrics(run: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMED} for line in lines]


@pytest.mark.parametrize(
    "make_config",
    [pytest.param(probe_task.config, marks=pytest.mark.slow), probe_task.lora_config],
)
def test_k_plus_m_steps_equal_k_resume_m(tmp_path: Path, make_config) -> None:
    """Pitfall 66: weights, optimizers, schedules and the sampler's position all come back."""
    whole = PairTrainer(make_config(tmp_path), tmp_path / "whole")
    for _ in range(4):
        whole.train_step()
    first = PairTrainer(make_config(tmp_path), tmp_path / "parts")
    for _ in range(2):
        first.train_step()
    first.save()
    first.close()
    second = PairTrainer.resume(tmp_path / "parts")
    assert second.step == 2
    for _ in range(2):
        second.train_step()
    expected = weights(whole)
    for name, value in weights(second).items():
        assert torch.equal(value, expected[name]), name
    assert untimed_metrics(tmp_path / "parts") == untimed_metrics(tmp_path / "whole")


def test_lines_after_the_checkpoint_are_dropped_and_written_again(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    trainer.train_step()
    trainer.save()
    trainer.train_step()  # not saved: lost with the process
    trainer.close()
    expected = untimed_metrics(tmp_path / "run")
    resumed = PairTrainer.resume(tmp_path / "run")
    assert len(untimed_metrics(tmp_path / "run")) == 1
    resumed.train_step()
    assert untimed_metrics(tmp_path / "run") == expected


@pytest.mark.slow
def test_a_line_cut_by_a_kill_is_ignored(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    trainer.train_step()
    trainer.save()
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"step": 2, "loss"')
    trainer.close()
    resumed = PairTrainer.resume(tmp_path / "run")
    resumed.train_step()
    assert [m["step"] for m in untimed_metrics(tmp_path / "run")] == [1, 2]


@pytest.mark.slow
def test_a_checkpoint_that_was_being_written_is_not_seen(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    trainer.train_step()
    trainer.save()
    trainer.close()
    half = tmp_path / "run" / "checkpoints" / ".writing_00000002"
    half.mkdir()
    (half / "trainer.pt").write_bytes(b"half")
    resumed = PairTrainer.resume(tmp_path / "run")
    assert resumed.step == 1
    resumed.train_step()
    resumed.save()
    assert not half.exists()


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    trainer.train_step()
    file = trainer.save() / "trainer.pt"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    trainer.close()
    with pytest.raises(ValueError, match=r"trainer\.pt is missing or damaged; remove the folder"):
        PairTrainer.resume(tmp_path / "run")


@pytest.mark.slow
def test_two_processes_cannot_train_into_one_folder(tmp_path: Path) -> None:
    trainer = PairTrainer(probe_task.config(tmp_path), tmp_path / "run")
    code = (
        "import sys; from learners.run_folder import RunFolder\n"
        "try: RunFolder(sys.argv[1]).lock()\n"
        "except BlockingIOError as error: print(error); sys.exit(7)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(trainer.folder.path)], capture_output=True, text=True
    )
    assert result.returncode == 7, result.stderr
    assert "another process is training into" in result.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_killed_at_random_moments_ends_as_if_never_stopped(tmp_path: Path) -> None:
    """Kill -9 at 20 random moments, continue each time, compare with an undisturbed run."""
    undisturbed = begin(tmp_path / "calm" / "run")
    undisturbed.join(300)
    assert undisturbed.exitcode == 0
    run = tmp_path / "rough" / "run"
    rng = np.random.default_rng(0)
    for _ in range(20):
        process = begin(run)
        wait_for_start(process, run)
        time.sleep(float(rng.uniform(0, 0.4)))
        process.kill()
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
    last = begin(run)
    last.join(300)
    assert last.exitcode == 0
    assert untimed_metrics(run) == untimed_metrics(tmp_path / "calm" / "run")
    evaluations = (tmp_path / "calm" / "run" / "evaluations.jsonl").read_text()
    assert (run / "evaluations.jsonl").read_text() == evaluations
    manifests = [
        (RunFolder(path).checkpoints()[-1] / "manifest.json").read_text()
        for path in (run, tmp_path / "calm" / "run")
    ]
    same = [
        {k: v for k, v in json.loads(m).items() if k.endswith("safetensors")} for m in manifests
    ]
    assert same[0] == same[1]
    assert same[0]


def begin(run: Path) -> BaseProcess:
    """Start or continue the run in a process of its own, forked from one that has imported all."""
    run.parent.mkdir(exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=probe_task.run, args=(str(run),))
    process.start()
    return process


def wait_for_start(process: BaseProcess, run: Path) -> None:
    """Return once this process has the run's lock (it writes its config or loads from it)."""
    deadline = time.monotonic() + 60
    size = metrics_size(run)
    while process.is_alive() and time.monotonic() < deadline:
        if metrics_size(run) != size:
            return
        time.sleep(0.01)


def metrics_size(run: Path) -> int:
    """Bytes of the metrics so far: a change says that training is under way."""
    file = run / "metrics.jsonl"
    return file.stat().st_size if file.exists() else 0
