"""The benchmark of pairs: every number of the table by hand, and which problems it takes.

Sixteen problems `value N?`, N = 0..15: the test has 0..11, the rest chooses the direction. By
`bench_agents`: alpha is right where N % 4 is 0 or 1, beta where it is 1 or 2 and where it reads a
draft that says it is sound.
"""

from __future__ import annotations

import json
from pathlib import Path

import bench_agents
import pytest
from pair_bench import STORE, Counted, bench, method, play_known, played_by, right

from agon_env.tasks.shots import MATH_SHOTS
from learners.benchmark.problems import load_sets
from learners.benchmark.prompts import accepts
from learners.benchmark.store import peek


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return play_known(tmp_path_factory.mktemp("known"))


# --- every number by hand ---


def test_single_agents_and_cascades_have_the_known_rates(known):
    """alpha 0,1 of 4; beta 1,2 of 4; beta on alpha's drafts 0,1,2 of 4; alpha reads nothing."""
    results, _, _ = known
    assert right(results, "solo A") == 0.5
    assert right(results, "solo B") == 0.5
    assert right(results, "cascade A>B") == 0.75
    assert right(results, "cascade B>A") == 0.5


def test_conversion_corruption_and_overlap_have_the_known_rates(known):
    results, _, _ = known
    forth, back = results["directions"]
    assert (forth["drafter"], forth["solver"]) == ("A", "B")
    assert forth["conversion"]["value"] == 0.5  # A wrong at 2, 3: B has 2
    assert forth["corruption"]["value"] == 0
    assert back["conversion"]["value"] == 0.5  # B wrong at 0, 3: A has 0
    assert back["corruption"]["value"] == 0.5  # B right at 1, 2: A loses 2
    found = results["pairs"][0]["overlap"]
    assert found["agreement"]["value"] == 0.5  # at 1 and 3
    assert found["jaccard"]["value"] == pytest.approx(1 / 3)  # errors 2, 3 and 0, 3
    assert found["kappa"]["value"] == pytest.approx(0)
    assert found["oracle"]["value"] == 0.75


def test_a_draft_counts_by_what_it_adds_to_none_and_to_anothers(known):
    """Without a draft beta is as alone; with another problem's it is right where that was sound."""
    results, plan, _ = known
    assert right(results, "B shown no draft") == 0.5
    numbers = {p: int(q[1:]) for p, q in plan.elsewhere.items()}
    assert all(int(p[1:]) != n for p, n in numbers.items())
    assert sorted(numbers.values()) == list(range(12))
    lucky = sum(n % 4 < 2 or int(p[1:]) % 4 in (1, 2) for p, n in numbers.items())
    assert right(results, "B shown A's draft of another problem") == pytest.approx(lucky / 12)
    forth = results["directions"][0]
    assert forth["vs_no_draft"]["difference"]["value"] == pytest.approx(0.25)
    assert forth["vs_no_draft"]["only_first"] == 3
    assert forth["vs_no_draft"]["mcnemar_p"] == 0.25
    assert forth["vs_draft_of_another_problem"]["difference"]["value"] == pytest.approx(
        0.75 - lucky / 12
    )


def test_copying_is_told_from_coincidence(known):
    """B gives A's answer where both are right (0, 1) or both say N + 1000 (3)."""
    copied = known[0]["directions"][0]["copying"]
    assert copied["same_answer"]["value"] == 0.75
    assert copied["same_answer_alone"]["value"] == 0.5  # at 1 and 3
    assert copied["same_wrong_answer"]["value"] == 0.5  # A wrong at 2 and 3
    # Solution: think hm think my work is sound today i think answer N answer; shown: the five
    # words from "my" on. Runs of five in it: "my work is sound today" and two more.
    assert 0 < copied["text"]["value"] < 1


def test_the_direction_is_chosen_on_validation_and_reported_on_test(known):
    pair = known[0]["pairs"][0]
    assert {k: v["value"] for k, v in pair["validation"].items()} == {
        "cascade A>B": 0.75,
        "cascade B>A": 0.5,
    }
    assert pair["chosen"] == "cascade A>B"
    assert pair["accuracy"]["value"] == 0.75
    assert pair["vs_best_single"]["difference"]["value"] == 0.25
    assert known[0]["outcomes"]["pair A+B"] == known[0]["outcomes"]["cascade A>B"]


