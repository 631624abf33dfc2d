"""DeepMath's splits on files in the published schema, served by a hub on loopback."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import Hub, serve

from agon_env.tasks import SPLITS, find_task, load_problems
from agon_env.tasks.deepmath import (
    DATA,
    apply_rule,
    asks_only_for_proof,
    is_binary,
    select,
)
from agon_env.tasks.hub import DataNotHereError, kept_folder
from agon_env.tasks.registry import load_report
from agon_env.types import Problem

SCHEMA = pa.schema(
    [
        ("question", pa.string()),
        ("final_answer", pa.string()),
        ("difficulty", pa.float64()),
        ("topic", pa.string()),
        ("r1_solution_1", pa.string()),
        ("r1_solution_2", pa.string()),
        ("r1_solution_3", pa.string()),
    ]
)
"""Of zwhe99/DeepMath-103K."""


def make_row(i: int, difficulty: float = 8.0, **changes: Any) -> dict[str, Any]:
    row = {
        "question": rf"Evaluate the integral \( \int_0^{{{i}}} x^{i % 7} \, dx \) over a line.",
        "final_answer": str(i),
        "difficulty": difficulty,
        "topic": "Mathematics -> Calculus -> Integral Calculus",
    }
    return row | changes


def write_dataset(
    root: Path, rows: list[dict[str, Any]], *, solution: int = 10, shards: int = 2
) -> None:
    """Write rows as the published shards, with long solutions that nobody should read."""
    rng = random.Random(0)
    folder = root / DATA.repo / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        part = [
            {**row, **{f"r1_solution_{k}": rng.randbytes(solution).hex() for k in (1, 2, 3)}}
            for row in rows[shard::shards]
        ]
        pq.write_table(
            pa.Table.from_pylist(part, schema=SCHEMA),
            folder / f"train-{shard:05d}-of-{shards:05d}.parquet",
            row_group_size=200,
        )


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with serve(tmp_path / "hub") as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


@pytest.mark.slow
def test_only_the_needed_columns_cross_the_wire_and_the_second_load_needs_no_net(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(hub.root, [make_row(i) for i in range(300)], solution=5000)
    first = load_problems("deepmath-hard", "train")
    sizes = {p.name: p.stat().st_size for p in (hub.root / DATA.repo / "data").iterdir()}
    assert sum(sizes.values()) > 8_000_000
    assert 0 < sum(hub.sent.values()) < 0.05 * sum(sizes.values())
    assert hub.revisions == {DATA.revision}

    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load_problems("deepmath-hard", "train") == first
    for kept in kept_folder(DATA).glob("rule-*/*"):
        kept.unlink()
    assert load_problems("deepmath-hard", "train") == first, "from the kept columns"
    assert find_task("deepmath-hard").offline()


def test_a_snapshot_in_the_hub_cache_is_read_without_the_net(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(hub.root, [make_row(i) for i in range(50)])
    folder = tmp_path / "home/hub" / ("datasets--" + DATA.repo.replace("/", "--")) / "snapshots"
    folder.mkdir(parents=True)
    (hub.root / DATA.repo).rename(folder / DATA.revision)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert len(load_problems("deepmath-hard", "train")) > 20

    next((folder / DATA.revision / "data").iterdir()).unlink()
    for kept in kept_folder(DATA).glob("rule-*/*"):
        kept.unlink()
    with pytest.raises(DataNotHereError):  # half of the shards is not the data set
        load_problems("deepmath-hard", "train")


def test_without_cache_and_net_the_error_says_what_is_missing_and_what_works(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataNotHereError) as caught:
        load_problems("deepmath-hard")
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "zwhe99/DeepMath-103K",
        "data/train-*.parquet",
        "python -m agon_env.tasks 'deepmath-hard'",
        "arithmetic-easy",
        "HF_HUB_OFFLINE",
    ):
        assert part in message
    assert not find_task("deepmath-hard").offline()


@pytest.mark.slow
def test_the_hard_split_has_the_papers_sizes_and_no_overlap() -> None:
    judged = apply_rule([make_row(i) for i in range(3900)])
    chosen = {s: list(select(judged, "hard", s)) for s in SPLITS}
    ids = {s: {p.id for p in chosen[s] if isinstance(p, Problem)} for s in SPLITS}
    assert [len(ids[s]) for s in SPLITS] == [3000, 300, 300]
    assert len(set.union(*ids.values())) == 3600


def test_splits_do_not_depend_on_row_order() -> None:
    rows = [make_row(i) for i in range(300)] + [
        make_row(i, question=make_row(i)["question"].upper(), difficulty=5.0) for i in range(40)
    ]
    judged = apply_rule(rows)
    assert apply_rule(random.Random(1).sample(rows, len(rows))) == judged
    assert sum(row.reason == "duplicate" for row in judged) == 40


def test_a_new_version_with_more_rows_moves_no_problem_to_another_split() -> None:
    def splits(rows: list[dict[str, Any]]) -> dict[str, str]:
        judged = apply_rule(rows)
        return {p.id: s for s in SPLITS for p in select(judged, "hard", s) if hasattr(p, "id")}

    before = splits([make_row(i) for i in range(300)])
    after = splits([make_row(i) for i in range(900)])
    assert before.items() <= after.items()


def test_the_bands_are_half_open_and_cover_what_the_paper_calls_hard() -> None:
    difficulties = [4.5, 5.0, 7.5, 8.0, 8.5, 9.0]
    judged = apply_rule([make_row(i, d) for i, d in enumerate(difficulties * 40)])
    found = {
        level: {
            p.difficulty for s in SPLITS for p in select(judged, level, s) if isinstance(p, Problem)
        }
        for level in ("easy", "medium", "hard")
    }
    assert found == {"easy": {4.5}, "medium": {5.0, 7.5}, "hard": {8.0, 8.5}}


@pytest.mark.parametrize(
    ("answer", "binary"),
    [
        ("Yes", True),
        ("no.", True),
        (r"\text{True}", True),
        (r"$\text{ False }$", True),
        (r"\boxed{yes}", True),
        ("1", False),
        ("no solution", False),
        (r"\text{None}", False),
        ("Noetherian", False),
        (r"\infty", False),
    ],
)
def test_binary_answers_are_known_in_any_dress(answer: str, binary: bool) -> None:
    """Pitfall 65: an answer that is guessed half of the time teaches guessing."""
    assert is_binary(answer) is binary


@pytest.mark.parametrize(
    ("question", "proof"),
    [
        ("Prove that $2^n > n$ for all $n$.", True),
        ("Show that the group is abelian.", True),
        ("Prove that the limit exists and find its value.", False),
        ("Show that $f$ has a minimum. What is the minimum of $f$?", False),
        ("Find the proof length.", False),
    ],
)
def test_questions_that_only_ask_for_a_proof_are_known(question: str, proof: bool) -> None:
    assert asks_only_for_proof(question) is proof


def test_every_rejected_row_is_counted_by_its_reason(hub: Hub) -> None:
    """Pitfall 64 and 65."""
    good = [make_row(i) for i in range(200)]
    copies = [
        make_row(3, question=good[3]["question"].upper().replace("EVALUATE", "Evaluate")),
        make_row(5, question=r"Compute the integral $\int_0^{5} x^5 \,dx$ over the line."),
    ]
    bad = [
        make_row(1000, final_answer="Yes"),
        make_row(1001, final_answer=" "),
        make_row(1002, question="Prove that $1002$ is even."),
        make_row(1003, difficulty=None),
    ]
    write_dataset(hub.root, good + copies + bad)
    total: dict[str, int] = {}
    problems = 0
    for split in SPLITS:
        report = load_report("deepmath-hard", split)
        problems += len(report.problems)
        for reason, count in report.rejected.items():
            total[reason] = total.get(reason, 0) + count
    assert problems == 200
    assert total == {
        "duplicate": 1,
        "near-duplicate": 1,
        "binary answer": 1,
        "no answer": 1,
        "proof only": 1,
        "no difficulty": 1,
    }


def test_a_variation_with_other_numbers_or_another_answer_is_no_duplicate() -> None:
    rows = [
        make_row(0, question="Find the remainder of $7^{100}$ modulo $13$.", final_answer="9"),
        make_row(0, question="Find the remainder of $7^{101}$ modulo $13$.", final_answer="11"),
        make_row(0, question=r"Find $\int_0^1 x \sin x \, dx$ by parts.", final_answer="a"),
        make_row(0, question=r"Find $\int_0^1 x \cos x \, dx$ by parts.", final_answer="b"),
    ]
    assert [row.reason for row in apply_rule(rows)] == [None] * 4


def test_another_schema_is_an_error_that_names_the_columns(hub: Hub) -> None:
    folder = hub.root / DATA.repo / "data"
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"question": ["a"], "answer": ["b"]}), folder / "train-00000-of-00001.parquet"
    )
    with pytest.raises(ValueError, match=r"final_answer.*missing among \['question', 'answer'\]"):
        load_problems("deepmath-hard")
