"""A row of anybody's table -> a problem: which column is what, and what is wrong with which field.

Usual column names are found without asking (`ALIASES`); others are mapped by the caller. An error
names the row, the field and the column, and lists what was found and what is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agon_env.extract import answer_span
from agon_env.tasks.cases import UnreadableTestsError, apps_tests, read_json
from agon_env.tasks.procedural import content_hash
from agon_env.types import CodeTests, Problem

ALIASES: dict[str, tuple[str, ...]] = {
    "question": ("question", "problem", "prompt", "query", "instruction", "input", "question_text"),
    "answer": (
        "answer",
        "final_answer",
        "expected_answer",
        "ground_truth",
        "gold",
        "target",
        "solution",
        "output",
        "label",
    ),
    "tests": ("tests", "test_cases", "input_output"),
    "id": ("id", "unique_id", "problem_id", "question_id", "task_id", "uuid"),
    "difficulty": ("difficulty", "level", "rating"),
    "topic": ("topic", "subject", "category", "subfield"),
    "verifier": ("verifier",),
    "split": ("split",),
}
"""Field -> column names it is looked for under, best first, in any case."""
NEEDED = "a question and an answer (or tests)"


@dataclass(frozen=True)
class Columns:
    """Where each field of a problem stands in a table."""

    where: str
    """Name of the table, for messages."""
    of: Mapping[str, str]
    """Field -> column."""


def map_columns(found: Iterable[str], chosen: Mapping[str, str], *, where: str) -> Columns:
    """Decide which column is which field.

    Args:
        found: Column names of the table.
        chosen: Field -> column, from the user; these must exist.

    Raises:
        ValueError: A chosen column is missing, or none fits a needed field; lists all columns.
    """
    names = list(found)
    for field, column in chosen.items():
        if column not in names:
            raise ValueError(f"{where} has no column {column!r} for {field!r}; it has {names}")
    lower = {name.lower(): name for name in reversed(names)}
    mapped = dict(chosen)
    for field, aliases in ALIASES.items():
        free = (lower[a] for a in aliases if a in lower and lower[a] not in mapped.values())
        if field not in mapped and (column := next(free, None)):
            mapped[field] = column
    missing = [field for field in ("question", "answer") if field not in mapped]
    if "tests" in mapped and "answer" in missing:
        missing.remove("answer")
    if missing:
        usual = "; ".join(f"{field}: {', '.join(ALIASES[field])}" for field in missing)
        raise ValueError(
            f"{where} needs {NEEDED}; no column for {' and '.join(missing)} among {names}. Usual "
            f"names are {usual}. Map yours so: '{where}?{missing[0]}=COLUMN'"
        )
    return Columns(where, mapped)


def answer_text(value: Any) -> str:
    r"""A gold answer as text: numbers are written out, `... #### 7` and `... \boxed{7}` are cut.

    Raises:
        ValueError: The value is no answer: empty, true/false as a truth value, a mapping, a list
            of several.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        kind = "empty" if value is None else f"of type {type(value).__name__}"
        raise ValueError(f"is {kind}, but must be text or a number")
    if isinstance(value, float) and value != value:
        raise ValueError("is empty")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = str(value).strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    elif "\\boxed" in text and (span := answer_span(text)):
        text = span.text.strip()
    if not text:
        raise ValueError("is empty")
    return text


def read_rows(
    table: Iterable[tuple[str, Mapping[str, Any]]], columns: Columns, *, verifier: str | None = None
) -> Iterator[Problem]:
    """Every row as a problem.

    Args:
        table: (how the row is called, such as "row 3"; its fields).
        verifier: For rows that do not say; default: code where there are tests, else math.

    Raises:
        ValueError: A field is empty or of the wrong kind, or an id stands twice; one line that
            names the row, the field and the column.
    """
    seen: dict[str, str] = {}
    copies: dict[str, int] = {}
    for name, raw in table:
        try:
            problem = _problem(raw, columns, verifier)
        except _FieldError as error:
            column = columns.of.get(error.field)
            raise ValueError(
                f"{columns.where} {name}: field {error.field!r} (column {column!r}) {error}; "
                "mend or remove the row"
            ) from None
        if "id" not in columns.of:
            # The id is the content; a repeated question gets a number.
            copies[problem.id] = copies.get(problem.id, 0) + 1
            if copies[problem.id] > 1:
                problem = _renamed(problem, f"{problem.id}-{copies[problem.id]}")
        if problem.id in seen:
            raise ValueError(
                f"{columns.where} {name}: field 'id' (column {columns.of.get('id')!r}) must be "
                f"unique, {problem.id!r} is {seen[problem.id]} too"
            )
        seen[problem.id] = name
        yield problem


class _FieldError(ValueError):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _renamed(problem: Problem, name: str) -> Problem:
    return Problem(**{**vars(problem), "id": name})


def _problem(raw: Mapping[str, Any], columns: Columns, verifier: str | None) -> Problem:
    def get(field: str) -> Any:
        return raw.get(columns.of[field]) if field in columns.of else None

    question = get("question")
    if not isinstance(question, str):
        kind = "is empty" if question is None else f"is of type {type(question).__name__}"
        raise _FieldError("question", f"{kind}, but must be text")
    if not question.strip():
        raise _FieldError("question", "is empty")
    tests = None if get("tests") in (None, "") else _tests(get("tests"))
    answer = ""
    if tests is None or get("answer") not in (None, ""):
        try:
            answer = answer_text(get("answer"))
        except ValueError as error:
            raise _FieldError("answer", str(error)) from None
    name = get("id")
    if "id" in columns.of and (name is None or not str(name).strip()):
        raise _FieldError("id", "is empty")
    topic = get("topic")
    return Problem(
        id=content_hash(question.strip())[:16] if name is None else str(name).strip(),
        question=question.strip(),
        answer=answer,
        verifier=get("verifier") or verifier or ("math" if tests is None else "code"),
        tests=tests,
        difficulty=_difficulty(get("difficulty")),
        topic=None if topic is None else str(topic),
        source=columns.where,
    )


def _tests(value: Any) -> CodeTests:
    try:
        raw = read_json(value)
        if isinstance(raw, Mapping) and "inputs" in raw:
            return apps_tests(raw)
        tests = CodeTests.of(raw)
    except (UnreadableTestsError, TypeError, ValueError, AttributeError) as error:
        raise _FieldError("tests", f"cannot be read: {error}") from None
    keys = ({"input", "output"}, {"args", "expected"})
    for case in tests.cases:
        if not isinstance(case, Mapping) or not any(k <= set(case) for k in keys):
            shown = json.dumps(case, default=str)[:80]
            raise _FieldError("tests", f"needs input and output or args and expected, got {shown}")
    if not tests.cases:
        raise _FieldError("tests", "is empty")
    return tests


def _difficulty(value: Any) -> float | None:
    """A number, also in `Level 5`; None where there is none (names of levels are no numbers)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return None if value != value else float(value)
    if isinstance(value, str):
        text = value.lower().removeprefix("level").strip()
        try:
            return float(text)
        except ValueError:
            return None
    return None
