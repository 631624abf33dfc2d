"""The benchmark of pairs in trouble: odd input, hostile text, kills; and comparing two results."""

from __future__ import annotations

import html.parser
import json
import math
import re
from collections import Counter
from pathlib import Path

import bench_agents
import pair_bench
import pytest
from loopback_llm import answer, loopback
from pair_bench import STORE, Counted, bench, judge, method, play_known, played_by, right

from agon_env.types import Problem, Verdict
from learners.agents import AgentError, AgentOptions, Decoding, make_agents
from learners.benchmark import Settings, compare, estimate, make_plan
from learners.benchmark.methods import CONTROLS
from learners.benchmark.page import page
from learners.benchmark.store import Store, peek
from learners.benchmark.tables import markdown
from learners.benchmark.transcripts import kind_of, transcripts


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return play_known(tmp_path_factory.mktemp("known"))


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

    monkeypatch.setattr(pair_bench, "judge", sometimes)
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
