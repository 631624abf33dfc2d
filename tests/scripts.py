"""Scripts run in this process: without the seconds that a new one takes to import torch."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def names_of(script: str) -> dict[str, Any]:
    """What a script defines, without running its command."""
    return runpy.run_path(str(ROOT / script), run_name=Path(script).stem)


def command(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: object) -> None:
    """Run a script as its command line would."""
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    runpy.run_path(str(ROOT / script), run_name="__main__")


def refusal(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: object) -> str:
    """The one line with which a command exits, and not with status 0."""
    with pytest.raises(SystemExit) as stopped:
        command(monkeypatch, script, *arguments)
    line = stopped.value.code
    assert isinstance(line, str), "a text exits with status 1"
    assert line.startswith("error: ")
    assert "\n" not in line
    return line
