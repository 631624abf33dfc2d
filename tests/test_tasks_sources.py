"""Code and transfer sets on rows in the published schemas, served by a hub on loopback."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import COMMIT, Hub, serve

from agon_env.tasks import find_task, livecodebench, load_problems, load_report, tasks
from agon_env.tasks import golds as golds_module
from agon_env.tasks.cases import (
    MAX_CASES,
    UnreadableTestsError,
    apps_tests,
    assert_tests,
    trim,
)
from agon_env.tasks.codesets import (
    APPS,
    CODE_CONTESTS,
    HUMANEVAL,
    MBPP,
    TACO,
    contest_level,
    contest_problem,
)
from agon_env.tasks.hub import DataNotHereError, HubData
from agon_env.tasks.livecodebench import DATA as LCB
from agon_env.tasks.livecodebench import pickled_text, unpack
from agon_env.tasks.transfer import SETS, gsm8k_answer, whole_number
from agon_env.verifiers import isolation, verify


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with serve(tmp_path / "hub") as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def publish(hub: Hub, data: HubData, name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows as one file of a data set."""
    path = hub.root / data.repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def contest(name: str, **changes: Any) -> dict[str, Any]:
    """A row of deepmind/code_contests with every column of the published schema."""
    row = {
        "name": name,
        "description": f"Problem {name}. Print the sum of the two numbers.",
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["5 7\n"], "output": ["12\n"]},
        "generated_tests": {"input": ["1 2\n", "10 20\n"], "output": ["3\n", "30\n"]},
        "source": 2,
        "difficulty": 7,
        "solutions": {"language": [3] * 40, "solution": [os.urandom(3000).hex()] * 40},
        "incorrect_solutions": {"language": [3], "solution": ["print(0)"]},
        "cf_contest_id": 1,
        "cf_index": "A",
        "cf_points": 500.0,
        "cf_rating": 800,
        "cf_tags": ["math"],
        "is_description_translated": False,
        "untranslated_description": "",
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 64_000_000,
        "input_file": "",
        "output_file": "",
    }
    return row | changes


def test_codecontests_become_problems_with_all_tests_and_limits(hub: Hub) -> None:
    for split in ("train", "valid", "test"):
        name = f"data/{split}-00000-of-00001-9c49eeff30aacaa8.parquet"
        rows = [contest(f"{split} {i}", cf_rating=800 + 500 * i) for i in range(4)]
        publish(hub, CODE_CONTESTS, name, rows)
    problems = load_problems("codecontests-easy", "validation")
    assert [p.question[:16] for p in problems] == ["Problem valid 0."]
    tests = problems[0].tests
    assert tests is not None
    assert [case["input"] for case in tests.cases] == ["1 2\n", "5 7\n", "10 20\n"]
    assert (tests.time_s, tests.memory_mb, tests.fn_name) == (4.5, 256, None)
    assert len(load_problems("codecontests-hard", "train")) == 1
    total = sum(p.stat().st_size for p in hub.root.rglob("*.parquet"))
    assert sum(hub.sent.values()) < total, "the solutions stay where they are"


@pytest.mark.skipif(isolation() == "none", reason="no sandbox on this machine")
def test_a_loaded_contest_problem_is_judged_by_its_tests() -> None:
    problem = contest_problem(contest("sum"))
    right = "```python\nprint(sum(map(int, input().split())))\n```"
    wrong = "```python\nprint(3)\n```"
    assert verify(problem, right).reason == "accepted"
    assert verify(problem, wrong).reason == "wrong_answer"


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"cf_rating": 1200}, "easy"),
        ({"cf_rating": 1300}, "medium"),
        ({"cf_rating": 1900}, "medium"),
        ({"cf_rating": 2000}, "hard"),
        ({"cf_rating": 0, "difficulty": 1}, "easy"),
        ({"cf_rating": 0, "difficulty": 3}, "hard"),
        ({"cf_rating": 0, "difficulty": 0}, None),
        ({"cf_rating": 0, "difficulty": 6}, None),
    ],
)
def test_levels_of_contest_problems(changes: dict[str, int], level: str | None) -> None:
    assert contest_level(contest("x", **changes)) == level


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"input_file": "in.txt"}, "in files"),
        ({"description": "See <image> and add."}, "picture"),
        ({"description": "If there are several answers, print any of them."}, "several right"),
        ({"public_tests": {"input": ["1"], "output": []}}, "differ in number"),
    ],
)
def test_contest_problems_that_cannot_be_judged_fairly_are_refused(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnreadableTestsError, match=reason):
        contest_problem(contest("x", **changes))


