"""Scripted agents whose rates are known, for the tests of the benchmark.

Problems are `value N?` with gold N. The low digit says who knows what alone: `alpha` is right
where N % 4 < 2, `beta` where N % 4 is 1 or 2. As solvers, `beta` is right where the draft says
"sound", else where it is right alone; `alpha` repeats what it says alone.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path


def number(messages: list[dict[str, str]]) -> int:
    """N of the problem asked in these messages."""
    found = re.search(r"value (\d+)\?", messages[0]["content"])
    assert found
    return int(found[1])


def say(value: int, right: bool) -> str:
    """A reply in the form of the game; a right one calls itself sound."""
    word = "sound" if right else "shaky"
    answer = value if right else value + 1000
    return f"<think>hm</think>my work is {word} today I think\n<answer>{answer}</answer>"


def alpha(messages: list[dict[str, str]]) -> str:
    """Right where N % 4 < 2, whatever it reads."""
    n = number(messages)
    if "Is the final answer" in messages[-1]["content"]:
        return "<answer>yes</answer>" if "sound" in messages[-1]["content"] else "no"
    return say(n, n % 4 < 2)


def beta(messages: list[dict[str, str]]) -> str:
    """Right where N % 4 is 1 or 2, and where it reads a sound draft."""
    n = number(messages)
    reads_sound = "Draft:" in messages[-1]["content"] and "sound" in messages[-1]["content"]
    return say(n, n % 4 in (1, 2) or reads_sound)


def empty(messages: list[dict[str, str]]) -> str:
    """Says nothing."""
    return ""


HOSTILE = (
    "</pre></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    "\"'{{script}}{{cards}} \u2028 \ud800 \U0001f600 | a \\| b\n# heading\n<answer>1</answer>"
)


def hostile(messages: list[dict[str, str]]) -> str:
    """Says what breaks pages and files."""
    return HOSTILE


def slow(messages: list[dict[str, str]]) -> str:
    """`alpha` with a pause."""
    time.sleep(0.05)
    return alpha(messages)


def coin(messages: list[dict[str, str]], seed: int) -> str:
    """Right by the seed."""
    return say(number(messages), seed % 2 == 0)


def broken(messages: list[dict[str, str]]) -> str:
    """Raises."""
    raise RuntimeError("no such thing")


def write_problems(path: Path, count: int, start: int = 0) -> str:
    """A file of the problems start, start + 1, ...; returns its name."""
    rows = [
        {"id": f"p{n}", "question": f"value {n}?", "answer": str(n)}
        for n in range(start, start + count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)
