"""The examples of the env run as a reader would run them (pitfall 74)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import agon_env

ROOT = Path(agon_env.__file__).parents[1]


def run(example: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, f"examples/{example}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tour_plays_three_matches_in_which_drafts_are_mended():
    out = run("tour.py")
    assert out.count("problem arithmetic-easy") == 3
    assert "conversion 1" in out
    assert "[withheld]" in out
    assert "unscored" not in out
    assert "rewards of three episodes:" in out


@pytest.mark.slow
def test_the_custom_reward_pays_a_solver_that_mends_a_draft():
    lines = run("custom_reward.py").splitlines()
    assert len(lines) == 4
    solvers = [line for line in lines if " as solver: " in line]
    assert len(solvers) == 2
    assert all("'mended': 3.0" in line for line in solvers)