def test_a_direction_that_is_better_on_test_alone_is_not_taken(tmp_path):
    """Validation holds only N % 4 == 2, where alpha drafting loses nothing to beta's luck."""
    rows = [*range(12), 102, 106, 110, 114]
    file = tmp_path / "p.jsonl"
    file.write_text(
        "".join(
            json.dumps({"id": str(n), "question": f"value {n}?", "answer": str(n)}) + "\n"
            for n in rows
        )
    )

    def gamma(messages):
        """Right at N % 4 == 2 as drafter, and as solver wherever N > 99."""
        n = bench_agents.number(messages)
        return bench_agents.say(n, n % 4 == 2 if "Draft:" not in str(messages) else n > 99)

    def delta(messages):
        """Right as a solver unless N > 99."""
        n = bench_agents.number(messages)
        return bench_agents.say(n, "Draft:" in str(messages) and n < 99)

    agents = Counted(gamma), Counted(delta)
    pair = bench(tmp_path / "o", *agents, file=str(file), n=12)[0]["pairs"][0]
    assert pair["chosen"] == "cascade B>A"  # 4 of 4 on validation
    assert pair["accuracy"]["value"] == 0  # and 0 of 12 on test: reported all the same


def test_the_controls_have_the_known_rates_and_costs(known):
    """Deterministic agents: votes and bests of k are the agent alone, at k times its tokens."""
    results, _, _ = known
    solo = method(results, "solo A")
    for name, stages in {
        "self refine A": {"solo": 1, "refine": 1},
        "self cascade A": {"solo": 1, "solve": 1},
        "self consistency of 3 A": {"solo": 3},
        "best of 3 A": {"solo": 3},
        "best of 3 judged A": {"solo": 3, "judge": 3},
        "self moa of 3 A": {"solo": 3, "moa": 1},
        "self draft of 3 A": {"solo": 3, "self_draft": 1},
        "moa of 3 B+A, A aggregates": {"solo": 3, "moa": 1},
    }.items():
        found = method(results, name)
        assert found["accuracy"]["value"] == 0.5, name
        assert {s: v["replies"] for s, v in found["stages"].items()} == {
            s: n * 24 for s, n in stages.items()
        }
        each = sum(
            n * (found["stages"][s]["prompt_tokens"] + found["stages"][s]["completion_tokens"])
            for s, n in stages.items()
        )
        assert found["tokens"] == pytest.approx(each), name
    assert method(results, "best of 3 A")["tokens"] == pytest.approx(3 * solo["tokens"])
    assert {m["name"] for m in results["methods"] if m["uses_gold"]} == {
        f"{what} of 3 {agent}" for what in ("best", "self draft") for agent in "AB"
    }


def test_votes_and_bests_of_agents_with_luck_are_counted_over_their_samples(tmp_path):
    """Outcome of every method from the stored replies, counted here once more."""
    agents = Counted(bench_agents.coin), Counted(bench_agents.alpha)
    controls = ("self_consistency", "best_of_k")
    results, plan, _ = bench(tmp_path, *agents, controls=controls, influence=False)
    rights: dict[tuple[str, str], list[bool]] = {}
    for line in peek(tmp_path / STORE):
        if line["agent"] == "coin" and line["stage"].startswith("solo"):
            rights.setdefault((line["problem"], line["seed"]), []).append("sound" in line["text"])
    cells = [rights[p.id, str(s)] for p in plan.sets.test for s in (0, 1)]
    assert {len(cell) for cell in cells} == {3}
    assert right(results, "best of 3 A") == pytest.approx(sum(map(any, cells)) / 24)
    # Wrong replies all say N + 1000, so three votes are never tied.
    majority = sum(sum(cell) >= 2 for cell in cells) / 24
    assert right(results, "self consistency of 3 A") == pytest.approx(majority)
    first = results["curves"]["A"][0]
    everything = sum(map(sum, cells)) / 72
    for name in ("pass", "pass_all", "maj"):
        assert first[name]["value"] == pytest.approx(everything)
    assert len(results["curves"]["A"]) == 6  # 2 seeds of 3 samples


def test_a_judge_says_yes_or_it_says_no():
    for text, yes in {
        "<answer>yes</answer>": True,
        "<think>no</think> so <answer> Yes. </answer>": True,
        "<answer>no</answer>": False,
        "yes": False,
        "": False,
        "</answer>yes<answer>": False,
    }.items():
        assert accepts(text) is yes, text


