"""benchmarks/pairs.py and compare.py as users run them: kill and resume, a server, real models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import bench_agents
import pytest
from loopback_llm import answer, loopback

ROOT = Path(__file__).parents[1]
FILE = str(Path(bench_agents.__file__))
ALPHA, BETA, SLOW = (f"scripted:{FILE}:{name}" for name in ("alpha", "beta", "slow"))

pytestmark = pytest.mark.slow


def command(script: str, *arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "benchmarks" / script), *arguments]


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(script, *arguments), capture_output=True, text=True, timeout=250, check=False
    )


def lines(out: Path) -> list[dict]:
    text = (out / "generations.jsonl").read_text() if out.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def test_a_killed_benchmark_goes_on_and_pays_for_nothing_twice(tmp_path):
    """kill -9 in the middle; the results are those of a run that was left alone."""
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 8)
    arguments = ("--task", file, "--seeds", "2", "--no-influence")
    out = tmp_path / "killed"
    process = subprocess.Popen(
        command("pairs.py", SLOW, BETA, *arguments, "--out", str(out)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.time() + 60
    while time.time() < deadline and (not out.exists() or len(lines(out)) < 8):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = len(lines(out))
    total = 4 * 8 * 2  # two agents alone and two cascades, 8 problems, 2 seeds
    assert 8 <= before < total
    done = run("pairs.py", SLOW, BETA, *arguments, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert f"{total - before} replies generated now, {before} were stored" in done.stdout
    assert len(lines(out)) == total
    whole = run("pairs.py", SLOW, BETA, *arguments, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    found = [json.loads((tmp_path / d / "results.json").read_text()) for d in ("killed", "whole")]
    assert found[0]["outcomes"] == found[1]["outcomes"]
    same = run("compare.py", *(str(tmp_path / d / "results.json") for d in ("killed", "whole")))
    assert "no significant difference" in same.stdout


def test_a_server_that_dies_in_the_middle_is_one_line_and_the_same_command_goes_on(tmp_path):
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 4)
    down = [False]

    def behave(i, body):
        if i == 10:
            down[0] = True
        return None if down[0] else answer(bench_agents.alpha(body["messages"]))

    with loopback(behave) as server:
        arguments = (
            *(f"openai:{server.url}#m", BETA, "--task", file, "--out", str(tmp_path / "o")),
            *("--options.retries", "1", "--options.backoff-s", "0.01", "--controls", "all"),
        )
        failed = run("pairs.py", *arguments)
        assert failed.returncode == 1
        assert "Traceback" not in failed.stderr
        assert "the same command goes on" in failed.stderr
        kept = len(lines(tmp_path / "o"))
        assert kept >= 10
        down[0] = False
        done = run("pairs.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"{kept} were stored" in done.stdout
    assert {"results.json", "table.md", "report.html"} <= {
        f.name for f in (tmp_path / "o").iterdir()
    }


def test_a_dry_run_generates_nothing(tmp_path):
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 8)
    done = run(
        "pairs.py", "hf:not/loaded", "openai:http://127.0.0.1:9/v1#m", "--task", file, "--dry-run",
        "--out", str(tmp_path / "o"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "6 test problems (train), 2 validation (rest of train)" in done.stdout
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((ALPHA, BETA, "--task", "nothing.jsonl"), "no file nothing.jsonl"),
        ((ALPHA, "bad", "--task", "arithmetic-easy"), "kind:name"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, says):
    done = run("pairs.py", *arguments, "--out", str(tmp_path / "o"))
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_three_real_models_make_a_matrix(tmp_path):
    """Tiny random models and the real verifier; a second run generates nothing."""
    import tiny_llm

    names = [f"hf:{tiny_llm.save(tmp_path / f, f)}" for f in ("llama", "qwen3")]
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 3)
    arguments = (
        *(*names, BETA, "--task", file, "--seeds", "1", "--k", "2", "--controls", "moa"),
        *("--decoding.max-new-tokens", "6", "--out", str(tmp_path / "o")),
    )
    done = run("pairs.py", *arguments)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "o" / "results.json").read_text())
    assert "## Matrix" in (tmp_path / "o" / "table.md").read_text()
    assert len(results["directions"]) == 6
    found = {m["name"]: m for m in results["methods"]}
    assert found["solo A"]["stages"]["solo"]["unparsed"]["value"] == 1
    assert 0 < found["solo A"]["completion_tokens"] <= 6
    assert results["versions"]["torch"]
    again = run("pairs.py", *arguments)
    assert "0 replies generated now" in again.stdout, again.stderr


def test_the_key_is_in_no_file(tmp_path):
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 2)
    with loopback(lambda i, body: answer("<answer>0</answer>")) as server:
        done = subprocess.run(
            command(
                "pairs.py", f"openai:{server.url}#m", BETA, "--task", file, "--seeds", "1",
                "--out", str(tmp_path / "o"),
            ),
            env={**os.environ, "OPENAI_API_KEY": "sk-secret"},
            capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = [file.read_text() for file in (tmp_path / "o").iterdir()]
    assert not any("sk-secret" in text for text in [*written, done.stdout, done.stderr])
