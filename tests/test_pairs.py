"""The benchmark of pairs: every number of the table by hand, and every way to be interrupted.

Sixteen problems `value N?`, N = 0..15: the test has 0..11, the rest chooses the direction. By
`bench_agents`: alpha is right where N % 4 is 0 or 1, beta where it is 1 or 2 and where it reads a
draft that says it is sound.
"""

from __future__ import annotations

import html.parser
import json
import math
import re
from collections import Counter
from pathlib import Path

import bench_agents
import pytest
from loopback_llm import answer, loopback

from agon_env.judging import Judging
from agon_env.types import Problem, Verdict
from learners.agents import AgentError, AgentOptions, Decoding, make_agents
from learners.agents.scripted import ScriptedAgent
from learners.benchmark import Settings, compare, estimate, make_plan, play, results_of
from learners.benchmark.methods import CONTROLS
from learners.benchmark.page import page
from learners.benchmark.problems import load_sets
from learners.benchmark.prompts import accepts
from learners.benchmark.store import Store, peek
from learners.benchmark.tables import markdown
from learners.benchmark.transcripts import kind_of, transcripts

STORE = "generations.jsonl"


def judge(problem: Problem, text: str) -> Verdict:
    """Reads `<answer>N</answer>`; in this process, so that tests start no workers."""
    found = re.search(r"<answer>(\d+)</answer>", text)
    if found is None:
        return Verdict(False, "no_answer")
    right = found[1] == problem.answer
    return Verdict(right, "match" if right else "mismatch", found[1])


class Counted(ScriptedAgent):
    """A scripted agent that knows how often it was asked."""

    def __init__(self, function, fail_after: float = math.inf) -> None:
        super().__init__(function.__name__, self._call)
        self.function, self.calls, self.fail_after = function, 0, fail_after
        self._takes_seed = function.__code__.co_argcount > 1

    def _call(self, *arguments):
        if self.calls >= self.fail_after:
            raise ConnectionError("gone")
        self.calls += 1
        return self.function(*arguments)


def played_by(out: Path, *agents, file: str | None = None, **settings):
    """Play a benchmark in this process; returns (plan, played, prompts)."""
    out.mkdir(exist_ok=True)
    file = file or bench_agents.write_problems(out / "problems.jsonl", 16)
    settings = {"n": 12, "seeds": 2, "k": 3, **settings}
    names = tuple(agent.name for agent in agents)
    plan = make_plan(Settings(agents=names, task=file, **settings), names)
    return plan, *play(plan, agents, out, judging=Judging(judge))


def bench(out: Path, *agents, file: str | None = None, **settings):
    """Play a benchmark and count; returns (results, plan, played)."""
    plan, played, prompts = played_by(out, *agents, file=file, **settings)
    conditions = {"commit": "c", "machine": "m", "command": "x y", "created": "now"}
    return results_of(plan, played, prompts, conditions), plan, played


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """alpha and beta with every control."""
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    return bench(tmp_path_factory.mktemp("known"), *agents, controls=CONTROLS)


def method(results, name: str):
    (found,) = [m for m in results["methods"] if m["name"] == name]
    return found


def right(results, name: str) -> float:
    return method(results, name)["accuracy"]["value"]


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


# --- bad input ---


def test_silent_agents_are_wrong_unparsed_and_counted(tmp_path):
    results = bench(tmp_path, Counted(bench_agents.empty), Counted(bench_agents.beta))[0]
    stage = method(results, "solo A")["stages"]["solo"]
    assert stage["empty"]["value"] == stage["unparsed"]["value"] == 1
    assert right(results, "solo A") == 0
    assert right(results, "cascade A>B") == 0.5
    assert "n/a" in markdown(results), "no draft was right, so nothing can be corrupted"


def test_three_problems_still_give_a_direction_and_honest_intervals(tmp_path):
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 3)
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    results = bench(tmp_path / "o", *agents, file=file, n=300, seeds=1)[0]
    assert results["splits"]["test"]["problems"] == 2
    assert results["splits"]["validation"]["problems"] == 1
    solo = method(results, "solo A")["accuracy"]
    assert (solo["value"], solo["high"]) == (1, 1)
    assert solo["low"] == pytest.approx(0.025**0.5)  # exact: both of two
    assert all(d["vs_solver_alone"]["p"] > 0.05 for d in results["directions"])
    json.dumps(results, allow_nan=False)


def test_one_problem_chooses_no_direction(tmp_path):
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 1)
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    results = bench(tmp_path / "o", *agents, file=file)[0]
    assert results["pairs"][0]["chosen"] is None
    assert "none; cascade A>B shown" in markdown(results)
    assert "vs_draft_of_another_problem" not in results["directions"][0]


