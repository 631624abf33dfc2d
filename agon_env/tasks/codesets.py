"""Programming data sets -> problems with unit tests: CodeContests, TACO, APPS, MBPP, HumanEval.

CodeContests' levels: by Codeforces rating where there is one (easy up to 1200, medium up to 1900),
else by the contest's own difficulty. Its splits are the published ones. TACO, APPS have no
validation set: a tenth of train, by content hash, is it. Only the columns with text and tests are
read; the solutions never cross the wire.
Left out and counted: problems whose tests cannot be read faithfully, with pictures, with input from
files, or with several right answers and no checker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from agon_env.tasks.cases import (
    UnreadableTestsError,
    apps_tests,
    assert_tests,
    stdin_cases,
    trim,
)
from agon_env.tasks.hub import HubData, is_here, rows
from agon_env.tasks.procedural import content_hash
from agon_env.tasks.registry import Rejected, register_task
from agon_env.types import CodeTests, Problem

Raw: TypeAlias = Mapping[str, Any]

CODE_CONTESTS = HubData(
    repo="deepmind/code_contests",
    revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
    files={
        "train": ("data/train-*.parquet",),
        "validation": ("data/valid-*.parquet",),
        "test": ("data/test-*.parquet",),
    },
    columns=(
        "name",
        "description",
        "public_tests",
        "private_tests",
        "generated_tests",
        "source",
        "difficulty",
        "cf_rating",
        "cf_tags",
        "time_limit",
        "memory_limit_bytes",
        "input_file",
        "output_file",
    ),
)
TACO = HubData(
    repo="BAAI/TACO",
    revision="d593ed0a2becbbc952230bb89be09189bf1056dc",
    files={"train": ("ALL/train-*.parquet",), "test": ("ALL/test-*.parquet",)},
    columns=("question", "starter_code", "input_output", "difficulty"),
)
APPS = HubData(
    repo="codeparrot/apps",
    revision="21e74ddf8de1a21436da12e3e653065c5213e9d1",
    files={"train": ("train.jsonl",), "test": ("test.jsonl",)},
    columns=("question", "starter_code", "input_output", "difficulty"),
)
MBPP = HubData(
    repo="google-research-datasets/mbpp",
    revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
    files={
        "train": ("full/train-*.parquet",),
        "validation": ("full/validation-*.parquet",),
        "test": ("full/test-*.parquet",),
    },
    columns=("task_id", "text", "test_list", "test_setup_code"),
)
HUMANEVAL = HubData(
    repo="openai/openai_humaneval",
    revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
    files={"test": ("openai_humaneval/test-*.parquet",)},
    columns=("task_id", "prompt", "test", "entry_point"),
)

LEVELS = {"easy": (0, 1200), "medium": (1201, 1900), "hard": (1901, 10_000)}
"""Codeforces rating from, to."""
CONTEST_LEVELS = {1: "easy", 2: "medium", 3: "hard", 4: "hard", 5: "hard", 7: "easy", 8: "medium"}
"""CodeContests' difficulty enum for unrated problems: EASY, MEDIUM, HARD.., first letters A, B."""
SLOWER = 3.0
"""Time limits are made for compiled languages; Python gets this many times as much."""
LEAST_MEMORY_MB = 256
MANY_ANSWERS = re.compile(
    r"(?:print|output|find|choose) any\b|any of them|multiple (?:answers|solutions)|"
    r"several (?:answers|solutions|optimal)|you (?:may|can) (?:print|output) any",
    re.I,
)
RATINGS = {
    "introductory": 1.0,
    "interview": 2.0,
    "competition": 3.0,
    "EASY": 1.0,
    "MEDIUM": 2.0,
    "MEDIUM_HARD": 3.0,
    "HARD": 4.0,
    "VERY_HARD": 5.0,
}


def contest_level(raw: Raw) -> str | None:
    """Level of a CodeContests row; None where the data set does not say."""
    rating = raw["cf_rating"]
    if not rating:
        return CONTEST_LEVELS.get(raw["difficulty"])
    return next(level for level, (low, high) in LEVELS.items() if low <= rating <= high)


def contest_problem(raw: Raw) -> Problem:
    """A row of CodeContests as a problem; raises UnreadableTestsError with the reason."""
    if raw["input_file"] or raw["output_file"]:
        raise UnreadableTestsError("input or output in files")
    if "<image>" in raw["description"]:
        raise UnreadableTestsError("picture in the text")
    if MANY_ANSWERS.search(raw["description"]):
        raise UnreadableTestsError("several right answers, no checker")
    cases: list[dict[str, str]] = []
    for field in ("public_tests", "private_tests", "generated_tests"):
        tests = raw[field] or {"input": [], "output": []}
        cases += stdin_cases(tests["input"], tests["output"])
    limit = raw["time_limit"] or {"seconds": 0, "nanos": 0}
    seconds = (limit["seconds"] or 0) + (limit["nanos"] or 0) / 1e9
    memory = math.ceil((raw["memory_limit_bytes"] or 0) / 2**20)
    tests = CodeTests(
        cases=trim(cases),
        time_s=max(SLOWER * seconds, 1.0) if seconds else CodeTests.time_s,
        memory_mb=max(memory, LEAST_MEMORY_MB) if memory else CodeTests.memory_mb,
    )
    return Problem(
        id=f"codecontests/{content_hash(raw['name'] + raw['description'])[:16]}",
        question=raw["description"].strip(),
        answer="",
        verifier="code",
        tests=tests,
        difficulty=float(raw["cf_rating"]) if raw["cf_rating"] else None,
        topic=next(iter(raw["cf_tags"] or []), None) or None,
        source=CODE_CONTESTS.repo,
    )