def test_tests_are_cut_to_what_a_verdict_can_afford_and_repeats_are_dropped() -> None:
    cases = [{"input": str(i // 2), "output": "x"} for i in range(300)]
    kept = trim([{"input": "y" * 3_000_000, "output": ""}, *cases])
    assert len(kept) == MAX_CASES
    assert [case["input"] for case in kept] == [str(i) for i in range(MAX_CASES)]


@pytest.mark.parametrize(
    ("raw", "cases", "name"),
    [
        (
            {"inputs": ["1 2", ["3", "4"]], "outputs": ["3\n", ["7"]]},
            ({"input": "1 2", "output": "3\n"}, {"input": "3\n4", "output": "7"}),
            None,
        ),
        (
            {"fn_name": "add", "inputs": [[1, 2], [3, 4]], "outputs": [[3], [7]]},
            ({"args": [1, 2], "expected": 3}, {"args": [3, 4], "expected": 7}),
            "add",
        ),
        (
            {"fn_name": "pair", "inputs": [[1], [2]], "outputs": [[1, 1], [2, 2]]},
            ({"args": [1], "expected": [1, 1]}, {"args": [2], "expected": [2, 2]}),
            "pair",
        ),
    ],
)
def test_apps_and_taco_tests_are_read_in_both_modes(
    raw: dict[str, Any], cases: tuple[dict[str, Any], ...], name: str | None
) -> None:
    tests = apps_tests(json.dumps(raw))
    assert (tests.cases, tests.fn_name) == (cases, name)


@pytest.mark.parametrize(
    "raw",
    ["", "{", "[]", "{}", '{"inputs": [], "outputs": []}', '{"inputs": [' + "9" * 5000 + "]}"],
)
def test_unreadable_apps_tests_are_refused(raw: str) -> None:
    with pytest.raises(UnreadableTestsError):
        apps_tests(raw)


@pytest.mark.parametrize(
    ("source", "cases"),
    [
        ("assert f(1, [2]) == 3", ({"args": [1, [2]], "expected": 3},)),
        ("assert f('a') == (1, 'b')", ({"args": ["a"], "expected": [1, "b"]},)),
        (
            "assert f(-1.5)\nassert not f(2)",
            ({"args": [-1.5], "expected": True}, {"args": [2], "expected": False}),
        ),
        (
            "METADATA = 1\ndef check(f):\n    'd'\n    assert True\n    assert f({'a': 1}) == None",
            ({"args": [{"a": 1}], "expected": None},),
        ),
    ],
)
def test_asserts_with_literals_become_cases(source: str, cases: tuple[dict[str, Any], ...]) -> None:
    assert assert_tests(source).cases == cases


@pytest.mark.parametrize(
    "source",
    [
        "assert f((1, 2)) == 3",
        "assert f({1}) == 3",
        "assert f(1) > 3",
        "assert abs(f(1) - 3) < 1e-6",
        "assert f(1) == 2\nassert g(1) == 2",
        "assert f(__import__('os').getpid()) == 1",
        "for i in range(3):\n    assert f(i) == i",
        "x = 3\nassert f(1) == 2",
        "assert f(x) == 2",
        "assert f(k=1) == 2",
        "not python",
        "",
    ],
)
def test_asserts_that_are_no_plain_comparison_of_literals_are_refused(source: str) -> None:
    with pytest.raises(UnreadableTestsError):
        assert_tests(source)


def test_mbpp_and_humaneval_load_and_count_what_they_refuse(hub: Hub) -> None:
    row = {
        "task_id": 2,
        "text": "Write a function to add.",
        "code": "def add(a, b): return a + b",
        "test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"],
        "test_setup_code": "",
        "challenge_test_list": [],
    }
    odd = {**row, "task_id": 3, "test_list": ["assert set(add(1, 2)) == {3}"]}
    publish(hub, MBPP, "full/test-00000-of-00001.parquet", [row, odd])
    report = load_report("mbpp", "test")
    (problem,) = report.problems
    assert problem.tests is not None
    assert problem.tests.fn_name == "add"
    assert "assert add(1, 2) == 3" in problem.question
    assert report.rejected == {"an assert holds no literal": 1}

    human = {
        "task_id": "HumanEval/0",
        "prompt": 'def twice(x):\n    """Double."""\n',
        "canonical_solution": "    return 2 * x\n",
        "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2) == 4\n",
        "entry_point": "twice",
    }
    publish(hub, HUMANEVAL, "openai_humaneval/test-00000-of-00001.parquet", [human])
    (problem,) = load_problems("humaneval", "test")
    assert problem.tests is not None
    assert (problem.id, problem.tests.fn_name) == ("HumanEval/0", "twice")
    assert "canonical" not in problem.question


def test_taco_and_apps_have_a_validation_tenth_by_content(hub: Hub) -> None:
    rows = [
        {
            "question": f"Add {i} to the number.",
            "solutions": "[]",
            "starter_code": "",
            "input_output": json.dumps({"inputs": ["1"], "outputs": [str(1 + i)]}),
            "difficulty": "EASY",
            "name": "n",
            "source": "s",
            "url": "u",
        }
        for i in range(120)
    ]
    publish(hub, TACO, "ALL/train-00000-of-00001.parquet", rows)
    train, validation = (load_problems("taco", split) for split in ("train", "validation"))
    assert len(train) + len(validation) == 120
    assert 3 <= len(validation) <= 25
    assert not {p.question for p in train} & {p.question for p in validation}
    apps_rows = [{**row, "id": i, "difficulty": "introductory"} for i, row in enumerate(rows)]
    publish(hub, APPS, "train.jsonl", apps_rows)
    assert {p.question for p in load_problems("apps", "validation")} == {
        p.question for p in validation
    }


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch /tmp/agon_pickle_was_run",)


def packed(value: object, protocol: int = 4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_text_is_read_whatever_the_protocol(protocol: int) -> None:
    for text in ("[]", "ä" * 300, "x" * 70_000):
        assert pickled_text(pickle.dumps(text, protocol)) == text


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Evil()),
        pickle.dumps(["[]"]),
        pickle.dumps(("a", "b")),
        pickle.dumps(b"[]"),
        pickle.dumps(1),
        b"cos\nsystem\n(S'id'\ntR.",
        b"junk",
        b"",
        pickle.dumps("[]")[:-1],
    ],
)
def test_a_pickle_gets_no_power_and_anything_but_a_text_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableTestsError):
        pickled_text(data)
    assert not Path("/tmp/agon_pickle_was_run").exists()


