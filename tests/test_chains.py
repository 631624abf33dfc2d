"""Chains: their problems, their verifiers, what a rival may see, and their place in the game."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agon_env
from agon_env.tasks import find_task, load_problems
from agon_env.tasks.carry import CARRY, number
from agon_env.tasks.chains import (
    FAMILIES,
    Chain,
    judge,
    read_derivation,
    read_question,
    rules_of,
    write_derivation,
)
from agon_env.tasks.modchain import MODCHAIN, MODULUS, apply
from agon_env.types import Problem

QUESTION = "3 +4 *2 +10"
"""3 + 4 = 7, 7 * 2 = 14 = 3, 3 + 10 = 13 = 2 (mod 11)."""
RIGHT = "+4 7 *2 3 +10 2"
PROBLEM = Problem(id="p", question=QUESTION, answer="2", verifier="modchain")

VERDICTS = [
    (RIGHT, True, "match", "2"),
    (RIGHT + " !", True, "match", "2"),
    ("  +4 7\n*2 3\t+10   2\n", True, "match", "2"),
    ("<think>+4 7 *2 3 +10 5</think> " + RIGHT, True, "match", "2"),
    ("+4 8 *2 5 +10 2", True, "match", "2"),  # values inside the chain are not checked
    ("+4 7 *2 3 +10 3", False, "mismatch", "3"),
    ("2", False, "no_answer", None),  # a guess without a derivation
    ("+4 7 *2 3", False, "no_answer", None),  # stops early
    ("+4 7 *2 3 +10", False, "no_answer", None),  # cut before the answer
    ("*2 6 +4 10 +10 2", False, "no_answer", None),  # operations in another order
    ("+4 7 +10 2", False, "no_answer", None),  # an operation skipped
    (RIGHT + " 2", False, "no_answer", None),  # goes on
    (RIGHT + " +1 3", False, "no_answer", None),
    (RIGHT + " ! !", False, "no_answer", None),
    ("+4 7 *2 3 +10 ?", False, "no_answer", None),  # the rival's summary, copied
    ("+4 7 *2 3 +10 13", False, "no_answer", None),  # no value modulo 11
    ("+4 7 *2 3 +10 02", False, "no_answer", None),
    ("+4 7 *2 3 +10 ٢", False, "no_answer", None),  # a digit, but not one of ours
    ("+4 7 *2 3 +10 2.0", False, "no_answer", None),
    ("<think>" + RIGHT, False, "no_answer", None),  # never stops thinking
    ("", False, "no_answer", None),
    ("\ud800\x00", False, "no_answer", None),
]


@pytest.mark.parametrize(("text", "correct", "reason", "answer"), VERDICTS)
def test_verdict_needs_the_answer_and_the_whole_derivation(text, correct, reason, answer):
    verdict = judge(MODCHAIN, PROBLEM, text)
    assert (verdict.correct, verdict.reason, verdict.answer) == (correct, reason, answer)


@pytest.mark.parametrize(
    ("question", "answer"), [("3 +4", "8"), ("what is 1 + 1?", "2"), ("", "0"), ("3 +0", "3")]
)
def test_a_wrong_gold_is_our_fault_and_not_the_models(question, answer):
    """Pitfall 64: a wrong or unreadable gold gives no score, whatever the reply."""
    problem = Problem(id="p", question=question, answer=answer, verifier="modchain")
    verdict = judge(MODCHAIN, problem, "+4 8")
    assert (verdict.correct, verdict.reason) == (None, "unscorable")


WORDS = [*MODCHAIN.operations, *MODCHAIN.values, "!", "?"]


@given(st.text() | st.lists(st.sampled_from(WORDS)).map(" ".join))
@settings(max_examples=200, deadline=None)
def test_any_reply_has_a_verdict_and_a_summary_without_its_last_value(text):
    verdict = judge(MODCHAIN, PROBLEM, text)
    reply = MODCHAIN.template.read(PROBLEM, text)
    assert verdict.correct is not None
    assert reply.well_formed == (verdict.reason != "no_answer")
    assert reply.answer == verdict.answer
    shown = reply.summary.split()
    assert len(shown) <= 6
    assert shown[5:] in ([], ["?"])


def test_verify_routes_the_problem_to_its_own_verifier():
    assert agon_env.verify(PROBLEM, RIGHT).correct is True
    assert agon_env.verify(PROBLEM, "+4 7 *2 3 +10 3").correct is False


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (RIGHT, "+4 7 *2 3 +10 ?"),
        (RIGHT + " !", "+4 7 *2 3 +10 ?"),
        ("+4 8 *2 5 +10 9", "+4 8 *2 5 +10 ?"),
        (RIGHT + " +1 2 so it is 2", "+4 7 *2 3 +10 ?"),  # repeats the answer afterwards
        ("<think>2</think>" + RIGHT, "+4 7 *2 3 +10 ?"),
        ("+4 7 *2 3 +10", "+4 7 *2 3"),
        ("+4 7 2 2 2", "+4 7"),
        ("the answer is 2", ""),
        ("<think>" + RIGHT, ""),
    ],
)
def test_summary_is_the_derivation_without_its_last_value(text, summary):
    assert MODCHAIN.template.read(PROBLEM, text).summary == summary


def test_solver_is_prompted_with_the_draft_behind_the_question():
    drafter = {"role": "drafter", "problem": QUESTION, "draft": ""}
    solver = {"role": "solver", "problem": QUESTION, "draft": "+4 7\n*2 3 +10 ?"}
    plain, reading = (
        MODCHAIN.template.messages(o)[-1]["content"].split("\n")[-1] for o in (drafter, solver)
    )
    assert plain == QUESTION
    assert reading == QUESTION + " D: +4 7 *2 3 +10 ?"


def test_no_two_operations_are_the_same_function_and_none_is_the_identity():
    functions = {tuple(apply(op, value) for value in range(MODULUS)) for op in MODCHAIN.operations}
    assert len(functions) == len(MODCHAIN.operations) == 19
    assert tuple(range(MODULUS)) not in functions


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
@pytest.mark.parametrize("rules", FAMILIES.values(), ids=FAMILIES)
def test_problems_carry_a_gold_that_verifies_against_itself(rules, level):
    problems = load_problems(f"{rules.name}-{level}", split="validation", limit=100)
    assert {p.difficulty for p in problems} == {float(n) for n in rules.lengths[level]}
    for problem in problems:
        chain = read_question(rules, problem.question)
        assert chain is not None
        assert chain.question == problem.question
        assert len(set(chain.operations)) == len(chain.operations)
        derivation = write_derivation(chain.operations, chain.values())
        assert read_derivation(chain, derivation) == (tuple(map(str, chain.values())), True)
        assert judge(rules, problem, derivation).correct is True


def test_splits_share_no_question_whatever_the_seeds():
    drawn = {
        split: {
            problem.question
            for seed in (0, 1)
            for problem in load_problems("modchain-easy", split=split, limit=120, seed=seed)
        }
        for split in ("train", "validation", "test")
    }
    assert all(len(questions) > 120 for questions in drawn.values())
    assert not drawn["train"] & drawn["validation"]
    assert not drawn["train"] & drawn["test"]
    assert not drawn["validation"] & drawn["test"]


def test_a_seed_gives_one_sequence_and_another_seed_another():
    first, again, other = (load_problems("modchain-hard", limit=50, seed=s) for s in (3, 3, 4))
    assert first == again
    assert not {p.id for p in first} & {p.id for p in other}


def test_a_longer_load_starts_with_the_shorter_one():
    assert load_problems("modchain-hard", limit=40)[:15] == load_problems("modchain-hard", limit=15)


def test_reading_the_question_gives_the_chain_back():
    chain = Chain(MODCHAIN, 3, ("+4", "*2", "+10"))
    assert read_question(MODCHAIN, QUESTION) == chain
    assert chain.values() == (7, 3, 2)


def test_the_game_pays_a_solver_who_corrects_a_wrong_draft():
    env = agon_env.parallel_env("modchain-hard", problems=[PROBLEM], seating="fixed")
    assert find_task("modchain-hard").template == MODCHAIN.template
    observations, _ = env.reset(seed=0)
    assert observations["agent_0"]["draft"] == ""
    observations, *_ = env.step({"agent_0": "+4 7 *2 4 +10 3", "agent_1": ""})
    assert observations["agent_1"]["draft"] == "+4 7 *2 4 +10 ?"
    _, rewards, *_ = env.step({"agent_0": "", "agent_1": RIGHT})
    assert rewards == {"agent_0": 0.5, "agent_1": 2.0 + 1.0 + 0.5}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_the_columns_of_carry_add_up(columns):
    operations = tuple(f"{a}+{b}" for a, b in columns)
    first, second = (
        int("".join(str(digits[side]) for digits in reversed(columns))) for side in (0, 1)
    )
    assert int(Chain(CARRY, 0, operations).answer()) == first + second


CARRY_PROBLEM = Problem(id="c", question="0 7+5 4+8", answer="132", verifier="carry")


@pytest.mark.parametrize(
    ("text", "correct", "answer"),
    [
        ("7+5 12 4+8 13", True, "132"),
        ("7+5 12 4+8 13 !", True, "132"),
        ("7+5 2 4+8 13", True, "132"),  # the carry mark inside the chain is not checked
        ("7+5 12 4+8 12", False, "122"),
        ("7+5 11 4+8 13", False, "131"),
        ("4+8 12 7+5 13", False, None),
        ("7+5 12", False, None),
        ("132", False, None),
        ("7+5 12 4+8 20", False, None),  # no sum of two digits and a carry
    ],
)
def test_a_sum_with_carries_is_judged_by_its_number(text, correct, answer):
    verdict = agon_env.verify(CARRY_PROBLEM, text)
    assert (verdict.correct, verdict.answer) == (correct, answer)


def test_a_draft_of_carry_shows_all_columns_but_the_last_sum():
    assert CARRY.template.read(CARRY_PROBLEM, "7+5 12 4+8 13").summary == "7+5 12 4+8 ?"
    assert number([12, 13]) == "132"


@pytest.mark.parametrize("question", ["1 7+5", "0 7+10", "0", "0 +4"])
def test_a_start_or_a_column_of_another_family_is_no_question(question):
    assert read_question(CARRY, question) is None


def test_the_facts_of_a_family_are_its_steps():
    assert CARRY.facts.shape == (100, 2)
    assert MODCHAIN.facts.shape == (19, 11)
    assert CARRY.facts[CARRY.operations.index("7+5")].tolist() == [12, 13]
    assert CARRY.states[9:11] == (0, 1)


def test_a_task_names_its_rules():
    assert rules_of("carry-hard") is CARRY
    with pytest.raises(ValueError, match=r"task must be of \['carry', 'modchain'\]"):
        rules_of("arithmetic-easy")
