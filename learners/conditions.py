"""What a reader needs to compare or repeat a measurement: versions, commit, machine, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

PACKAGES = (
    "agon-rl",
    "math-verify",
    "sympy",
    "numpy",
    "scipy",
    "torch",
    "transformers",
    "trl",
    "vllm",
)


def conditions() -> dict[str, object]:
    """Of this process, now."""
    here = Path(__file__).parent
    commit = _git("rev-parse", "HEAD", cwd=here)
    return {
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "uncommitted_changes": bool(_git("status", "--porcelain", cwd=here)) if commit else None,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str, cwd: Path) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd, capture_output=True, text=True, check=False
        )
    except OSError:  # no git on this machine
        return None
    return done.stdout.strip() or None
