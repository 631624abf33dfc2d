"""The code judge: every case of the table has its verdict, and nothing of it survives."""

import glob
import json
import os
import random
import socket
from pathlib import Path

import pytest

from agon_env.types import CodeTests, Problem
from agon_env.verifiers import VerifierPool, isolation
from agon_env.verifiers.compare import same_output, same_value

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "verifier_code.jsonl").read_text().splitlines()
]
ELSEWHERE = {"whitespace", "float", "extraction"}
"""Kinds that pure functions decide; the quick run tests those on their own."""
CHEAP = [
    case
    for case in CASES
    if "max_wall_s" not in case and case["kind"] not in ELSEWHERE and case["id"] != "c-recursion-04"
]
QUICK = list({(case["kind"], case["verdict"]): case for case in reversed(CHEAP)}.values())
"""One of each kind and verdict; the slow run has all of them, behind every wall."""
WALLS = ["bubblewrap", "namespaces"]
ADD = [{"input": "3 4\n", "output": "7\n"}, {"input": "-10 25\n", "output": "15\n"}]


def problem_of(tests, **limits) -> Problem:
    return Problem("p", "q", "", verifier="code", tests=CodeTests.of({"cases": tests, **limits}))


def fenced(code: str) -> str:
    return f"Here it is.\n\n```python\n{code}\n```\n"


