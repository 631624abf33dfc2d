r"""Mathematics data sets for transfer and quick work -> problems with one final answer.

`gsm8k` (its validation set is a tenth of train, by content hash), `math500`, `aime24`, `aime25`,
`amc23` and `olympiadbench` (English, text only) have a test split only: they are for evaluation.
What a source wraps around the answer is taken off here: GSM8K's `####`, AMC's `27.0`,
OlympiadBench's list and dollars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from agon_env.tasks.codesets import with_validation
from agon_env.tasks.hub import HubData, is_here, rows
from agon_env.tasks.procedural import content_hash
from agon_env.tasks.registry import Rejected, register_task
from agon_env.types import Problem

Raw: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class TransferSet:
    """A data set and how its rows are read."""

    data: HubData
    read: Callable[[Raw], tuple[str, str, float | None, str | None]]
    """Row -> question, answer, difficulty, topic; an answer of "" is rejected."""
    licence: str
    description: str


def gsm8k_answer(text: str) -> str:
    """The number after the last `####`, without thousands separators."""
    _, mark, answer = text.rpartition("####")
    return answer.strip().replace(",", "") if mark else ""


def whole_number(value: Any) -> str:
    """`27.0` -> `27`, `025` -> `25`: contests whose answers are integers store them variously."""
    text = str(value).strip().removeprefix("$").removesuffix("$")
    number = text.removesuffix(".0")
    return str(int(number)) if number.isdecimal() else text


def olympiad_answer(row: Raw) -> str:
    """OlympiadBench's list of final answers as one text; "" when people must judge it."""
    if row["answer_type"] == "Need_human_evaluate" or row["error"]:
        return ""
    parts = [str(part).strip().strip("$").strip() for part in row["final_answer"] or []]
    return ", ".join(part for part in parts if part)


def _level(row: Raw) -> float | None:
    return None if row["level"] is None else float(row["level"])


SETS = {
    "gsm8k": TransferSet(
        HubData(
            "openai/gsm8k",
            "cc7b047b6e5bb11b4f1af84efc572db110a51b3c",
            {"train": ("main/train-*.parquet",), "test": ("main/test-*.parquet",)},
            ("question", "answer"),
        ),
        lambda row: (row["question"], gsm8k_answer(row["answer"]), None, None),
        "MIT",
        "grade school word problems",
    ),
    "math500": TransferSet(
        HubData(
            "HuggingFaceH4/MATH-500",
            "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
            {"test": ("test.jsonl",)},
            ("problem", "answer", "subject", "level"),
        ),
        lambda row: (row["problem"], row["answer"], _level(row), row["subject"]),
        "MIT",
        "500 problems of MATH's test set",
    ),
    "aime24": TransferSet(
        HubData(
            "HuggingFaceH4/aime_2024",
            "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
            {"test": ("data/train-*.parquet",)},
            ("problem", "answer"),
        ),
        lambda row: (row["problem"], whole_number(row["answer"]), None, None),
        "Apache-2.0",
        "AIME 2024, I and II",
    ),
    "aime25": TransferSet(
        HubData(
            "math-ai/aime25",
            "563bb8404243c5f09de6ec262f2db674fe5bce9b",
            {"test": ("test.jsonl",)},
            ("problem", "answer"),
        ),
        lambda row: (row["problem"], whole_number(row["answer"]), None, None),
        "Apache-2.0",
        "AIME 2025, I and II",
    ),
    "amc23": TransferSet(
        HubData(
            "math-ai/amc23",
            "80815d37005feb82cd7f8fbc6901d5d3eff43057",
            {"test": ("test-*.parquet",)},
            ("question", "answer"),
        ),
        lambda row: (row["question"], whole_number(row["answer"]), None, None),
        "Apache-2.0",
        "AMC 12, 2023",
    ),
    "olympiadbench": TransferSet(
        HubData(
            "Hothan/OlympiadBench",
            "main",
            {"test": ("OlympiadBench/OE_TO_maths_en_COMP/*.parquet",)},
            ("question", "final_answer", "subfield", "answer_type", "error"),
        ),
        lambda row: (row["question"], olympiad_answer(row), None, row["subfield"]),
        "Apache-2.0",
        "olympiad problems in English, text only",
    ),
}


def _load(split: str, *, name: str) -> Iterator[Problem | Rejected]:
    source = SETS[name]
    if "train" in source.data.files:
        found = with_validation(source.data, split, task=name, key="question")
    else:
        found = rows(source.data, split, task=name)
    seen: set[str] = set()
    for number, row in enumerate(found):
        question, answer, difficulty, topic = source.read(row)
        digest = content_hash(question)[:16]
        if not answer or digest in seen:
            yield Rejected(f"row {number}", "duplicate" if answer else "no checkable answer")
            continue
        seen.add(digest)
        yield Problem(
            id=f"{name}/{digest}",
            question=question.strip(),
            answer=answer,
            difficulty=difficulty,
            topic=topic,
            source=source.data.repo,
        )


for _name, _set in SETS.items():
    _splits = ("train", "validation", "test") if "train" in _set.data.files else ("test",)
    register_task(
        _name,
        partial(_load, name=_name),
        sizes=dict.fromkeys(_splits),
        source=f"hf:{_set.data.repo}@{_set.data.revision[:7]}",
        licence=_set.licence,
        description=_set.description,
        checks_golds=True,
        offline=partial(is_here, _set.data),
    )
