"""The AEC and Parallel views, and that all four views are the same game."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simple_game import PICKY, PROBLEMS, WRONG, exact, reply

import agon_env
from agon_env.spaces import MAX_REPLY_CHARS
from agon_env.types import AGENTS, Problem, Verdict
from agon_env.verifiers import isolation

A, B = AGENTS
PINNED = {"problem_id": "sum-3"}

texts = st.sampled_from(
    [reply("6"), "<answer>6</answer>", WRONG, reply("6", note="x" * 90), ""]
) | (st.text(st.characters(codec=None, exclude_categories=()), max_size=30))


def play_aec(seating, draft, solution) -> dict:
    env = agon_env.env(**PICKY)
    env.reset(options={**PINNED, "seating": seating})
    total = dict.fromkeys(AGENTS, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, _, _ = env.last()
        total[agent] += reward
        text = draft if observation["role"] == "drafter" else solution
        env.step(None if terminated else text)
    return total


def play_parallel(seating, draft, solution) -> dict:
    env = agon_env.parallel_env(**PICKY)
    env.reset(options={**PINNED, "seating": seating})
    env.step(dict.fromkeys(AGENTS, draft))
    return env.step(dict.fromkeys(AGENTS, solution))[1]


def play_vector(seating, draft, solution) -> dict:
    env = agon_env.vector_env(**PICKY)
    env.reset(options={"problem_id": ["sum-1", "sum-3"], "seating": seating})
    env.step({agent: ["whatever", draft] for agent in AGENTS})
    rewards = env.step({agent: ["whatever", solution] for agent in AGENTS})[1]
    return {agent: float(rewards[agent][1]) for agent in AGENTS}


def play_gym(seating, draft, solution) -> float:
    def rival(prompt: str) -> str:
        return solution if "Another solver" in prompt else draft

    env = agon_env.single_agent_env(rival=rival, **PICKY)
    observation, _ = env.reset(options={**PINNED, "seating": seating})
    total, terminated = 0.0, False
    while not terminated:
        text = draft if observation["role"] == "drafter" else solution
        observation, reward, terminated, _, _ = env.step(text)
        total += reward
    return total


@settings(max_examples=60)
@given(draft=texts, solution=texts, seating=st.sampled_from([A, B, "both"]))
def test_the_same_texts_earn_the_same_rewards_in_all_four_views(draft, solution, seating):
    rewards = play_aec(seating, draft, solution)
    assert play_parallel(seating, draft, solution) == rewards
    assert play_vector(seating, draft, solution) == rewards
    assert play_gym(seating, draft, solution) == rewards[A]


@settings(max_examples=30)
@given(draft=texts, solution=texts)
def test_swapping_the_agents_swaps_the_rewards(draft, solution):
    one, other = play_aec(A, draft, solution), play_aec(B, draft, solution)
    assert (one[A], one[B]) == (other[B], other[A])


def test_rewards_are_the_papers_when_the_solver_beats_a_wrong_draft():
    assert play_aec(A, WRONG, reply("6")) == {A: 0.5, B: 3.5}
    assert play_aec(A, reply("6"), reply("6")) == {A: 2.5, B: 2.5}
    assert play_aec(A, reply("6"), WRONG) == {A: 2.5, B: 0.5}
    assert play_aec("both", WRONG, reply("6")) == {A: 4.0, B: 4.0}


@pytest.mark.parametrize(
    ("seating", "expected"),
    [("alternate", {A: 5, B: 5}), ("fixed", {A: 10}), ("both", {A: 10, B: 10})],
)
def test_seats_are_dealt_and_counted_over_episodes(seating, expected):
    env = agon_env.raw_env(**PICKY, seating=seating)
    drafts = Counter()
    for number in range(10):
        env.reset()
        if seating == "alternate":
            assert env.agent_selection == AGENTS[number % 2]
        while env.agents:
            agent = env.agent_selection
            drafts[agent] += env.infos[agent]["acts"] and env.observe(agent)["role"] == "drafter"
            env.step(None if env.terminations[agent] else WRONG)
    assert +drafts == expected


def test_a_seating_option_holds_for_one_episode():
    env = agon_env.parallel_env(**PICKY, seating="fixed")
    roles = []
    for options in (None, {"seating": B}, {"seating": "both"}, None):
        observations, _ = env.reset(options=options)
        roles.append(tuple(observations[agent]["role"] for agent in AGENTS))
    assert roles == [
        ("drafter", "solver"),
        ("solver", "drafter"),
        ("drafter", "drafter"),
        ("drafter", "solver"),
    ]


def test_every_problem_is_played_once_per_epoch_in_a_seeded_order():
    env = agon_env.raw_env(**PICKY)

    def epoch(**reset) -> list:
        ids = []
        for number in range(len(PROBLEMS)):
            env.reset(**(reset if number == 0 else {}))
            ids.append(env.infos[A]["problem_id"])
        return ids

    first, second = epoch(seed=5), epoch()
    assert sorted(first) == sorted(second) == sorted(problem.id for problem in PROBLEMS)
    assert first != second
    assert epoch(seed=5) == first


def test_a_pinned_problem_is_played_and_takes_nothing_from_the_shuffle():
    env, other = agon_env.raw_env(**PICKY), agon_env.raw_env(**PICKY)
    env.reset(seed=5, options={"problem_id": "sum-2"})
    assert env.infos[A]["problem_id"] == "sum-2"
    env.reset()
    other.reset(seed=5)
    assert env.infos[A]["problem_id"] == other.infos[A]["problem_id"]


def test_an_unknown_problem_id_says_which_exist():
    with pytest.raises(ValueError, match=r"unknown problem_id 'sum-9'; this env plays 6 problems"):
        agon_env.raw_env(**PICKY).reset(options={"problem_id": "sum-9"})


def test_infos_hold_the_messages_of_whoever_acts_and_the_verdicts_at_the_end():
    env = agon_env.raw_env(**PICKY)
    env.reset(options=PINNED)
    assert env.infos[A]["messages"][-1]["content"].startswith("Problem:\nWhat is 3 + 3?")
    assert env.infos[A]["acts"]
    assert "messages" not in env.infos[B]
    env.step(WRONG)
    assert "Doubling is adding twice." in env.infos[B]["messages"][-1]["content"]
    assert "minus one" not in env.infos[B]["messages"][-1]["content"]
    assert "verdict" not in env.infos[B]
    env.step(reply("6"))
    assert env.infos[B]["verdict"] == Verdict(True, "match", "6")
    assert env.infos[B]["rival_verdict"] == Verdict(False, "mismatch", "minus one")
    assert env.infos[B]["reward_parts"] == {"correct": 2.0, "conversion": 1.0, "format": 0.5}
    assert env.infos[A]["reward_parts"] == {"correct": 0.0, "format": 0.5}
    assert env.infos[B]["scored"]
    assert "messages" not in env.infos[B]


def test_with_both_drafting_infos_hold_both_outcomes_and_the_verdict_of_the_last():
    env = agon_env.parallel_env(**PICKY)
    env.reset(options=PINNED)
    env.step({A: reply("6"), B: WRONG})
    infos = env.step({A: WRONG, B: reply("6")})[4]
    assert [(o.role, o.verdict.correct) for o in infos[A]["outcomes"]] == [
        ("drafter", True),
        ("solver", False),
    ]
    assert infos[A]["verdict"].correct is False
    assert infos[A]["rival_verdict"].correct is False


def test_messages_handed_out_are_nobody_elses():
    """Pitfall 56: a caller that edits its prompt must not edit the next one."""
    env = agon_env.parallel_env(**PICKY)
    _, infos = env.reset(options=PINNED)
    infos[A]["messages"][0]["content"] = "defaced"
    infos[A]["messages"].clear()
    _, again = env.reset(options=PINNED)
    assert again[A]["messages"][0]["content"].startswith("Problem:")


def test_the_second_parallel_round_sees_the_others_draft():
    """Trap 3, pitfall 50: a converted AEC env would ask for the solution before the draft."""
    env = agon_env.parallel_env(**PICKY)
    first, _ = env.reset(seed=0)
    second, _, terminations, _, infos = env.step(
        {A: reply("1", note="from zero"), B: reply("2", note="from one")}
    )
    assert {first[agent]["draft"] for agent in AGENTS} == {""}
    assert (second[A]["role"], second[B]["role"]) == ("solver", "solver")
    assert "from one" in second[A]["draft"]
    assert "from zero" in second[B]["draft"]
    assert "from one" in infos[A]["messages"][-1]["content"]
    assert terminations == {A: False, B: False}


def test_a_parallel_step_after_the_end_still_returns_five_mappings():
    """Trap 4."""
    env = agon_env.parallel_env(**PICKY)
    env.reset()
    env.step(dict.fromkeys(AGENTS, WRONG))
    assert len(env.step(dict.fromkeys(AGENTS, WRONG))) == 5
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_an_idle_parallel_agent_stays_alive_and_its_action_is_ignored():
    env = agon_env.parallel_env(**PICKY, seating="fixed")
    _, infos = env.reset(options=PINNED)
    assert (infos[A]["acts"], infos[B]["acts"]) == (True, False)
    observations, *_, infos = env.step({A: WRONG, B: "spoken out of turn"})
    assert env.agents == [A, B]
    assert observations[A]["draft"] == ""
    assert (infos[A]["acts"], infos[B]["acts"]) == (False, True)
    env.step({B: reply("6")})
    assert [turn.reply for turn in env.episode.turns] == [WRONG, reply("6")]


def test_a_missing_parallel_action_is_named():
    env = agon_env.parallel_env(**PICKY)
    env.reset()
    with pytest.raises(ValueError, match=r"must hold a reply for \['agent_1'\], got replies for"):
        env.step({A: "x"})


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem("p7", "q", ""), "problem 'p7': the verifier 'math' needs a gold answer"),
        (Problem("p7", "q", "7", verifier="code"), "problem 'p7': the verifier 'code' needs tests"),
        (Problem("p7", "q", "7", verifier="mth"), "problem 'p7': unknown verifier 'mth'"),
    ],
)
def test_a_problem_that_cannot_be_judged_is_refused_before_it_is_played(problem, message):
    with pytest.raises(ValueError, match=message):
        agon_env.env(problems=[*PROBLEMS, problem])
    agon_env.env(problems=[*PROBLEMS, problem], verifier=exact)


def test_a_seed_below_zero_and_a_template_that_is_none_are_refused():
    with pytest.raises(ValueError, match="seed must be None or a whole number of at least 0"):
        agon_env.env(**{**PICKY, "seed": -1})
    with pytest.raises(TypeError, match=r"template must be None or a Template .*, got int"):
        agon_env.env(**PICKY, template=3)


def test_a_round_with_a_reply_that_is_no_string_is_not_played_at_all():
    env = agon_env.parallel_env(**PICKY)
    env.reset()
    with pytest.raises(TypeError, match="a reply must be a string, got int from agent_1"):
        env.step({A: "ok", B: 3})
    observations, *_ = env.step({A: "first", B: "second"})
    assert [observations[agent]["draft"] for agent in AGENTS] == ["second", "first"]


def test_an_agent_is_scored_only_if_all_of_its_turns_are():
    env = agon_env.parallel_env(**PICKY, reward=lambda play: {"drafter": None}.get(play.role, 1.0))
    env.reset()
    env.step(dict.fromkeys(AGENTS, WRONG))
    _, rewards, _, _, infos = env.step(dict.fromkeys(AGENTS, WRONG))
    assert rewards == {A: 1.0, B: 1.0}
    assert [infos[agent]["scored"] for agent in AGENTS] == [False, False]


def test_infos_count_the_replies_that_lost_their_end():
    env = agon_env.parallel_env(**PICKY)
    env.reset()
    long = "x" * (MAX_REPLY_CHARS + 1)
    env.step({A: long, B: "short"})
    *_, infos = env.step({A: long, B: long})
    assert [infos[agent]["cut"] for agent in AGENTS] == [2, 1]


def test_an_unscored_reply_pays_nothing_and_says_so():
    """Pitfalls 28 and 29: unscored is not wrong."""
    env = agon_env.raw_env(problems=PROBLEMS, verifier=lambda problem, text: None)
    env.reset()
    env.step(WRONG)
    env.step(WRONG)
    assert env.rewards == {A: 0.0, B: 0.0}
    assert [outcome.reward for outcome in env.episode.outcomes] == [None, None]
    assert env.infos[A]["verdict"].correct is None
    assert not env.infos[A]["scored"]


@pytest.mark.parametrize(("result", "correct"), [(True, True), (False, False), (None, None)])
def test_a_users_verifier_may_return_a_bool(result, correct):
    env = agon_env.raw_env(problems=PROBLEMS, verifier=lambda problem, text: result)
    env.reset()
    env.step("x")
    env.step("y")
    assert {outcome.verdict.correct for outcome in env.episode.outcomes} == {correct}


def test_a_users_broken_verifier_raises_instead_of_scoring():
    def broken(problem, text):
        raise ZeroDivisionError

    env = agon_env.raw_env(problems=PROBLEMS, verifier=broken)
    env.reset()
    with pytest.raises(ZeroDivisionError):
        env.step("x")
    env = agon_env.raw_env(problems=PROBLEMS, verifier=lambda problem, text: "yes")
    env.reset()
    with pytest.raises(TypeError, match="must return a Verdict, a bool or None, got str"):
        env.step("x")


def test_a_users_reward_sees_both_replies_lengths_and_decides():
    seen = []

    def shortest(play):
        seen.append((play.role, play.length, play.rival_length, play.draft))
        return {"short": float(play.length < play.rival_length)}

    env = agon_env.raw_env(**PICKY, reward=shortest, reveal="full", seating="fixed")
    env.reset()
    env.step("four")
    env.step("six six")
    assert seen == [("drafter", 4, 7, ""), ("solver", 7, 4, "four")]
    assert env.infos[A]["reward_parts"] == {"short": 1.0}
    assert env.rewards == {A: 1.0, B: 0.0}


def test_drafts_are_at_the_verifier_before_the_solver_has_replied():
    judged = []

    def watch(problem, text):
        judged.append(text)
        return exact(problem, text)

    env = agon_env.raw_env(problems=PROBLEMS, verifier=watch)
    env.reset()
    env.step("draft")
    assert judged == ["draft"]


def test_a_real_task_is_played_with_its_own_verifier_and_template():
    env = agon_env.parallel_env("modchain-easy", seed=0, split="test")
    _, infos = env.reset()
    question = infos[A]["messages"][-1]["content"].splitlines()[-1]
    start, *operations = question.split()
    value, chain = int(start), []
    for operation in operations:
        operand = int(operation[1:])
        value = (value + operand if operation[0] == "+" else value * operand) % 11
        chain += [operation, str(value)]
    observations, *_ = env.step({A: " ".join(chain), B: "no idea"})
    assert observations[B]["draft"] == " ".join([*chain[:-1], "?"])
    _, rewards, _, _, infos = env.step({A: " ".join(chain), B: "no idea"})
    assert rewards == {A: 6.0, B: 0.0}  # 2 + 0.5 as drafter, 2 + 1 + 0.5 as solver
    assert infos[A]["verdict"].reason == "match"


def test_problems_beside_a_task_are_played_with_the_tasks_template():
    mine = Problem("mine", "3 +4 *2", "3", verifier="modchain")
    env = agon_env.raw_env("modchain-easy", problems=[mine])
    env.reset()
    assert env.infos[A]["problem_id"] == "mine"
    assert env.infos[A]["messages"][-1]["content"].startswith("Apply the operations")


@pytest.mark.slow
@pytest.mark.skipif(isolation() == "none", reason="programs run only where they can be isolated")
def test_programs_and_mathematics_are_judged_by_their_own_verifiers_in_one_env():
    sums = Problem("sums", r"What is $\frac12 + \frac14$?", r"\frac{3}{4}")
    cases = [{"input": "2\n", "output": "4\n"}, {"input": "5\n", "output": "10\n"}]
    double = Problem("double", "Print twice the input.", "", verifier="code", tests=cases)
    env = agon_env.vector_env(problems=[sums, double])
    program = "Double it.\n```python\nprint(2 * int(input()))\n```"
    env.reset(options={"problem_id": ["sums", "double"], "seating": A})
    observations, *_ = env.step({A: ["<answer>0.75</answer>", program]})
    assert observations[B][1]["draft"] == "Double it.\n[withheld]"
    *_, infos = env.step({B: ["<answer>0.7</answer>", "```python\nprint(4)\n```"]})
    verdicts = {agent: [info["verdict"].reason for info in infos[agent]] for agent in AGENTS}
    assert verdicts == {A: ["match", "accepted"], B: ["mismatch", "wrong_answer"]}
