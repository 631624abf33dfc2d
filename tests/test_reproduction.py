"""The reproduction: every row has a run at the same budget, and numbers follow from the records."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import probe_task
import pytest
import tiny_llm
from scripts import names_of, refusal

from agon_env.tasks import load_problems
from agon_env.tasks.chains import read_question
from agon_env.tasks.modchain import MODCHAIN
from learners.engines import HFEngine
from learners.presets import TINY
from learners.reproduction.curves import curves_table, validation_curve
from learners.reproduction.gaps import gap_costs, gaps_table, logistic_fit
from learners.reproduction.methods import BASE, METHODS, SCALES, Scale, method, run_config
from learners.reproduction.plan import work_of
from learners.reproduction.runs import make_record, record_file
from learners.reproduction.table import (
    Row,
    make_row,
    markdown,
    ordering_broken,
)
from learners.schedule import plan_step
from learners.statistics import crossed_bootstrap
from learners.tiny_models import KINDS
from learners.warmup import WarmUp, knowledge_of
from learners.warmup_data import Curriculum


def part(correct: str, tokens: float = 10.0) -> dict:
    return {"correct": correct, "tokens": tokens}


def record(alone: tuple[str, str], cascade: tuple[str, str], *, validation: str = "") -> dict:
    """A record whose validation split prefers what `validation` names."""
    names = {"alone": ("agent_0", "agent_1"), "cascade": ("agent_0>agent_1", "agent_1>agent_0")}
    test = {
        kind: dict(zip(names[kind], map(part, bits), strict=True))
        for kind, bits in (("alone", alone), ("cascade", cascade))
    }
    chosen = {
        kind: {name: part("11" if name == validation else "10") for name in names[kind]}
        for kind in names
    }
    return {"test": test, "validation": chosen, "budget": {"tokens": 7}}


def row(key: str, records: dict, seeds: tuple[int, ...] = (0,)) -> Row:
    return make_row(method(key), records, seeds)


@pytest.mark.parametrize("run", sorted({m.run for m in METHODS} - {BASE}))
def test_every_run_samples_as_much_per_model_and_problem(run):
    """2N replies per model and problem; a role that is played alone gets twice the matches."""
    config = run_config(run, TINY)
    plan = plan_step(
        ["p"],
        0,
        samples=config.samples,
        rotation=config.rotation,
        regime=config.regime,
        shared_draft=config.shared_draft,
    )
    turns = [2 if seating == "both" else 1 for seating in plan.seatings]  # drafts of a match
    replies = sum(turns) * (2 if plan.solve else 1)  # of all seats together
    models = 1 if config.regime == "self" else 2
    assert replies == 2 * TINY.samples * models
    assert (config.steps, config.problems_per_step) == (TINY.steps, TINY.problems_per_step)


def test_the_better_direction_is_chosen_on_validation_and_reported_on_test():
    one = record(("1000", "0000"), ("1100", "1111"), validation="agent_0>agent_1")
    assert row("agon", {("agon", 0): one}).pass_at_1.value == 0.5  # though the other got 1.0
    tied = record(("1000", "0000"), ("1100", "1111"))
    assert row("agon", {("agon", 0): tied}).pass_at_1.value == 0.5, "a tie goes to the first"


def test_a_row_holds_the_models_alone_their_error_overlap_and_each_seed():
    records = {
        ("agon", 0): record(("1100", "1010"), ("1111", "0000")),
        ("agon", 1): record(("1100", "1010"), ("0000", "0000")),
    }
    found = row("agon", records, (0, 1))
    assert found.alone == (0.5, 0.5)
    assert found.by_seed == [1.0, 0.0]
    # wrong: {2, 3} and {1, 3}: one of three problems is wrong for both
    assert found.overlap == pytest.approx(1 / 3)
    assert found.budget_tokens == 7


def test_an_unscored_problem_counts_for_nobody():
    one = record(("1-00", "0000"), ("1-00", "0000"))
    assert row("agon", {("agon", 0): one}).pass_at_1.value == pytest.approx(1 / 3)


def test_the_interval_draws_seeds_and_problems():
    """Two seeds that disagree on everything: only the seeds' draw can reach 0 and 1."""
    values = np.array([[1.0] * 50, [0.0] * 50])
    found = crossed_bootstrap(values)
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
    same = np.tile([1.0, 0.0], 200)[None]  # one seed: a plain bootstrap, sqrt(.25 / 400) = .025
    found = crossed_bootstrap(same)
    assert found.low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.01)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.01)


