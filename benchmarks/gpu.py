"""Everything that needs a GPU, offline, in minutes: the `gpu` tests, then speed against TRL.

    python benchmarks/gpu.py                # one GPU: tests, then Qwen3-0.6B with random weights
    python benchmarks/gpu.py --skip-tests
    CUDA_VISIBLE_DEVICES=0,1 python benchmarks/gpu.py       # the test of two GPUs, too

Prints one table; with vLLM installed its tests run, too. Ends with the tests' exit status.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
import tyro

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Args:
    """What to leave out, and where the numbers go."""

    skip_tests: bool = False
    """Measure alone."""
    model: str = "qwen3-0.6b-random"
    """See benchmarks/throughput.py."""
    out: Path = Path("runs/throughput-gpu.json")
    """File of the numbers."""


def run(*command: str | Path) -> int:
    """Run a command of this interpreter in the repository's root, offline."""
    env = {"CUDA_VISIBLE_DEVICES": "0", **os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, env=env).returncode


def main(args: Args) -> int:
    """Tests, then throughput."""
    if not torch.cuda.is_available():
        raise ValueError("a CUDA device is needed, and torch sees none; on a CPU run: make test")
    tests = 0
    if not args.skip_tests:
        files = ("tests/test_gpu.py", "tests/test_devices.py")
        tests = run("-m", "pytest", "-q", "-m", "gpu", *files)
        if find_spec("vllm") is not None:
            files = ("tests/test_engine_vllm.py", "tests/test_engine_vllm_server.py")
            tests = tests or run("-m", "pytest", "-q", *files)
    options = ("--model", args.model, "--device", "cuda", "--dtype", "bfloat16")
    return run("benchmarks/throughput.py", *options, "--out", args.out.resolve()) or tests


if __name__ == "__main__":
    try:
        sys.exit(main(tyro.cli(Args, description=__doc__)))
    except ValueError as error:
        sys.exit(f"error: {error}")
