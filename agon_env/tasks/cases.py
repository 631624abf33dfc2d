"""Unit tests as data sets store them -> cases of `CodeTests`, cut to what one verdict can afford.

Three shapes: pairs of input and output lists (CodeContests), a JSON mapping with `fn_name` (APPS,
TACO), assert statements (MBPP, HumanEval). Whatever cannot be read faithfully is refused with a
reason, never guessed: a wrong test teaches the wrong thing.
Nothing here runs code: assert statements are read as syntax trees with literal values.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from typing import Any

from agon_env.types import CodeTests

MAX_CASES = 50
"""Tests kept per problem, in the order given: public before private before generated."""
MAX_BYTES = 2_000_000
"""Text of all kept tests of a problem, bytes; larger tests are passed over."""


class UnreadableTestsError(ValueError):
    """The tests of a row are none that can be run and compared; the text is the short reason."""


def stdin_cases(inputs: Iterable[Any], outputs: Iterable[Any]) -> list[dict[str, str]]:
    """Pair programs' inputs with outputs; lists of lines are joined."""
    ins, outs = list(inputs), list(outputs)
    if len(ins) != len(outs):
        raise UnreadableTestsError("inputs and outputs differ in number")
    return [{"input": _text(i), "output": _text(o)} for i, o in zip(ins, outs, strict=True)]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    raise UnreadableTestsError("an input or output is no text")


def trim(cases: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The first `MAX_CASES` different cases that fit into `MAX_BYTES` together."""
    kept: list[dict[str, Any]] = []
    seen: set[str] = set()
    room = MAX_BYTES
    for case in cases:
        text = json.dumps(case)
        if text in seen or len(text) > room:
            continue
        seen.add(text)
        kept.append(case)
        room -= len(text)
        if len(kept) == MAX_CASES:
            break
    if not kept:
        raise UnreadableTestsError("no tests")
    return tuple(kept)


def read_json(text: Any) -> Any:
    """JSON of a data set's field; already parsed values are passed through."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError as error:  # includes integers beyond Python's limit of digits
        raise UnreadableTestsError("tests are no readable JSON") from error


def apps_tests(input_output: Any) -> CodeTests:
    """Tests of APPS and TACO: {"inputs": [...], "outputs": [...], "fn_name": optional}.

    With `fn_name` an input is the list of arguments. Where every output is a list of one value,
    that value is meant, as the data sets' own graders accept.

    Raises:
        UnreadableTestsError: There are none, or they are no JSON or not of this shape.
    """
    raw = read_json(input_output)
    if not isinstance(raw, Mapping) or not raw.get("inputs") or not raw.get("outputs"):
        raise UnreadableTestsError("no tests")
    inputs, outputs = raw["inputs"], raw["outputs"]
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise UnreadableTestsError("inputs or outputs are no list")
    name = raw.get("fn_name")
    if not name:
        return CodeTests(cases=trim(stdin_cases(inputs, outputs)))
    if len(inputs) != len(outputs) or not all(isinstance(i, list) for i in inputs):
        raise UnreadableTestsError("arguments are no lists")
    if all(isinstance(o, list) and len(o) == 1 for o in outputs):
        outputs = [o[0] for o in outputs]
    cases = ({"args": i, "expected": o} for i, o in zip(inputs, outputs, strict=True))
    return CodeTests(cases=trim(cases), fn_name=name)


def assert_tests(source: str, *, fn_name: str | None = None) -> CodeTests:
    """Tests written as `assert f(literals) == literal`, also inside one function (`check`).

    Args:
        fn_name: Name to call instead of the one in the asserts (HumanEval's `candidate`).

    Raises:
        UnreadableTestsError: An assert is of another form, calls another function, or has
            arguments that are no JSON (tuples, sets): all tests count, so none is dropped.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UnreadableTestsError("tests are no Python") from error
    body: list[ast.stmt] = []
    for statement in tree.body:
        body += statement.body if isinstance(statement, ast.FunctionDef) else [statement]
    cases = []
    names = set()
    for statement in body:
        if _is_harmless(statement):
            continue
        if not isinstance(statement, ast.Assert):
            raise UnreadableTestsError("tests are more than asserts")
        name, case = _assert_case(statement.test)
        names.add(name)
        cases.append(case)
    if len(names) != 1:
        raise UnreadableTestsError("tests call several functions" if names else "no tests")
    return CodeTests(cases=trim(cases), fn_name=fn_name or names.pop())


def _is_harmless(statement: ast.stmt) -> bool:
    """Statements that test nothing: docstrings, METADATA, `assert True`."""
    if isinstance(statement, (ast.Expr, ast.Pass)):
        return isinstance(statement, ast.Pass) or isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return [getattr(t, "id", "") for t in statement.targets] == ["METADATA"]
    return (
        isinstance(statement, ast.Assert)
        and isinstance(statement.test, ast.Constant)
        and bool(statement.test.value)
    )


def _assert_case(test: ast.expr) -> tuple[str, dict[str, Any]]:
    """Read `f(args) == expected` (or a bare or negated call as a truth value)."""
    expected: Any = True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, expected = test.operand, False
    elif isinstance(test, ast.Compare):
        if len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.Is)):
            raise UnreadableTestsError("an assert compares otherwise than by ==")
        expected = _literal(test.comparators[0])
        test = test.left
    if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name)) or test.keywords:
        raise UnreadableTestsError("an assert calls no plain function")
    arguments = [_literal(argument) for argument in test.args]
    if not _is_json(arguments):
        raise UnreadableTestsError("arguments are no JSON")
    return test.func.id, {"args": arguments, "expected": _as_json(expected)}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UnreadableTestsError("an assert holds no literal") from error


def _is_json(value: Any) -> bool:
    """Whether a value arrives unchanged when sent as JSON: no tuples, sets or odd keys."""
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(k, str) for k in value) and all(map(_is_json, value.values()))
    return value is None or isinstance(value, (str, int, float))


def _as_json(value: Any) -> Any:
    """An expected value in JSON's terms: a tuple is compared as a list."""
    if isinstance(value, (tuple, list)):
        return [_as_json(item) for item in value]
    if not _is_json(value):
        raise UnreadableTestsError("an expected value is no JSON")
    return value
