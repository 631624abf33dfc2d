"""What the tests of sandboxes share: limits, ways of isolation, how to run and find a program."""

import glob
import textwrap
from pathlib import Path

import pytest

from agon_env.verifiers.sandbox import Limits, Sandbox
from agon_env.verifiers.walls import Isolation

LIMITS = Limits(time_s=3, memory_mb=256, output_kb=256)


def slow(*values):
    """Parameters of the slow run; the quick one keeps a representative of each kind."""
    return pytest.param(*values, marks=pytest.mark.slow)


SLOW_WAYS = [
    Isolation("bubblewrap", user_namespace=False),
    Isolation("bubblewrap", user_namespace=True),
    Isolation("namespaces", user_namespace=False),
    Isolation("namespaces", user_namespace=True),
]


def run(way, code, limits=LIMITS, stdin=b""):
    with Sandbox(textwrap.dedent(code).encode(), limits, way) as sandbox:
        return sandbox.run(stdin)


def printed(way, code, stdin=b""):
    result = run(way, code, stdin=stdin)
    assert result.end == "finished"
    return result.output.decode().strip()


def processes(name: str) -> list[str]:
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            if Path(path).read_text().strip() == name:
                found.append(path)
        except OSError:
            continue
    return found


NAMED = """
import ctypes, os, time
def name(text): ctypes.CDLL(None).prctl(15, text.encode(), 0, 0, 0)
"""
