"""Files, folders and hub urls of the user; the errors they get; the puzzles of reasoning-gym."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import serve

from agon_env.tasks import find_task, load_problems, load_report, reasoning
from agon_env.tasks.columns import answer_text, map_columns
from agon_env.tasks.local import held_out_split
from agon_env.tasks.query import parse_name
from agon_env.types import Problem
from agon_env.verifiers import verify

ROWS: list[dict[str, Any]] = [
    {"question": "What is 1+1?", "answer": "2", "difficulty": 1.0},
    {"question": "What is 2+2?", "answer": "4", "difficulty": 2.5},
    {"question": 'Was ist $π$ gerundet, auf "eine" Stelle?', "answer": "3.1", "difficulty": 3.0},
]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps({"version": 1, "data": rows}))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return str(path)


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet"])
def test_every_file_format_gives_the_same_problems(tmp_path: Path, ending: str) -> None:
    problems = load_problems(write(tmp_path / f"mine.{ending}", ROWS))
    assert [(p.question, p.answer, p.difficulty) for p in problems] == [
        (r["question"], r["answer"], r["difficulty"]) for r in ROWS
    ]
    assert len({p.id for p in problems}) == 3


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_a_file_in_another_encoding_is_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"mine.{ending}"
    for encoding in ("utf-16", "latin-1"):
        path.write_text('question,answer\n"Länge",7\n', encoding=encoding)
        with pytest.raises(ValueError, match=rf"mine\.{ending} must be UTF-8 text"):
            load_problems(path)


def test_a_csv_cell_may_be_long_and_the_limit_of_the_process_stays(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    (problem,) = load_problems(
        write(tmp_path / "long.csv", [{"question": "x" * 200_000, "answer": "7"}])
    )
    assert len(problem.question) == 200_000
    assert csv.field_size_limit() == limit


def test_a_column_that_stands_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("question,answer,answer\np,7,8\n")
    with pytest.raises(ValueError, match=r"\['answer'\] stand more than once"):
        load_problems(path)


def test_an_empty_name_is_no_task() -> None:
    with pytest.raises(ValueError, match="a task has a name or a path, got ''"):
        load_problems("")


def test_a_code_problem_without_tests_is_refused_with_its_id(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", [{"id": "c7", "question": "p", "answer": "7"}])
    with pytest.raises(ValueError, match=r"'c7'.*the verifier 'code' needs tests, got none"):
        load_problems(f"{path}?verifier=code")


def test_a_path_object_is_as_good_as_a_string(tmp_path: Path) -> None:
    name = write(tmp_path / "mine.jsonl", ROWS)
    assert load_problems(Path(name)) == load_problems(name)


def test_ids_are_the_content_and_repeated_questions_are_numbered(tmp_path: Path) -> None:
    ids = [p.id for p in load_problems(write(tmp_path / "a.jsonl", [*ROWS, ROWS[0]]))]
    assert ids[3] == f"{ids[0]}-2"
    reordered = load_problems(write(tmp_path / "b.jsonl", ROWS[::-1]))
    assert [p.id for p in reordered] == ids[2::-1]


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"problem": "p", "solution": r"Thus \boxed{\frac{1}{2}}."}, r"\frac{1}{2}"),
        ({"Problem": "p", "Answer": 7}, "7"),
        ({"prompt": "p", "final_answer": "x"}, "x"),
        ({"instruction": "p", "ground_truth": [5.0]}, "5"),
        ({"question": "p", "answer": "2*3=6\n#### 6"}, "6"),
        ({"question": "p", "solution": "long text", "answer": "8"}, "8"),
    ],
)
def test_usual_columns_are_found_without_asking(
    tmp_path: Path, row: dict[str, Any], answer: str
) -> None:
    (problem,) = load_problems(write(tmp_path / "mine.jsonl", [row]))
    assert (problem.question, problem.answer) == ("p", answer)


def test_unusual_columns_are_mapped_behind_the_path(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", [{"q": "p", "key": "8", "who": "me"}])
    (problem,) = load_problems(f"{path}?question=q&answer=key&topic=who")
    assert (problem.question, problem.answer, problem.topic) == ("p", "8", "me")


def test_tests_make_a_code_problem(tmp_path: Path) -> None:
    rows = [
        {"question": "Add.", "tests": [{"input": "1 2", "output": "3"}]},
        {"question": "Add!", "tests": {"cases": [{"args": [1], "expected": 2}], "fn_name": "f"}},
        {"question": "Add?", "tests": json.dumps({"inputs": ["1"], "outputs": ["2"]})},
    ]
    problems = load_problems(write(tmp_path / "code.jsonl", rows))
    assert [p.verifier for p in problems] == ["code"] * 3
    assert problems[1].tests is not None
    assert problems[1].tests.fn_name == "f"
    assert problems[2].tests is not None
    assert problems[2].tests.cases == ({"input": "1", "output": "2"},)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"question": "a", "answer": ""}', r"line 1: field 'answer' \(column 'answer'\) is empty"),
        ('{"question": "a", "answer": null}', r"line 1: field 'answer' .* is empty"),
        ('{"question": "a", "answer": true}', r"field 'answer' .* of type bool"),
        ('{"question": "a", "answer": ["1", "2"]}', r"field 'answer' .* of type list"),
        ('\n{"problem": " ", "answer": "1"}', r"line 2: field 'question' \(column 'problem'\) is"),
        ('{"question": 3, "answer": "1"}', r"field 'question' .* of type int"),
        ('{"question": "a", "tests": [{"in": 1}]}', r"field 'tests' .* needs input and output"),
        ('{"question": "a", "tests": []}', r"field 'tests' .* is empty"),
        ('{"question": "a", "tests": "{"}', r"field 'tests' .* cannot be read"),
        ('{"id": "x", "question": "a", "answer": "1"}\n{"id": "x", "question": "b", "answer": "1"}',
         r"line 2: field 'id' \(column 'id'\) must be unique, 'x' is line 1 too"),
        ('{"question": "a", "answer": "1"}\n{broken', r"line 2: is no JSON"),
        ("[1]", r"line 1: must be a JSON object, got list"),
        ("", r"holds no rows"),
        ('{"text": "a", "label": "1"}', r"for question among \['text', 'label'\].*question=COLUMN"),
        ('{"question": "a", "points": "1"}', r"for answer among \['question', 'points'\]"),
    ],
)  # fmt: skip
def test_a_bad_row_is_one_line_that_names_row_field_and_column(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load_problems(path)
    assert "mine.jsonl" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_csv_row_with_too_many_cells_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('question,answer\n"a, b",1\nc, d,2\n')
    with pytest.raises(ValueError, match=r"line 3: has 3 cells, the header 2"):
        load_problems(path)


def test_a_broken_parquet_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    path.write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match=r"is no readable parquet file"):
        load_problems(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jsonl", "there is no file missing.jsonl"),
        ("mine.txt", r"must end in one of \.jsonl"),
        ("mine.jsonl?colour=red", "unknown option 'colour'"),
        ("mine.jsonl?question=", "needs a value"),
        ("mine.jsonl?question=nothing", r"no column 'nothing' for 'question'; it has \['question'"),
        ("mine.jsonl?split=dev", "split must be one of"),
        ("mine.jsonl?holdout=2", "holdout must be a share"),
        ("mine.jsonl?holdout=0.1&split=test", "either split or holdout"),
        ("empty", "must hold train.jsonl"),
    ],
)
def test_a_wrong_path_or_option_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mine.jsonl", ROWS)
    (tmp_path / "mine.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=message) as caught:
        load_problems(name)
    assert "\n" not in str(caught.value)


def test_a_single_file_is_never_silently_both_trained_on_and_tested_on(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", ROWS)
    with pytest.raises(
        ValueError, match=r"is one set of problems, its 'train' split.*holdout=0\.1"
    ):
        load_problems(path, "test")
    assert len(load_problems(f"{path}?split=test", "test")) == 3


def test_a_split_column_decides(tmp_path: Path) -> None:
    rows = [
        {**row, "split": split} for row, split in zip(ROWS, ("train", "dev", "test"), strict=True)
    ]
    path = write(tmp_path / "mine.jsonl", rows)
    found = [load_problems(path, split)[0].answer for split in ("train", "validation", "test")]
    assert found == ["2", "4", "3.1"]


def test_a_share_can_be_held_out_by_content(tmp_path: Path) -> None:
    rows = [{"question": f"What is {i}+0?", "answer": str(i)} for i in range(200)]
    path = f"{write(tmp_path / 'mine.jsonl', rows)}?holdout=0.1"
    parts = {split: load_problems(path, split) for split in ("train", "validation", "test")}
    assert sum(map(len, parts.values())) == 200
    assert 8 <= len(parts["test"]) <= 35
    assert all(held_out_split(p.question, 0.1) == s for s, ps in parts.items() for p in ps)


def test_a_folder_has_a_file_per_split(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ROWS[:2])
    write(tmp_path / "valid.csv", ROWS[2:])
    assert len(load_problems(tmp_path, "train")) == 2
    assert load_problems(tmp_path, "validation")[0].answer == "3.1"
    with pytest.raises(ValueError, match=r"no file for 'test', only for \['train', 'validation'\]"):
        load_problems(tmp_path, "test")


def test_a_folder_saved_by_datasets_is_read(tmp_path: Path) -> None:
    import datasets

    part = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict({"train": part, "test": part.select([0])}).save_to_disk(tmp_path / "d")
    assert len(load_problems(tmp_path / "d", "train")) == 3
    assert len(load_problems(tmp_path / "d", "test")) == 1
    with pytest.raises(ValueError, match=r"no split 'validation', only \['test', 'train'\]"):
        load_problems(tmp_path / "d", "validation")


def test_golds_of_a_file_are_checked_and_the_rejected_are_counted(tmp_path: Path) -> None:
    """Pitfall 64."""
    bad = {"question": "p", "answer": r"\frac{1", "difficulty": 0.0}
    report = load_report(write(tmp_path / "mine.jsonl", [*ROWS, bad]))
    assert len(report.problems) == 3
    assert report.rejected.total() == 1


@pytest.mark.parametrize("value", [None, float("nan"), "", " ", {}, [], [1, 2], True])
def test_what_is_no_answer_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"empty|must be text or a number"):
        answer_text(value)


def test_a_column_serves_one_field_only() -> None:
    columns = map_columns(["Problem", "question", "output"], {}, where="t")
    assert dict(columns.of) == {"question": "question", "answer": "output"}


@pytest.mark.parametrize("text", ["a?b", "a?b=1&b=2", "a?=1"])
def test_malformed_options_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a\\?"):
        parse_name(text, allowed=("b",))


HF_CHECK = """
import json, sys
from agon_env.tasks import load_problems
found = load_problems(sys.argv[1], "test")
print(json.dumps([[p.question, p.answer] for p in found]))
"""


def run_python(code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_a_hub_url_with_a_column_map_loads_once_and_then_offline(tmp_path: Path) -> None:
    folder = tmp_path / "hub/org/sums/data"
    folder.mkdir(parents=True)
    table = pa.table({"problem": ["What is 1+1?"], "key": ["2"], "noise": ["x"]})
    pq.write_table(table, folder / "test-00000-of-00001.parquet")
    url = "hf:org/sums?question=problem&answer=key&split=test"
    home = str(tmp_path / "home")
    with serve(tmp_path / "hub") as hub:
        first = run_python(HF_CHECK, url, HF_ENDPOINT=hub.url, HF_HOME=home)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == [["What is 1+1?", "2"]]
    second = run_python(HF_CHECK, url, HF_HUB_OFFLINE="1", HF_HOME=home)
    assert second.stdout == first.stdout, second.stderr
    other = "hf:org/none?split=test"
    third = run_python(HF_CHECK, other, HF_HUB_OFFLINE="1", HF_HOME=home)
    assert "the data set org/none is not on this machine" in third.stderr
    assert "Tasks that work now: algebra-easy" in third.stderr


@pytest.mark.parametrize("name", ["hf:", "hf:name", "hf:a/b/c", "hf:a/b?colour=red"])
def test_a_malformed_hub_url_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"hf:org/name|unknown option"):
        find_task(name)


def test_puzzles_are_judged_by_their_own_scorer_and_drawn_by_split() -> None:
    pytest.importorskip("reasoning_gym")
    train = load_problems("reasoning-gym/chain_sum", "train", limit=30)
    test = load_problems("reasoning-gym/chain_sum", "test", limit=10)
    assert not {p.question for p in train} & {p.question for p in test}
    problem = train[0]
    judged = {
        "<think>hm</think><answer>" + problem.answer + "</answer>": (True, "match"),
        "<answer>no idea</answer>": (False, "mismatch"),
        "no mark": (False, "no_answer"),
        "<think>open": (False, "truncated"),
    }
    for text, expected in judged.items():
        verdict = reasoning.judge(problem, text)
        assert (verdict.correct, verdict.reason) == expected


@pytest.mark.slow
def test_a_puzzle_is_judged_in_the_pool() -> None:
    pytest.importorskip("reasoning_gym")
    (problem,) = load_problems("reasoning-gym/chain_sum", "train", limit=1)
    assert verify(problem, f"<answer>{problem.answer}</answer>").correct is True


def test_a_long_answer_that_contains_the_right_one_earns_nothing() -> None:
    """The package's partial score pays for it: a reward hack."""
    pytest.importorskip("reasoning_gym")
    (problem,) = load_problems("reasoning-gym/spell_backward", "train", limit=1)
    assert reasoning.judge(problem, f"<answer>{problem.answer}</answer>").correct is True
    padded = reasoning.judge(problem, f"<answer>maybe {problem.answer} maybe</answer>")
    assert padded.correct is False


def test_a_puzzle_that_cannot_be_made_again_is_unscored_and_not_wrong() -> None:
    """Pitfall 28: our fault is None."""
    pytest.importorskip("reasoning_gym")
    (problem,) = load_problems("reasoning-gym/chain_sum", "train", limit=1)
    other = Problem(problem.id, "another question", problem.answer, verifier="reasoning-gym")
    assert reasoning.judge(other, "<answer>1</answer>").correct is None


def test_unknown_and_answerless_puzzles_are_errors() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(ValueError, match=r"no dataset 'chain_sums'; did you mean chain_sum"):
        find_task("reasoning-gym/chain_sums")
    with pytest.raises(ValueError, match="gives no reference answers"):
        load_problems("reasoning-gym/graph_color", limit=3)
