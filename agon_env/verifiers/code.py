"""A programming problem and a reply with a program -> what the program's tests say.

The last fenced Python block of the reply runs in a sandbox, one test at a time, and this side
compares what comes out. All tests must pass; `CodeTests.partial` makes the share of passed tests
the score. Stops at the first failure unless the share is asked for. Runs inside a pool worker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from agon_env.extract import code_block, visible_text
from agon_env.types import CodeTests, Problem, Reason, Verdict
from agon_env.verifiers.compare import same_output, same_value
from agon_env.verifiers.probe import find_isolation, require_isolation
from agon_env.verifiers.sandbox import End, Limits, Run, Sandbox, SandboxError

REASONS: Mapping[End, Reason] = {
    "crashed": "runtime_error",
    "time": "time_limit",
    "memory": "memory_limit",
    "output": "output_limit",
    "not_plain": "wrong_answer",
}
"""What a run that did not finish means."""


def judge_code(problem: Problem, text: str) -> Verdict:
    """Run the program in a reply against the problem's tests.

    Args:
        problem: Its `tests` hold the cases and the limits of each run.
        text: The whole reply; any string.

    Returns:
        accepted or the first failure's reason, no_answer without a program. Unscored
        (`correct=None`) when the problem has no usable tests or the sandbox does not start.

    Raises:
        RuntimeError: There is no sandbox on this system.
    """
    tests = problem.tests
    if tests is None or not tests.cases or not all(map(_is_usable(tests), tests.cases)):
        return Verdict(None, "error")  # a data error: never a pass, and not the model's fault
    visible = visible_text(text)
    block = None if visible is None else code_block(visible)
    if block is None or not block.text.strip():
        return Verdict(False, "no_answer")
    limits = Limits(tests.time_s, tests.memory_mb, tests.output_kb)
    try:
        with Sandbox(_source(block.text), limits, require_isolation()) as sandbox:
            return _judge(tests, sandbox, block.text)
    except SandboxError:
        return Verdict(None, "unscorable", block.text)


def warm_up() -> None:
    """Find out which isolation works here before a verdict's clock runs."""
    find_isolation()


def _judge(tests: CodeTests, sandbox: Sandbox, code: str) -> Verdict:
    if not sandbox.compiles():
        return Verdict(False, "compile_error", code)
    left = tests.total_time_s
    passed = 0
    failure: Reason | None = None
    for case in tests.cases:
        start = time.monotonic()
        reason = _run_case(tests, case, sandbox, min(tests.time_s, left))
        left -= time.monotonic() - start
        if reason == "accepted":
            passed += 1
        else:
            failure = failure or reason
            if not tests.partial:
                break
        if left <= 0 and case is not tests.cases[-1]:
            failure = failure or "time_limit"
            break
    score = passed / len(tests.cases) if tests.partial else None
    return Verdict(failure is None, failure or "accepted", code, score=score)


def _run_case(tests: CodeTests, case: Mapping[str, Any], sandbox: Sandbox, time_s: float) -> Reason:
    if tests.fn_name is not None:
        run = sandbox.call(tests.fn_name, list(case["args"]), time_s)
        right = run.end == "finished" and _is_result(run, case["expected"])
        if run.end == "finished" and not run.output:
            return "runtime_error"  # left without returning: no result is never a pass
    else:
        run = sandbox.run(_bytes(case["input"]), time_s)
        right = run.end == "finished" and same_output(_bytes(case["output"]), run.output)
    if run.end != "finished":
        return REASONS[run.end]
    return "accepted" if right else "wrong_answer"


def _is_result(run: Run, expected: Any) -> bool:
    try:
        return same_value(expected, json.loads(run.output))
    except (ValueError, RecursionError):  # no JSON: the submission wrote it by itself
        return False


def _is_usable(tests: CodeTests) -> Callable[[Mapping[str, Any]], bool]:
    """A predicate: does this case hold what the mode of the tests needs?"""
    if tests.fn_name is None:
        return lambda case: all(isinstance(case.get(key), str) for key in ("input", "output"))
    return lambda case: (
        "expected" in case
        and isinstance(case.get("args"), (list, tuple))
        and _is_plain([case["args"], case["expected"]])
    )


def _is_plain(values: Any) -> bool:
    try:
        return bool(json.dumps(values))
    except (TypeError, ValueError):
        return False


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _source(code: str) -> bytes:
    return code.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