def test_replies_without_a_verdict_are_neither_right_nor_wrong(tmp_path, monkeypatch):
    """Pitfall 28."""
    plain = judge

    def sometimes(problem: Problem, text: str) -> Verdict:
        unscored = int(problem.answer) % 4 == 0
        return Verdict(None, "timeout") if unscored else plain(problem, text)

    monkeypatch.setitem(globals(), "judge", sometimes)
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    results = bench(tmp_path, *agents, controls=("self_consistency",))[0]
    assert method(results, "solo A")["unscored"] == 6  # 3 problems, 2 seeds
    assert right(results, "solo A") == pytest.approx(1 / 3)  # of 1, 2, 3
    assert right(results, "self consistency of 3 A") == pytest.approx(1 / 3)
    assert results["outcomes"]["solo A"]["p0"] == [None, None]


def test_a_prompt_that_a_server_refuses_is_unscored_and_the_rest_goes_on(tmp_path):
    def behave(i, body):
        text = body["messages"][0]["content"]
        if "value 3?" in text:
            return 400, b"too long", {}
        return answer(bench_agents.alpha(body["messages"]))

    with loopback(behave) as server:
        options = AgentOptions(concurrency=1)
        agents = make_agents([f"openai:{server.url}#m"], options)
        results = bench(tmp_path, *agents, Counted(bench_agents.beta), seeds=1)[0]
    stage = method(results, "solo A")["stages"]["solo"]
    assert (stage["failed"], stage["unscored"], method(results, "solo A")["unscored"]) == (1, 1, 1)
    assert right(results, "solo A") == pytest.approx(6 / 11)


