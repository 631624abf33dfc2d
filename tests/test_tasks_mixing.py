"""Bands, solve rates, mixtures and curricula; the command line; the page on one's own problems."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agon_env.tasks import SPLITS, load_problems
from agon_env.tasks import registry as registry_module
from agon_env.tasks.__main__ import main
from agon_env.tasks.mixing import (
    CurriculumSampler,
    MixtureSampler,
    Stage,
    difficulty_band,
    filter_by_solve_rate,
    register_mixture,
    shares,
    solve_rates,
)
from agon_env.types import Problem, Verdict

PAGE = Path(__file__).parent.parent / "docs" / "problems.md"


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tasks registered in a test are gone after it; nothing is cached outside."""
    monkeypatch.setattr(registry_module, "_TASKS", dict(registry_module._TASKS))
    monkeypatch.setattr(registry_module, "_LISTENERS", [])
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))


def graded(n: int, prefix: str = "p") -> list[Problem]:
    return [Problem(f"{prefix}{i}", "q", "1", difficulty=float(i)) for i in range(n)]


def test_a_band_is_half_open_and_skips_the_ungraded() -> None:
    problems = [*graded(5), Problem("none", "q", "1")]
    assert [p.id for p in difficulty_band(problems, 1, 3)] == ["p1", "p2"]
    with pytest.raises(ValueError, match="low < high"):
        difficulty_band(problems, 3, 3)


def test_solve_rates_leave_unscored_replies_out() -> None:
    """Pitfall 28: a verdict of None is no 0."""
    problems = graded(3)
    calls = iter([[True, None, None], [False, True, None]])

    def generate(asked: Sequence[Problem]) -> list[str]:
        return ["reply"] * len(asked)

    def judge(pairs: list[tuple[Problem, str]]) -> list[Verdict]:
        assert [p.id for p, _ in pairs] == ["p0", "p1", "p2"]
        return [Verdict(correct, "match") for correct in next(calls)]

    assert solve_rates(problems, generate, judge, attempts=2) == {"p0": 0.5, "p1": 1.0}


def test_problems_without_a_gradient_are_filtered_and_counted() -> None:
    rates = {"p0": 0.0, "p1": 0.1, "p2": 0.5, "p3": 1.0}
    kept, left = filter_by_solve_rate(graded(5), rates)
    assert [p.id for p in kept] == ["p1", "p2"]
    assert left == {"too hard": 1, "too easy": 1, "no rate": 1}


def test_shares_add_up_and_follow_the_weights() -> None:
    assert shares({"a": 2, "b": 1}, 10) == {"a": 7, "b": 3}
    assert shares({"a": 1, "b": 1, "c": 1}, 2) == {"a": 1, "b": 1, "c": 0}
    with pytest.raises(ValueError, match="weights must be positive"):
        shares({"a": 0}, 1)


def test_a_mixture_is_a_task_with_disjoint_splits() -> None:
    register_mixture(
        "mixed", {"arithmetic-medium": 3, "algebra-easy": 1}, sizes={"train": 40, "test": 8}
    )
    train, test = load_problems("mixed", "train"), load_problems("mixed", "test")
    assert Counter(p.source for p in train) == {"arithmetic-medium": 30, "algebra-easy": 10}
    assert not {p.question for p in train} & {p.question for p in test}
    assert load_problems("mixed", "train") == train
    assert [p.id for p in load_problems("mixed", "train", seed=1)] != [p.id for p in train]


def test_a_mixture_of_different_templates_is_refused() -> None:
    with pytest.raises(ValueError, match="different prompt templates"):
        register_mixture("mixed", {"arithmetic-medium": 1, "modchain-easy": 1})


def mixture() -> MixtureSampler:
    parts = {"a": graded(5, "a"), "b": graded(50, "b"), "c": graded(3, "c")}
    return MixtureSampler(parts, {"a": 0.2, "b": 0.7, "c": 0.1}, batch_size=4, seed=2)


def test_a_mixture_sampler_keeps_its_shares_at_every_moment() -> None:
    sampler = mixture()
    counts: Counter[str] = Counter()
    for batch in range(1, 26):
        problems = sampler.next_batch()
        assert len(problems) == 4
        counts.update(p.id[0] for p in problems)
        for name, share in {"a": 0.2, "b": 0.7, "c": 0.1}.items():
            assert abs(counts[name] - share * 4 * batch) < 1.5
    assert counts == {"a": 20, "b": 70, "c": 10}


def test_a_resumed_mixture_gives_the_same_batches() -> None:
    """Pitfall 66."""
    whole, first, resumed = mixture(), mixture(), mixture()
    batches = [whole.next_batch() for _ in range(10)]
    for _ in range(4):
        first.next_batch()
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [resumed.next_batch() for _ in range(6)] == batches[4:]
    other = MixtureSampler({"a": graded(5, "a")}, {"a": 1.0}, 4)
    with pytest.raises(ValueError, match="same parts and weights"):
        other.load_state_dict(first.state_dict())


def curriculum() -> CurriculumSampler:
    return CurriculumSampler(graded(30), [Stage(3, 0, 10), Stage(2, 10, 20), Stage(1, 20, 30)], 4)


def test_a_curriculum_climbs_through_its_bands_and_stays_in_the_last() -> None:
    sampler = curriculum()
    bands = [{int((p.difficulty or 0) // 10) for p in sampler.next_batch()} for _ in range(8)]
    assert bands == [{0}] * 3 + [{1}] * 2 + [{2}] * 3


def test_a_resumed_curriculum_gives_the_same_batches() -> None:
    """Pitfall 66."""
    whole, first, resumed = curriculum(), curriculum(), curriculum()
    batches = [whole.next_batch() for _ in range(8)]
    for _ in range(4):
        first.next_batch()
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [resumed.next_batch() for _ in range(4)] == batches[4:]


def test_a_stage_without_problems_is_refused() -> None:
    with pytest.raises(ValueError, match="no problem has a difficulty"):
        CurriculumSampler(graded(3), [Stage(1, 5, 6)], 2)


def test_the_command_line_lists_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    for name in (
        "deepmath-hard",
        "livecodebench",
        "arithmetic-easy",
        "fetch",
        "yes",
        "MIT",
        "code",
    ):
        assert name in printed


def test_the_command_line_shows_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arithmetic-hard", "--limit", "50"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("What is") == 5
    assert "50 problems" in printed
    assert "difficulty" in printed
    assert "arithmetic" in printed


def test_the_command_line_prints_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arithmetic-easy", "--split", "test", "--limit", "3", "--ids"]) == 0
    ids = capsys.readouterr().out.split()
    assert ids == [p.id for p in load_problems("arithmetic-easy", "test", limit=3)]


@pytest.mark.parametrize("name", ["arithmetic-hrad", "none.jsonl", "deepmath-hard", "hf:x"])
def test_the_command_line_answers_bad_input_with_one_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main([name]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_code_on_the_page_about_problems_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(
        r"^`(\S+)`:\n\n```(?:json|csv)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    ):
        Path(name).write_text(text)
    namespace: dict[str, object] = {}
    found = blocks("python")
    assert len(found) >= 6
    for code in found:
        exec(compile(code, str(PAGE), "exec"), namespace)


def test_the_page_about_problems_names_every_task() -> None:
    text = PAGE.read_text()
    for task in (task for task in registry_module.tasks() if task.source != "user"):
        base = re.sub(r"-(easy|medium|hard)$", "", task.name)
        assert base in text, task.name
    assert all(split in text for split in SPLITS)