def judge_all(cases, way):
    """Verdict per case id, judged in one batch behind one way of isolation."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = str(listener.getsockname()[1])
    with pytest.MonkeyPatch.context() as patch, listener, VerifierPool(workers=2) as pool:
        patch.setenv("AGON_ISOLATION", way)
        if isolation() == "none":
            pytest.skip(f"{way} does not work on this system")
        pairs = []
        for case in cases:
            fresh = {"@RAND4@": f"{random.randrange(10_000):04}", "@PROBE_PORT@": port}
            text = json.dumps(case)
            for mark, value in fresh.items():
                text = text.replace(mark, value)
            case = json.loads(text)
            for name, value in case.get("env", {}).items():
                patch.setenv(name, value)
            limits = {"fn_name": case.get("fn_name"), **case.get("limits", {})}
            pairs.append((problem_of(case["tests"], **limits), case["submission"]))
        verdicts = pool.verify_many(pairs)
    return {case["id"]: verdict for case, verdict in zip(cases, verdicts, strict=True)}


def names_of_processes() -> set[str]:
    names = set()
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            names.add(Path(path).read_text().strip())
        except OSError:
            continue
    return names


def complaints(case, verdict) -> list[str]:
    """What is wrong with the verdict on a case, and what it left behind."""
    found = []
    if verdict.reason not in {case["verdict"], *case.get("also_ok", [])}:
        found.append(f"{case['verdict']} expected, got {verdict.reason}")
    if (verdict.correct is True) != (verdict.reason == "accepted"):
        found.append(f"correct is {verdict.correct} with {verdict.reason}")
    if "max_wall_s" in case and verdict.seconds > case["max_wall_s"] * len(case["tests"]):
        found.append(f"took {verdict.seconds} s")
    if os.path.exists(os.path.expanduser(case.get("must_not_create", "/nothing"))):
        found.append(f"made {case['must_not_create']}")
    if case.get("survivor_comm") in names_of_processes():
        found.append(f"{case['survivor_comm']} still runs")
    return found


def test_a_case_of_each_kind_has_its_verdict():
    """One batch judges them all: the pool starts once."""
    verdicts = judge_all(QUICK, "auto")
    wrong = {case["id"]: complaints(case, verdicts[case["id"]]) for case in QUICK}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.slow
@pytest.mark.parametrize("wall", WALLS)
def test_every_case_of_the_table_has_its_verdict_behind_every_wall(wall):
    verdicts = judge_all(CASES, wall)
    wrong = {case["id"]: complaints(case, verdicts[case["id"]]) for case in CASES}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=1) as pool:
        yield pool


SUM = "print(sum(map(int, input().split())))"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (fenced(SUM), "accepted"),
        (f"<think>{fenced('print(0)')}</think>{fenced(SUM)}", "accepted"),
        (f"<think>{fenced(SUM)}", "no_answer"),
        ("", "no_answer"),
        (" \n\t", "no_answer"),
        ("I do not know how.", "compile_error"),
        (fenced("\ud800 = 1"), "compile_error"),
        (fenced("while True: pass"), "time_limit"),
        (fenced("x = bytearray(10 << 30)"), "memory_limit"),
        (fenced("print('a' * 200_000)"), "output_limit"),
        (fenced("import numpy"), "runtime_error"),
    ],
)
def test_a_reply_has_its_reason(pool, text, reason):
    problem = problem_of(ADD, time_s=1, output_kb=100)
    assert pool.submit(problem, text).result().reason == reason


def test_all_tests_must_pass_unless_the_share_is_asked_for(pool):
    text = fenced("a, b = map(int, input().split())\nprint(a + b if a > 0 else 0)")
    whole = pool.submit(problem_of(ADD), text).result()
    assert (whole.correct, whole.reason, whole.value) == (False, "wrong_answer", 0.0)
    share = pool.submit(problem_of(ADD, partial=True), text).result()
    assert (share.correct, share.reason, share.value) == (False, "wrong_answer", 0.5)


def test_judging_stops_at_the_first_failure(pool):
    text = fenced("import time; time.sleep(0.5); print('no')")
    verdict = pool.submit(problem_of(ADD * 20), text).result()
    assert verdict.reason == "wrong_answer"
    assert verdict.seconds < 5


@pytest.mark.slow
def test_the_tests_together_have_a_limit(pool):
    text = fenced("import time; time.sleep(0.3); print(sum(map(int, input().split())))")
    assert pool.submit(problem_of(ADD, total_time_s=0.5), text).result().reason == "time_limit"
    assert pool.submit(problem_of(ADD, total_time_s=30), text).result().correct


@pytest.mark.parametrize(
    "tests",
    [[], [{"input": "1"}], [{"output": "1"}], [{"input": 1, "output": "1"}]],
)
def test_a_problem_without_usable_tests_is_never_a_pass_nor_the_models_fault(pool, tests):
    """Pitfall 64: nothing to check is not a pass."""
    assert pool.submit(problem_of(tests), fenced("print(1)")).result().correct is None


def test_the_public_function_judges_code():
    import agon_env

    problem = agon_env.Problem("a", "Add two.", "", verifier="code", tests=ADD)
    assert agon_env.verify(problem, fenced(SUM)).reason == "accepted"


CALL = [{"args": [2, 3], "expected": 5}]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("class Solution:\n def f(self, a, b): return a + b", "accepted"),
        ("def f(a: int, b: int) -> Optional[int]: return sum([a, b])", "accepted"),
        ("@lru_cache(None)\ndef f(a, b): return a + b", "accepted"),
        ("def f(a, b): return a + b\nif __name__ == '__main__': 1 / 0", "accepted"),
        ("class Solution:\n def g(self): pass\ndef f(a, b): return a + b", "accepted"),
        ("def f(a, b): print('noise'); return a + b", "accepted"),
        ("def f(a, b): return str(a + b)", "wrong_answer"),
        ("def f(a, b): return {a + b}", "wrong_answer"),
        ("def g(a, b): return a + b", "runtime_error"),
        ("def f(a): return a", "runtime_error"),
        ("import os\ndef f(a, b): os._exit(0)", "runtime_error"),
        ("def f(a, b): raise SystemExit", "runtime_error"),
        ("import os\ndef f(a, b):\n os.write(3, b'5'); os._exit(1)", "runtime_error"),
    ],
)
def test_a_called_function_has_its_reason(pool, code, reason):
    assert pool.submit(problem_of(CALL, fn_name="f"), fenced(code)).result().reason == reason


def test_a_name_of_the_prelude_is_no_solution(pool):
    problem = problem_of([{"args": [4, 6], "expected": 2}], fn_name="gcd")
    assert pool.submit(problem, fenced("def hcf(a, b): return 2")).result().correct is False
    assert pool.submit(problem, fenced("from math import gcd")).result().correct is True


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("7\n", "7", True),
        ("7", "\n 7 \r\n", True),
        ("1 2\n3", "1  2\n3\n\n", True),
        ("1 2\n3", "1\n2 3", False),
        ("1\n2", "1\n\n2", False),
        ("a b", "a\u00a0b", False),
        ("", "", True),
        ("", "None", False),
        ("7", "7\x00", False),
        ("0.5", "0.50000001", True),
        ("0.5", "0.500002", False),
        ("0.5", ".5", True),
        ("1e3", "1000", True),
        ("3.0", "3", True),
        ("3", "3.0", False),
        ("5000000.0", "5000002.0", True),
        ("5000000.0", "5000006.0", False),
        ("1000000007", "1000000008", False),
        ("1.0", "nan", False),
        ("1.0", "inf", False),
        ("1e999", "2e999", True),
        ("1.0", "1_0.0", False),
        ("1.0", "١.0", False),
        ("1.2.3", "1.2.30", False),
        ("Yes", "YES", False),
    ],
)
def test_outputs_are_compared_token_by_token(expected, got, same):
    assert same_output(expected.encode(), got.encode()) is same


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (5, 5, True),
        (5, 5.0, True),
        (5, 5.0000001, False),
        (5.0, 5, True),
        (0.1, 0.1 + 1e-9, True),
        (0.1, float("nan"), False),
        (float("inf"), float("inf"), True),
        (1.0, 10**400, False),
        (True, 1, True),
        (True, "True", False),
        (None, None, True),
        (None, False, False),
        ("a", "a ", False),
        ("5", 5, False),
        ([1, 2], [1, 2, 3], False),
        ((1, 2), [1, 2], True),
        ([1, 2], {"1": 2}, False),
        ({1: [0.5]}, {"1": [0.5000000001]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (10**18 + 1, 1e18, False),
    ],
)
def test_results_of_calls_are_compared_as_values(expected, got, same):
    assert same_value(expected, got) is same
