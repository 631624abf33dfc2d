"""LiveCodeBench's jsonl files -> dated programming problems; pickles in them get no power.

Private tests are base64 of zlib of a pickle of a JSON string. Only the string is wanted, so the
pickle is read as a list of opcodes and must be exactly one text: nothing is unpickled.
`livecodebench?after=2024-08-01&before=2025-02-01` takes the contests of a window, so that a model
is asked only what was published after its training data ended.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import pickletools
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agon_env.tasks.cases import UnreadableTestsError, read_json, trim
from agon_env.tasks.codesets import read_problems
from agon_env.tasks.hub import HubData, is_here, rows
from agon_env.tasks.query import parse_name
from agon_env.tasks.registry import Rejected, Task, find_task, register_family, register_task
from agon_env.types import CodeTests, Problem

DATA = HubData(
    repo="livecodebench/code_generation_lite",
    revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
    files={"test": ("test.jsonl", *(f"test{n}.jsonl" for n in range(2, 7)))},
    columns=(
        "question_title",
        "question_content",
        "platform",
        "question_id",
        "contest_date",
        "starter_code",
        "difficulty",
        "public_test_cases",
        "private_test_cases",
        "metadata",
    ),
)
MAX_UNPACKED = 256 * 2**20
"""Bytes of one problem's private tests after decompression; more is refused, not expanded."""
TEXT_OPCODES = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"}
FRAME_OPCODES = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"}
RATINGS = {"easy": 1.0, "medium": 2.0, "hard": 3.0}


def pickled_text(data: bytes) -> str:
    """The string in a pickle that holds one string and nothing else, without unpickling.

    Raises:
        UnreadableTestsError: It holds anything else: another object, a call, a second value.
    """
    texts = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in TEXT_OPCODES:
                texts.append(argument)
            elif opcode.name not in FRAME_OPCODES:
                raise UnreadableTestsError("private tests hold more than a text")
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, UnreadableTestsError):
            raise
        raise UnreadableTestsError("private tests are no pickle") from error
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise UnreadableTestsError("private tests hold more than a text")
    return texts[0]


def unpack(field: str) -> list[dict[str, Any]]:
    """Test cases from a field: plain JSON, or base64 of zlib of a pickled JSON string."""
    if field.lstrip().startswith("["):
        return read_json(field)
    try:
        expander = zlib.decompressobj()
        data = expander.decompress(base64.b64decode(field, validate=True), MAX_UNPACKED)
    except (binascii.Error, zlib.error) as error:
        raise UnreadableTestsError("private tests cannot be unpacked") from error
    if expander.unconsumed_tail or not expander.eof:
        raise UnreadableTestsError("private tests are cut or too large")
    return read_json(pickled_text(data))


def make_problem(raw: Mapping[str, Any]) -> Problem:
    """A row as a problem; functional tests call the starter code's method."""
    found = unpack(raw["public_test_cases"]) + unpack(raw["private_test_cases"])
    kinds = {case["testtype"] for case in found}
    if len(kinds) != 1:
        raise UnreadableTestsError("tests of several kinds" if kinds else "no tests")
    question, starter = raw["question_content"].strip(), (raw["starter_code"] or "").strip()
    if starter:
        question += f"\n\nComplete this code:\n```python\n{starter}\n```"
    if kinds == {"functional"}:
        name = read_json(raw["metadata"]).get("func_name")
        cases: list[dict[str, Any]] = [
            {
                "args": [read_json(line) for line in case["input"].split("\n") if line.strip()],
                "expected": read_json(case["output"]),
            }
            for case in found
        ]
    else:
        name = None
        cases = [{"input": case["input"], "output": case["output"]} for case in found]
    return Problem(
        id=f"livecodebench/{raw['platform']}-{raw['question_id']}",
        question=question,
        answer="",
        verifier="code",
        tests=CodeTests(cases=trim(cases), fn_name=name),
        difficulty=RATINGS.get(raw["difficulty"]),
        topic=raw["platform"],
        source=DATA.repo,
    )


def _load(split: str, *, after: str = "", before: str = "") -> Iterator[Problem | Rejected]:
    found = rows(DATA, split, task="livecodebench")
    inside = (
        raw
        for raw in found
        if after <= raw["contest_date"][:10] and (not before or raw["contest_date"][:10] < before)
    )
    return read_problems(inside, make_problem)


def _windowed(name: str) -> Task:
    """The task of `livecodebench?after=...&before=...`."""
    _, options = parse_name(name, allowed=("after", "before"))
    for key, value in options.items():
        try:
            datetime.date.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"{name!r}: {key} must be a date such as 2024-08-01, got {value!r}"
            ) from None
    whole = find_task("livecodebench")
    return replace(whole, name=name, load=lambda split, seed: _load(split, **options))


register_task(
    "livecodebench",
    partial(_load),
    sizes={"test": None},
    verifier="code",
    source=f"hf:{DATA.repo}@{DATA.revision[:7]}",
    licence="CC",
    description="contest problems by date of publication",
    offline=partial(is_here, DATA),
)
register_family(
    "livecodebench?after=2024-08-01&before=2025-02-01",
    _windowed,
    claims=lambda name: name.startswith("livecodebench?"),
)