def test_the_judged_best_is_the_first_accepted_candidate(tmp_path):
    """The judge knows sound work, so it finds a right sample wherever there is one."""

    def lucky(messages, seed):
        if "Is the final answer" in messages[-1]["content"]:
            return bench_agents.alpha(messages)
        return bench_agents.coin(messages, seed)

    agents = Counted(lucky), Counted(bench_agents.alpha)
    controls = ("best_of_k", "best_of_k_judged")
    results = bench(tmp_path, *agents, controls=controls, influence=False)[0]
    assert results["outcomes"]["best of 3 judged A"] == results["outcomes"]["best of 3 A"]
    assert 0.5 < right(results, "best of 3 judged A") < 1


def test_the_prompts_are_those_of_the_game(tmp_path):
    """A solver is shown the summary without the answer; unread ones are told so."""
    seen: dict[str, str] = {}

    def watch(messages):
        text = messages[-1]["content"]
        stage = (
            "solo" if "Draft:" not in text else "unread" if "(nothing of it" in text else "solve"
        )
        seen.setdefault(stage, text)
        return bench_agents.alpha(messages)

    played_by(tmp_path, Counted(watch), Counted(bench_agents.beta), n=2, seeds=1)
    assert "my work is shaky today" in seen["solve"] or "my work is sound today" in seen["solve"]
    assert "[withheld]" in seen["solve"]
    assert "hm" not in seen["solve"].split("Draft:")[1].split("Solve the problem")[0]
    assert set(seen) == {"solo", "unread", "solve"}
    assert "my work" not in seen["solo"] + seen["unread"]


def test_who_is_shown_examples_sees_them_in_both_stages_and_others_a_description(tmp_path):
    """A base model by itself, and everyone where that is asked."""
    seen = {"base": [], "chat": []}

    def base(messages):
        seen["base"].append(messages)
        return "<think>hm</think>my way\n<answer>1</answer>"

    def chat(messages):
        seen["chat"].append(messages)
        return "<think>hm</think>my way\n<answer>1</answer>"

    first, second = Counted(base), Counted(chat)
    first.needs_examples = True
    played_by(tmp_path / "auto", first, second, n=2, seeds=1, influence=False)
    shown = len(MATH_SHOTS)
    assert {len(messages) for messages in seen["base"]} == {2 * shown + 1}
    assert {len(messages) for messages in seen["chat"]} == {1}
    lasts = {messages[-1]["content"] for messages in seen["base"]}
    assert "value 0?" in lasts
    draft = "A rival's draft, right or wrong:\nmy way\n<answer>[withheld]</answer>"
    assert f"value 0?\n{draft}" in lasts
    seen["chat"].clear()
    played_by(tmp_path / "all", first, second, n=2, seeds=1, influence=False, examples="all")
    assert {len(messages) for messages in seen["chat"]} == {2 * shown + 1}


# --- problems ---


def write_rows(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps({"answer": "1", **row}) + "\n" for row in rows))
    return str(path)


def test_a_file_is_divided_and_no_question_is_on_both_sides(tmp_path):
    rows = [{"id": f"p{i}", "question": f"q{min(i, 6)}"} for i in range(8)]
    found = load_sets(write_rows(tmp_path / "p.jsonl", rows), 300, 100, None)
    assert [p.id for p in found.test] == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert [p.id for p in found.validation] == ["p6", "p7"]
    rows[7]["question"] = "q0"
    found = load_sets(write_rows(tmp_path / "p.jsonl", rows), 300, 100, None)
    assert [p.id for p in found.validation] == ["p6"]
    assert (found.test_split, found.validation_split) == ("train", "rest of train")


def test_splits_of_a_file_are_used_and_equal_ids_told_apart(tmp_path):
    rows = [
        {"id": str(i % 3), "question": f"q{i}", "split": "test" if i < 3 else "validation"}
        for i in range(6)
    ]
    found = load_sets(write_rows(tmp_path / "p.jsonl", rows), 2, 100, None)
    assert [p.question for p in found.test] == ["q0", "q1"]
    assert [p.id for p in found.validation] == ["validation:0", "validation:1", "2"]
    assert len({p.id for p in found.all}) == 5
    with pytest.raises(ValueError, match="no file nothing"):
        load_sets("nothing.jsonl", 2, 2, None)


def test_a_generated_task_has_its_own_validation_problems():
    found = load_sets("arithmetic-easy", 5, 4, None)
    assert (len(found.test), len(found.validation)) == (5, 4)
    assert (found.test_split, found.validation_split) == ("test", "validation")
