"""The throughput benchmark: equal work for all, and what it says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import refusal

from learners.throughput import Kept, Measured, Step, goals, rows
from learners.throughput.two_trl import rows_per_pass

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "throughput.py"
STEP = Step(
    rows=4,
    prompt_tokens=40,
    new_tokens=120,
    generation_s=1.0,
    judging_s=0.03,
    update_s=0.97,
    step_s=2.0,
)


def measured(name: str, *steps: Step, peak: float = 600.0) -> Measured:
    return Measured(name, steps, peak, 500.0, 1, {})


def test_rates_are_medians_over_rounds_and_goals_compare_them():
    slow = replace(STEP, step_s=6.0)
    rounds = {
        "ours": [measured("ours", STEP, STEP), measured("ours", slow, peak=610.0)],
        "two TRL": [measured("two TRL", slow, slow)],
        "one of ours": [measured("one of ours", STEP)],
    }
    table = rows(rounds)
    assert (table[0].step, table[0].slowest, table[0].fastest) == (60.0, 20.0, 60.0)
    assert table[0].step_of_rounds == (60.0, 20.0)
    assert table[0].growth_mib == 110.0
    found = {goal.name: goal for goal in goals(table, adapters=True)}
    assert found["tokens/s of a step, ours / two TRL"].measured == 3.0  # 60 / 20
    assert found["env + verifier of our step"].measured == pytest.approx(0.015)  # 0.03 / 2
    memory = found["peak memory, pair / one model"]
    assert memory.measured == pytest.approx(1.1)  # (610 - 500) / (600 - 500)
    assert memory.met
    assert len(goals(table, adapters=False)) == 2, "the memory goal is about two adapters"


def test_contenders_that_sampled_different_numbers_of_tokens_are_refused():
    fewer = replace(STEP, new_tokens=119)
    with pytest.raises(ValueError, match="equally many rows and tokens"):
        rows({"ours": [measured("ours", STEP)], "two TRL": [measured("two TRL", fewer)]})


def test_trls_batch_fits_the_token_budget_and_divides_the_rows():
    assert rows_per_pass(12, 100, 16_384) == 12
    assert rows_per_pass(12, 100, 599) == 4, "5 fit, 4 divide 12"
    assert rows_per_pass(12, 100, 50) == 1


def test_a_stopped_benchmark_keeps_what_was_measured(tmp_path):
    file = tmp_path / "new" / "tiny.partial"
    asked = {"agent_0": [[("p1", [{"role": "user", "content": "1 + 1?"}])]], "agent_1": [[]]}
    ours = replace(measured("ours", STEP, STEP), prompts=asked)
    Kept(file, {"samples": 2}).add(ours)
    Kept(file, {"samples": 2}).add(measured("two TRL", STEP))
    with file.open("a") as cut:
        cut.write('{"contender": "one of o')
    found = Kept(file, {"samples": 2}).found
    assert set(found) == {"ours", "two TRL"}
    assert found["ours"][0].steps == (STEP, STEP)
    assert found["ours"][0].prompts["agent_0"][0][0] == ["p1", asked["agent_0"][0][0][1]]
    Kept(file, {"samples": 2}).drop_last("ours")
    assert {name for name, some in Kept(file, {"samples": 2}).found.items() if some} == {"two TRL"}
    kept = Kept(file, {"samples": 3})
    assert not kept.found, "other work"
    kept.forget()
    assert not file.exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tiny_model_runs_to_a_complete_json(tmp_path):
    out = tmp_path / "throughput.json"
    sizes = "--problems 1 --samples 2 --new-tokens 4 --steps 1 --rounds 1 --engines --profile"
    result = subprocess.run(
        [sys.executable, SCRIPT, *sizes.split(), "--lora-rank", "4", "--out", out],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=850,
    )
    assert result.returncode == 0, result.stderr
    assert "aten::" in result.stdout, "the profile"
    data = json.loads(out.read_text())
    for key in ("command", "versions", "machine", "threads", "settings", "goals", "steps"):
        assert data[key], key
    assert "commit" in data, "null where there is no git"
    table = {row["contender"]: row for row in data["rows"]}
    assert set(table) == {"ours", "two TRL", "one of ours"}
    for row in table.values():
        assert row["new_tokens"] == 2 * 2 * 4, "drafts and solutions of 2 matches"
        assert min(row[key] for key in ("generation", "update", "step", "growth_mib")) > 0
    assert table["ours"]["prompt_tokens"] == table["two TRL"]["prompt_tokens"]
    assert {row["new_tokens"] for row in data["engines"]} == {2 * 4}
    assert len(data["engines"]) == 3
    assert len(data["goals"]) == 3


def test_bad_input_is_one_line(monkeypatch):
    line = refusal(monkeypatch, "benchmarks/throughput.py", "--samples", "1")
    assert line == "error: samples must be at least 2, got 1"
    line = refusal(monkeypatch, "benchmarks/throughput.py", "--device", "cpu,cpu")
    assert "one device is compared" in line