def test_the_table_names_every_row_and_the_ordering_is_checked():
    records = {
        ("base", 0): record(("0100", "0000"), ("0000", "0000"), validation="agent_0"),
        ("grpo", 0): record(("1100", "0000"), ("0000", "0000"), validation="agent_0"),
        ("agon", 0): record(("1100", "1010"), ("1110", "0000")),
    }
    rows = [row(key, records) for key in ("zero_shot", "grpo", "agon")]
    text = markdown(rows)
    assert text.splitlines()[4].startswith("| Agon | 75.0 [")
    assert "| 25.0 [" in text, "75% minus GRPO's 50%"
    assert ordering_broken(rows, ("zero_shot", "grpo", "agon")) is None
    broken = ordering_broken(rows, ("agon", "grpo"))
    assert broken is not None
    assert broken.startswith("agon must be below grpo, got 75.0")


def test_the_scales_name_methods_that_exist():
    for scale in SCALES.values():
        assert all(method(key) for key in scale.methods)
    with pytest.raises(ValueError, match="unknown method 'agno'; choose among"):
        method("agno")


@pytest.mark.slow
def test_runs_train_are_measured_and_make_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each kind of run on two tiny real models, one step each; a record is not made twice."""
    config = probe_task.config(tmp_path, steps=1, eval_every=0, rotation="both", samples=4)
    runs = (BASE, "grpo", "refine_1", "shared", "fixed", "agon", "agon_ppo")
    scale = Scale(config, 1, tuple(m.key for m in METHODS if m.run in runs))
    generated, generate = [0], HFEngine.generate

    def counted(engine, policy, prompts, *others):
        generated[-1] += len(prompts)
        return generate(engine, policy, prompts, *others)

    monkeypatch.setattr(HFEngine, "generate", counted)
    records = {}
    for run in runs:
        generated.append(0)
        records[run, 0] = make_record(run, 0, scale, tmp_path)
        planned = work_of(run, config, {m.use for m in METHODS if m.run == run})
        assert generated[-1] == planned.trained_on + planned.held_out, run
        assert planned.trained_on == records[run, 0]["budget"]["replies"]
    rows = [make_row(m, records, [0]) for m in METHODS if m.run in runs]
    assert len(markdown(rows).splitlines()) == 2 + len(rows)
    for found in rows:
        assert 0 <= found.pass_at_1.value <= 1
        assert found.tokens > 0
    budgets = {run: records[run, 0]["budget"]["replies"] for run in runs}
    assert budgets.pop(BASE) == 0
    assert budgets.pop("refine_1") == 2 * 2 * 4, "2 problems x 2N of one model"
    assert set(budgets.values()) == {2 * 2 * 4 * 2}, "of two models"
    for run in ("grpo", "agon"):
        assert set(validation_curve(tmp_path / "runs" / f"{run}-seed0", run)) == {0, 1}
    written = record_file(tmp_path, "agon", 0).stat().st_mtime_ns
    make_record("agon", 0, scale, tmp_path)
    assert record_file(tmp_path, "agon", 0).stat().st_mtime_ns == written


@pytest.mark.slow
def test_the_papers_scale_runs_with_stand_ins(tmp_path: Path) -> None:
    """Its options, rows and sizes, but a tiny model, sums, and the embedded engine."""
    script = names_of("benchmarks/reproduce.py")
    sums = tmp_path / "sums.jsonl"
    lines = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(60)]
    sums.write_text("".join(json.dumps(line) + "\n" for line in lines))
    name = tiny_llm.save(tmp_path / "qwen3", "qwen3")
    args = script["Args"](
        scale="gpu",
        models=(name, name),
        task=f"{sums}?holdout=0.2",
        engine="hf",
        new_tokens=6,
        steps=1,
        methods=("zero_shot", "refine_0", "grpo", "agon"),
        out=tmp_path / "out",
    )
    script["main"](args)  # random models: whatever the ordering
    record = json.loads(record_file(tmp_path / "out", "agon", 0).read_text())
    config = record["config"]
    assert (config["samples"], config["lora"]["rank"], config["dtype"]) == (8, 16, "bfloat16")
    assert (config["sampling"]["temperature"], config["sampling"]["top_p"]) == (0.6, 0.95)
    assert record["budget"]["replies"] == 8 * 8 * 2
    table = (tmp_path / "out" / "table.md").read_text()
    assert len([line for line in table.splitlines() if line.startswith("| Agon |")]) == 1


def test_the_plan_counts_completions_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """375 steps of 8 problems, 8 drafts and 8 solutions; 9 evaluations, the record, the test."""
    script = names_of("benchmarks/reproduce.py")
    script["main"](
        script["Args"](scale="gpu", plan=True, methods=("grpo", "agon"), out=tmp_path / "out")
    )
    assert not (tmp_path / "out").exists()
    printed = capsys.readouterr().out
    assert "48,000" in printed
    found = work_of("agon", SCALES["gpu"].config, {"cascade"})
    assert found.trained_on == 375 * 8 * 8 * 2
    assert found.held_out == 4 * (10 * 100 + 300)
    assert found.tokens == (48_000 + 5_200) * 8_192
    grpo = work_of("grpo", SCALES["gpu"].config, {"alone", "self"})
    assert grpo.trained_on == 2 * 48_000, "two models alone"
    assert grpo.held_out == 4 * (11 * 100 + 2 * 300), "each reads its own draft, too"
    assert work_of("base", SCALES["smollm2"].config, {"alone"}).held_out == 4 * (2 * 16 + 48)


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ({"models": ("a/b", "c"), "task": "x/s.jsonl?holdout=0.2"}, "x-s.jsonl-holdout=0.2-a-b-c"),
        ({"models": ("x/b", "c")}, "x-b-c"),
        ({"steps": 0, "new_tokens": 9}, "0-steps-9-tokens"),
        ({"engine": "hf", "gaps": (0.25, 0.0)}, "hf-0.25-0.0"),
    ],
)
def test_what_was_chosen_names_the_folder(chosen, name) -> None:
    script = names_of("benchmarks/reproduce.py")
    found = script["folder_of"](script["Args"](scale="cpu", **chosen))
    assert found == Path("runs/reproduce") / f"cpu-{name}"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--models", "smollm2-135m", "smollm2-135m", "--gaps", "0.3", "0"], "gaps are what the"),
        (["--new-tokens", "0"], "max_new_tokens must be at least 1, got 0"),
        (["--seeds", "0"], "seeds must be at least 1, got 0"),
        (["--methods", "agno"], "unknown method 'agno'"),
    ],
)
def test_bad_input_is_one_line(monkeypatch: pytest.MonkeyPatch, options, line: str) -> None:
    assert line in refusal(monkeypatch, "benchmarks/reproduce.py", *options)


def test_without_vllm_the_papers_scale_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    name = tiny_llm.save(tmp_path / "m", "qwen3")
    options = ["--scale", "gpu", "--models", name, name, "--task", "arithmetic-easy"]
    options += ["--methods", "zero_shot", "--new-tokens", 4, "--out", tmp_path / "out"]
    assert "vLLM is needed" in refusal(monkeypatch, "benchmarks/reproduce.py", *options)


def test_a_record_of_other_models_or_of_another_config_is_not_taken(tmp_path: Path) -> None:
    config = probe_task.config(tmp_path, steps=0, eval_every=0)
    scale = Scale(config, 1, ())
    make_record(BASE, 0, scale, tmp_path)
    other = replace(WarmUp(), curriculum=Curriculum(unknown=0.25, mistaken=0.0))
    with pytest.raises(ValueError, match=r"was made with models that have the gaps .*0\.15"):
        make_record(BASE, 0, replace(scale, recipe=other), tmp_path)
    with pytest.raises(ValueError, match="was made with another samples; remove it"):
        make_record(BASE, 0, replace(scale, config=replace(config, samples=2)), tmp_path)
    swapped = replace(config, models=config.models[::-1])
    with pytest.raises(ValueError, match="was made with another models; remove it"):
        make_record(BASE, 0, replace(scale, config=swapped), tmp_path)
    elsewhere = tuple(name.replace(str(tmp_path), str(tmp_path / "x")) for name in config.models)
    with pytest.raises(ValueError, match="was made with another models; remove it"):
        make_record(BASE, 0, replace(scale, config=replace(config, models=elsewhere)), tmp_path)
    file = record_file(tmp_path, BASE, 0)
    older = json.loads(file.read_text())
    del older["gaps"], older["config"]["sampling"]["min_p"]  # as before there was such an option
    file.write_text(json.dumps(older))
    assert make_record(BASE, 0, scale, tmp_path)["seed"] == 0


def test_what_a_row_asks_for_is_measured_at_once_or_later(tmp_path: Path) -> None:
    config = probe_task.config(tmp_path, steps=0, eval_every=0)
    scale = Scale(config, 1, ("zero_shot", "moa"))
    record = make_record(BASE, 0, scale, tmp_path)
    assert set(record["test"]) == {"problems", "alone", "cascade"}
    again = make_record(BASE, 0, replace(scale, methods=("vote",)), tmp_path)
    assert again["test"]["alone"] == record["test"]["alone"]
    assert set(again["test"]["majority"]) == {"agent_0", "agent_1"}
    for key in ("grpo_self", "grpo_vote"):
        last = make_record("grpo", 0, replace(scale, methods=(key,)), tmp_path)
    assert {"self", "majority"} <= set(last["test"]), "what was measured before stays"


def test_a_logistic_fit_finds_the_slopes_that_made_the_data():
    rng = np.random.default_rng(0)
    features = rng.poisson(1.0, size=(20_000, 3)).astype(float)
    chance = 1 / (1 + np.exp(-(0.5 + features @ np.array([-1.0, 0.0, 0.7]))))
    slopes, errors = logistic_fit(features, (rng.random(20_000) < chance).astype(float))
    assert np.abs(slopes - [-1.0, 0.0, 0.7]).max() < 4 * errors.max()
    assert 0.01 < errors.max() < 0.05
    repeats = [
        logistic_fit(features[:500], (rng.random(500) < chance[:500]).astype(float))[0]
        for _ in range(200)
    ]
    small = logistic_fit(features[:500], (rng.random(500) < chance[:500]).astype(float))[1]
    assert np.std(repeats, axis=0) == pytest.approx(small, rel=0.25)


def test_equal_outcomes_have_no_slopes_and_no_cost():
    """A method that collapsed must not cost the table of the others."""
    features = np.random.default_rng(0).poisson(1.0, size=(300, 3)).astype(float)
    for outcome in (0.0, 1.0):
        slopes, errors = logistic_fit(features, np.full(300, outcome))
        assert np.isnan(slopes).all()
        assert np.isnan(errors).all()


def test_gap_costs_tell_who_could_have_taught_a_fact():
    """Models that learned all that their rival had seen: only gaps of both cost anything."""
    problems = load_problems("modchain-hard", split="test", limit=300)
    knowledge = [knowledge_of(MODCHAIN, kind, 5, Curriculum()) for kind in KINDS]
    never = ~knowledge[0].known & ~knowledge[1].known
    bits = ""
    for number, problem in enumerate(problems):
        chain = read_question(MODCHAIN, problem.question)
        before = (chain.start, *chain.values()[:-1])
        facts = [
            (MODCHAIN.operations.index(o), v) for o, v in zip(chain.operations, before, strict=True)
        ]
        slip = number % 20 == 0  # else the fit has no best slopes
        bits += "01"[slip != (not any(never[fact] for fact in facts))]
    found = {
        "seed": 5,
        "config": {"models": ["x/qwen3-seed5-a", "x/gemma3-seed5-b"]},
        "test": {"alone": {agent: {"correct": bits} for agent in ("agent_0", "agent_1")}},
    }
    cost = gap_costs([found], MODCHAIN, problems)
    assert cost.high[1] < 0.1
    assert min(cost.odds[0], cost.odds[2]) > 0.7, "those cost nothing"
    assert cost.answers == 600
    swapped = {**found, "config": {"models": ["x/gemma3-seed5-b"] * 2}}
    copies = gap_costs([swapped], MODCHAIN, problems)
    assert np.isnan(copies.odds[0]), "a copy has seen nothing that the model has not"
    assert gaps_table({"copies": copies}).count("| - |") == 1
    assert gaps_table({"run": cost}).count("|") == 15


def test_a_gap_that_no_right_answer_meets_has_no_interval():
    features = np.array([[i % 2, i % 3 == 0] for i in range(60)], dtype=float)
    outcomes = np.array([i % 3 != 0 and i % 7 < 4 for i in range(60)], dtype=float)
    slopes, errors = logistic_fit(features, outcomes)
    assert slopes[1] < -10
    assert np.isnan(errors[1]), "no interval, where any one would do"
    assert np.isfinite([slopes[0], errors[0]]).all()


def test_curves_are_means_over_seeds_at_steps_that_all_have():
    curves = {
        "grpo": [{0: 0.1, 10: 0.2, 20: 0.3}, {0: 0.1, 10: 0.4}],
        "agon": [{0: 0.2, 10: 0.6}, {}, {0: 0.0, 10: 0.6}],
        "new": [{}],
    }
    assert curves_table(curves).splitlines() == [
        "| validation pass@1, % (times grpo) at step | 0 | 10 |",
        "|---|---|---|",
        "| grpo | 10.0 | 30.0 |",
        "| agon | 10.0 (1.00) | 60.0 (2.00) |",
        "| new |  |  |",
    ]