@pytest.mark.parametrize("field", ["%%%", "AAAA", packed([1]), packed("{")])
def test_packed_tests_that_are_none_are_refused(field: str) -> None:
    with pytest.raises(UnreadableTestsError):
        unpack(field)


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livecodebench, "MAX_UNPACKED", 10_000)
    with pytest.raises(UnreadableTestsError, match="too large"):
        unpack(packed("[" + " " * 50_000 + "]"))


def lcb_row(number: int, date: str, **changes: Any) -> dict[str, Any]:
    """A row of livecodebench/code_generation_lite."""
    public = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
    private = [{"input": "2 2\n", "output": "4\n", "testtype": "stdin"}]
    row = {
        "question_title": "A",
        "question_content": f"Add two numbers ({number}).",
        "platform": "atcoder",
        "question_id": f"abc{number}_a",
        "contest_id": f"abc{number}",
        "contest_date": f"{date}T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(json.dumps(private)),
        "metadata": "{}",
    }
    return row | changes


def test_livecodebench_reads_all_files_both_modes_and_a_date_window(hub: Hub) -> None:
    call = lcb_row(
        2,
        "2024-09-01",
        platform="leetcode",
        starter_code="class Solution:\n    def add(self, a: int, b: List[int]) -> int:\n        ",
        metadata=json.dumps({"func_name": "add"}),
        public_test_cases=json.dumps(
            [{"input": "1\n[2, 3]", "output": "6", "testtype": "functional"}]
        ),
        private_test_cases=packed(
            json.dumps([{"input": "4\n[]", "output": "4", "testtype": "functional"}])
        ),
    )
    evil = lcb_row(3, "2024-10-01", private_test_cases=packed(Evil()))
    files = {"test.jsonl": [lcb_row(1, "2023-05-01")], "test2.jsonl": [call, evil]}
    for number in range(3, 7):
        files[f"test{number}.jsonl"] = [lcb_row(10 + number, "2025-02-01")]
    for name, rows in files.items():
        publish(hub, LCB, name, rows)
    report = load_report("livecodebench", "test")
    assert len(report.problems) == 6
    assert report.rejected == {"private tests hold more than a text": 1}
    stdin, function = report.problems[:2]
    assert stdin.tests is not None
    assert [case["output"] for case in stdin.tests.cases] == ["3\n", "4\n"]
    assert function.tests is not None
    assert function.tests.fn_name == "add"
    assert function.tests.cases[0] == {"args": [1, [2, 3]], "expected": 6}
    assert "class Solution" in function.question
    assert not Path("/tmp/agon_pickle_was_run").exists()
    window = load_problems("livecodebench?after=2024-01-01&before=2025-02-01", "test")
    assert [p.id for p in window] == ["livecodebench/leetcode-abc2_a"]