def apps_problem(raw: Raw, *, prefix: str, source: str) -> Problem:
    """A row of APPS or TACO as a problem."""
    starter = (raw["starter_code"] or "").strip()
    question = raw["question"].strip()
    if starter:
        question += f"\n\nStart from this code:\n```python\n{starter}\n```"
    return Problem(
        id=f"{prefix}/{content_hash(raw['question'] + starter)[:16]}",
        question=question,
        answer="",
        verifier="code",
        tests=apps_tests(raw["input_output"]),
        difficulty=RATINGS.get(raw["difficulty"]),
        topic=raw["difficulty"],
        source=source,
    )


def mbpp_problem(raw: Raw) -> Problem:
    """A row of MBPP as a problem; the first assert shows the signature, as the paper does."""
    if (raw["test_setup_code"] or "").strip():
        raise UnreadableTestsError("tests need set-up code")
    tests = assert_tests("\n".join(raw["test_list"]))
    first = raw["test_list"][0].strip()
    return Problem(
        id=f"mbpp/{raw['task_id']}",
        question=f"{raw['text'].strip()}\n\nThe function is called so:\n```python\n{first}\n```",
        answer="",
        verifier="code",
        tests=tests,
        source=MBPP.repo,
    )


def humaneval_problem(raw: Raw) -> Problem:
    """A row of HumanEval as a problem."""
    return Problem(
        id=raw["task_id"],
        question=f"Complete this function and give it whole:\n```python\n{raw['prompt']}```",
        answer="",
        verifier="code",
        tests=assert_tests(raw["test"], fn_name=raw["entry_point"]),
        source=HUMANEVAL.repo,
    )


def read_problems(
    raw_rows: Iterator[dict[str, Any]], make: Callable[[Raw], Problem]
) -> Iterator[Problem | Rejected]:
    """Every row as a problem or as a rejected row; a repeated row is rejected too."""
    seen: set[str] = set()
    for number, raw in enumerate(raw_rows):
        try:
            problem = make(raw)
        except UnreadableTestsError as error:
            yield Rejected(f"row {number}", str(error))
            continue
        if problem.id in seen:
            yield Rejected(f"row {number}", "duplicate")
            continue
        seen.add(problem.id)
        yield problem


def held_out(text: str) -> bool:
    """Whether a train row belongs to the validation set that the data set lacks: one in ten."""
    return int(content_hash(text)[:8], 16) % 10 == 0


def with_validation(data: HubData, split: str, *, task: str, key: str) -> Iterator[dict[str, Any]]:
    """Rows of a split, with a tenth of train as validation, chosen by the text of a column."""
    if split == "test":
        yield from rows(data, "test", task=task)
        return
    for raw in rows(data, "train", task=task):
        if held_out(raw[key]) == (split == "validation"):
            yield raw


def _contests(split: str, *, level: str) -> Iterator[Problem | Rejected]:
    found = rows(CODE_CONTESTS, split, task=f"codecontests-{level}")
    return read_problems((raw for raw in found if contest_level(raw) == level), contest_problem)


def _apps(split: str, *, data: HubData, task: str) -> Iterator[Problem | Rejected]:
    found = with_validation(data, split, task=task, key="question")
    return read_problems(found, partial(apps_problem, prefix=task, source=data.repo))


def _plain(
    split: str, *, data: HubData, task: str, make: Callable[[Raw], Problem]
) -> Iterator[Problem | Rejected]:
    return read_problems(rows(data, split, task=task), make)


def _register(
    name: str, load: Callable[..., Any], data: HubData, licence: str, description: str
) -> None:
    splits = ("test",) if set(data.files) == {"test"} else ("train", "validation", "test")
    register_task(
        name,
        load,
        sizes=dict.fromkeys(splits),
        verifier="code",
        source=f"hf:{data.repo}@{data.revision[:7]}",
        licence=licence,
        description=description,
        offline=partial(is_here, data),
    )


for _level, (_low, _high) in LEVELS.items():
    _register(
        f"codecontests-{_level}",
        partial(_contests, level=_level),
        CODE_CONTESTS,
        "CC-BY-4.0",
        f"contest problems, rating {_low} to {_high} or the like",
    )
for _name, _data, _licence in (("taco", TACO, "Apache-2.0"), ("apps", APPS, "MIT")):
    _register(
        _name,
        partial(_apps, data=_data, task=_name),
        _data,
        _licence,
        "programs and functions of several sites, with tests",
    )
_register(
    "mbpp",
    partial(_plain, data=MBPP, task="mbpp", make=mbpp_problem),
    MBPP,
    "CC-BY-4.0",
    "short functions, three asserts each",
)
_register(
    "humaneval",
    partial(_plain, data=HUMANEVAL, task="humaneval", make=humaneval_problem),
    HUMANEVAL,
    "MIT",
    "functions to complete from signature and docstring",
)