class Tags(html.parser.HTMLParser):
    """Collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.handlers: list[str] = []
        self.pre: list[str] = []
        self._in_pre = False

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self._in_pre = tag == "pre"
        if self._in_pre:
            self.pre.append("")

    def handle_endtag(self, tag):
        self._in_pre = False

    def handle_data(self, data):
        if self._in_pre:
            self.pre[-1] += data


def test_hostile_text_stays_text_in_the_page_the_table_and_the_store(tmp_path):
    agents = Counted(bench_agents.hostile), Counted(bench_agents.beta)
    agents[0].name = 'scripted:<script>alert("x")</script>|`'
    results, plan, played = bench(tmp_path, *agents, n=3, seeds=1)
    text = page(results, transcripts(plan, played))
    found = Tags()
    found.feed(text)
    assert found.tags["script"] == 1
    assert found.tags["img"] == 0
    assert found.handlers == []
    shown = bench_agents.HOSTILE.replace("\ud800", "?")
    assert shown in found.pre
    assert found.tags["details"] == 6  # 3 problems, 2 directions
    text.encode("utf-8")
    again, _, _ = bench(tmp_path, *agents, n=3, seeds=1)
    assert again["outcomes"] == results["outcomes"]
    rows = [line for line in markdown(results).splitlines() if line.startswith("| solo")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} <= {8, 12}


def test_the_kinds_of_transcripts():
    assert [kind_of(d, s) for d, s in ((False, True), (True, False), (False, False))] == [
        "converted",
        "corrupted",
        "both wrong",
    ]
    assert kind_of(True, True) == "kept"
    assert kind_of(None, True) == kind_of(False, None) == "unscored"


# --- nothing is paid for twice ---


def test_an_agent_that_dies_loses_nothing_and_costs_nothing_twice(tmp_path, known):
    alpha, beta = Counted(bench_agents.alpha), Counted(bench_agents.beta, fail_after=50)
    with pytest.raises(AgentError, match="beta raised ConnectionError: gone"):
        played_by(tmp_path, alpha, beta, controls=CONTROLS)
    assert len(peek(tmp_path / STORE)) == alpha.calls + beta.calls
    beta.fail_after = math.inf
    results, plan, _ = bench(tmp_path, alpha, beta, controls=CONTROLS)
    assert alpha.calls + beta.calls == len(plan.jobs())
    assert results["outcomes"] == known[0]["outcomes"]
    played_by(tmp_path, alpha, beta, controls=CONTROLS)
    assert alpha.calls + beta.calls == len(plan.jobs()), "a third time costs nothing"


def test_another_control_costs_only_what_it_adds(tmp_path):
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    played_by(tmp_path, *agents)
    before = sum(agent.calls for agent in agents)
    played_by(tmp_path, *agents, controls=("self_refine",))
    assert sum(agent.calls for agent in agents) == before + 2 * 24


def test_another_decoding_or_question_is_asked_anew(tmp_path):
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    plan, _, _ = played_by(tmp_path, *agents)
    file = bench_agents.write_problems(tmp_path / "problems.jsonl", 16)
    once = len(plan.jobs())
    played_by(tmp_path, *agents, decoding=Decoding(temperature=0.5))
    assert sum(agent.calls for agent in agents) == 2 * once
    text = Path(file).read_text().replace("value 3?", "value 3? Say it.")
    other = tmp_path / "other.jsonl"
    other.write_text(text)
    Path(file).write_text(text)
    calls = sum(agent.calls for agent in agents)
    played_by(tmp_path, *agents, file=file)
    assert calls < sum(agent.calls for agent in agents) < calls + once / 4


def test_a_line_cut_by_a_kill_is_asked_again_and_a_damaged_one_is_named(tmp_path):
    """Pitfall 66."""
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    plan, _, _ = played_by(tmp_path, *agents)
    store = tmp_path / STORE
    whole = store.read_text()
    store.write_text(whole[:-30])
    calls = sum(agent.calls for agent in agents)
    played_by(tmp_path, *agents)
    assert sum(agent.calls for agent in agents) == calls + 1
    assert len(peek(store)) == len(plan.jobs())
    store.write_text("{}\n" + whole)
    with pytest.raises(ValueError, match="line 1 is damaged"), Store(store):
        pass


def test_two_benchmarks_do_not_write_one_store(tmp_path):
    store = Store(tmp_path / STORE)
    with store, pytest.raises(BlockingIOError, match="another benchmark"), Store(store.path):
        pass


def test_a_plan_counts_every_generation_before_it_costs(tmp_path):
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    file = bench_agents.write_problems(tmp_path / "problems.jsonl", 16)
    settings = Settings(agents=("alpha", "beta"), task=file, n=12, seeds=2, k=3, controls=CONTROLS)
    plan = make_plan(settings, settings.agents)
    rows = estimate(plan, tmp_path)
    assert sum(row.stored for row in rows) == 0
    played_by(tmp_path, *agents, controls=CONTROLS)
    assert sum(row.generations for row in rows) == sum(agent.calls for agent in agents)
    again = estimate(plan, tmp_path)
    assert sum(row.stored for row in again) == sum(row.generations for row in rows)
    assert sum(row.tokens for row in again) == 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"agents": ("a",)}, "2 to 26 agents"),
        ({"controls": ("magic",)}, "unknown controls"),
        ({"seeds": 0}, "seeds must be"),
        ({"k": 1}, "and k 2"),
        ({"reveal": "all"}, "reveal"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        Settings(**{"agents": ("a", "b"), "task": "t", **settings})


# --- comparing results ---


def test_a_result_differs_from_itself_in_nothing(known):
    for found in compare(known[0], known[0]):
        assert (found.found.difference.value, found.p_adjusted, found.significant) == (0, 1, False)
        assert (found.problems, found.left_out) == (12, 0)


def test_a_comparison_is_paired_by_problem_and_adjusted(known):
    results = known[0]
    (found,) = compare(results, results, [("cascade A>B", "solo A")])
    assert found.found.difference.value == 0.25
    assert (found.found.only_first, found.found.only_second) == (3, 0)
    assert found.p_adjusted == 0.25
    assert found.verdict == "no significant difference"
    twice = compare(results, results, [("cascade A>B", "solo A"), ("solo A", "solo A")])
    assert [entry.p_adjusted for entry in twice] == [0.5, 1.0]


def test_enough_problems_make_a_difference_significant(tmp_path):
    file = bench_agents.write_problems(tmp_path / "p.jsonl", 40)
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    results = bench(tmp_path / "o", *agents, file=file, n=40, seeds=1)[0]
    (found,) = compare(results, results, [("solo A", "cascade A>B")])
    assert found.found.p == 2 * 0.5 ** len([n for n in range(30) if n % 4 == 2])
    assert found.verdict == "significant: second is better"


def test_only_equal_problems_are_compared(known):
    other = json.loads(json.dumps(known[0]))
    other["problems"]["p0"] = "changed"
    del other["problems"]["p1"]
    assert {(f.problems, f.left_out) for f in compare(known[0], other)} == {(10, 2)}
    other["problems"] = {}
    with pytest.raises(ValueError, match="no problem in common"):
        compare(known[0], other)
    with pytest.raises(ValueError, match="no method 'solo Z'"):
        compare(known[0], known[0], [("solo Z", "solo A")])
    with pytest.raises(ValueError, match=r"results\.json of"):
        compare({}, known[0])