@pytest.mark.parametrize(
    "name",
    ["livecodebench?after=yesterday", "livecodebench?until=2024-01-01", "livecodebench?after="],
)
def test_a_wrong_window_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be a date|unknown option|needs a value"):
        find_task(name)


TRANSFER_ROWS: dict[str, tuple[str, dict[str, Any], str]] = {
    "gsm8k": (
        "main/test-00000-of-00001.parquet",
        {"question": "How many?", "answer": "2+2=<<2+2=4>>4 eggs.\n#### 1,234"},
        "1234",
    ),
    "math500": (
        "test.jsonl",
        {
            "problem": "Convert.",
            "solution": r"So \boxed{x}",
            "answer": r"\left( 3, \frac{\pi}{2} \right)",
            "subject": "Precalculus",
            "level": 2,
            "unique_id": "test/precalculus/807.json",
        },
        r"\left( 3, \frac{\pi}{2} \right)",
    ),
    "aime24": (
        "data/train-00000-of-00001.parquet",
        {"id": 60, "problem": "P", "solution": "S", "answer": "025", "url": "u", "year": "2024"},
        "25",
    ),
    "aime25": ("test.jsonl", {"problem": "P", "answer": "70", "id": "0"}, "70"),
    "amc23": (
        "test-00000-of-00001.parquet",
        {"id": 0, "question": "Q", "answer": 27.0, "url": "u"},
        "27",
    ),
    "olympiadbench": (
        "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet",
        {
            "id": 1606,
            "question": "Q",
            "solution": ["S"],
            "final_answer": ["$\\frac{1}{2}$", "3"],
            "subfield": "Algebra",
            "answer_type": "Numerical",
            "error": None,
            "is_multiple_answer": True,
        },
        r"\frac{1}{2}, 3",
    ),
}


@pytest.mark.parametrize("name", sorted(SETS))
def test_transfer_sets_load_in_their_published_form(hub: Hub, name: str) -> None:
    file, row, answer = TRANSFER_ROWS[name]
    publish(hub, SETS[name].data, file, [row])
    (problem,) = load_problems(name, "test")
    assert problem.answer == answer
    assert SETS[name].data.revision in hub.revisions


def test_a_branch_stays_at_the_commit_of_the_first_load(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, row, _ = TRANSFER_ROWS["olympiadbench"]
    publish(hub, SETS["olympiadbench"].data, file, [row])
    load_problems("olympiadbench", "test")
    listing = json.loads(next((hub.root.parent / "home").rglob("files.json")).read_text())
    assert listing["commit"] == COMMIT
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert len(load_problems("olympiadbench", "test")) == 1


def test_golds_that_do_not_verify_against_themselves_are_rejected_and_counted(hub: Hub) -> None:
    """Pitfall 64: an unusable gold would pay nobody, or anybody."""
    rows = [
        {"problem": "a", "answer": "12", "id": "0"},
        {"problem": "b", "answer": r"\frac{1", "id": "1"},
        {"problem": "c", "answer": "7", "id": "2"},
    ]
    publish(hub, SETS["aime25"].data, "test.jsonl", rows)
    report = load_report("aime25", "test")
    assert [p.answer for p in report.problems] == ["12", "7"]
    assert report.rejected == {golds_module.BAD_GOLD: 1}
    assert [p.answer for p in load_problems("aime25", "test", limit=2)] == ["12", "7"]


def test_a_checked_gold_is_not_checked_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(hub, SETS["aime25"].data, "test.jsonl", [{"problem": "a", "answer": "12", "id": "0"}])
    first = load_problems("aime25", "test")

    def no_pool() -> None:
        raise AssertionError("the gold was checked again")

    monkeypatch.setattr(golds_module, "default_pool", no_pool)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load_problems("aime25", "test") == first


@pytest.mark.parametrize(
    ("text", "answer"), [("so #### 5", "5"), ("#### -1,000", "-1000"), ("no mark", "")]
)
def test_gsm8k_answers_stand_after_the_mark(text: str, answer: str) -> None:
    assert gsm8k_answer(text) == answer


@pytest.mark.parametrize(
    ("value", "text"), [(27.0, "27"), ("025", "25"), ("$7$", "7"), ("1.5", "1.5"), (0.0, "0")]
)
def test_whole_numbers_are_written_plainly(value: object, text: str) -> None:
    assert whole_number(value) == text


def test_every_hub_task_fails_in_the_documented_way_without_net(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    stored = [task for task in tasks() if task.source.startswith("hf:")]
    assert len(stored) >= 16
    for task in stored:
        assert not task.offline()
        with pytest.raises(DataNotHereError, match=rf"^{task.name} needs .*agon_env\.tasks"):
            load_problems(task.name, next(iter(task.sizes)))
