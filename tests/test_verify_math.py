"""The math judge against tables: cases from public bug reports, and our own rows by kind."""

import json
import signal
import threading
from pathlib import Path

import pytest

from agon_env.types import Problem
from agon_env.verifiers.math import (
    gold_problem,
    judge_final,
    judge_math,
    judge_math_marked,
    verify_answer,
)

DATA = Path(__file__).parent / "data"
CASES = [
    json.loads(line) for line in (DATA / "verifier_math.jsonl").read_text("utf-8").splitlines()
]
ANSWER_TAG_COMES_FIRST = {"m-no_boxed-10"}
"""Labelled wrong by the rule "no box, no answer"; but a complete answer tag is an answer, and comes
before boxes: the format that the prompts ask for."""
HOSTILE = {
    "injection", "hedge", "hang", "parrot", "near_miss", "trailing_text", "nan", "empty_or_junk",
    "truncated", "unit_collision", "think_region", "no_boxed", "multiple_boxed", "long",
}  # fmt: skip


def rows():
    kind = ""
    for line in (DATA / "math_answers.txt").read_text("utf-8").splitlines():
        if line.startswith("## "):
            kind = line[3:]
        elif not line.startswith("# "):
            gold, answer, verdict = line.split(" | ")
            yield pytest.param(gold, answer, verdict == "yes", id=f"{kind}: {gold} | {answer}")


def judged(gold, text, *, question=""):
    return judge_math(Problem(id="p", question=question, answer=gold), text)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_verdict_of_every_public_case_is_right(case):
    """Guards pitfalls 63 and 64 (argument order, unusable golds) among many."""
    expected = case["correct"] or case["id"] in ANSWER_TAG_COMES_FIRST
    verdict = judged(case["gold"], case["response"])
    assert bool(verdict.correct) == expected, verdict
    assert verdict.seconds < case.get("max_seconds", 5)
    assert not Path(case.get("must_not_create", "none")).exists()


def test_no_hostile_case_is_paid():
    paid = [
        case["id"]
        for case in CASES
        if case["kind"] in HOSTILE
        and not case["correct"]
        and judged(case["gold"], case["response"]).correct
    ]
    assert set(paid) <= ANSWER_TAG_COMES_FIRST


@pytest.mark.parametrize(("gold", "answer", "expected"), list(rows()))
def test_what_counts_as_equal_follows_the_table(gold, answer, expected):
    assert verify_answer(gold, answer) is expected
    assert gold_problem(gold) is None


REASONS = [
    ("7", r"so \boxed{7}", True, "match", "7"),
    ("7", r"so \boxed{8}", False, "mismatch", "8"),
    ("7", "<answer>7</answer>", True, "match", "7"),
    ("7", r"<answer>it is \boxed{7}</answer>", True, "match", "7"),
    ("7", r"<answer>\boxed{7</answer>", False, "truncated", None),
    ("7", "no box", False, "no_answer", None),
    ("7", "Final answer: 7", False, "no_answer", None),
    ("7", r"\boxed{}", False, "no_answer", None),
    ("7", r"\boxed{ }", False, "no_answer", None),
    ("7", "<think>7", False, "truncated", None),
    ("7", r"\boxed{7", False, "truncated", None),
    ("", r"\boxed{7}", None, "unscorable", "7"),
    ("((((", r"\boxed{7}", None, "unscorable", "7"),
    (r"\frac{0}{0}", r"\boxed{\frac{0}{0}}", None, "unscorable", r"\frac{0}{0}"),
]


@pytest.mark.parametrize(("gold", "text", "correct", "reason", "answer"), REASONS)
def test_a_verdict_says_why_and_what_was_read(gold, text, correct, reason, answer):
    verdict = judged(gold, text)
    assert (verdict.correct, verdict.reason, verdict.answer) == (correct, reason, answer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{4} is one. Or else \boxed{5}", False),
        (r"It is \boxed{4}, or perhaps \boxed{5}.", False),
        (r"So \boxed{4}. Alternatively, it could be \boxed{5}.", False),
        (r"So \boxed{4}; otherwise \boxed{5}.", False),
        (r"First \boxed{4}. I forgot one, so it is \boxed{5}.", True),
        (r"First \boxed{2 or 3}. Adding 2 or 3 more cases, \boxed{5}.", True),
        (r"It is \boxed{5}, or equivalently, \boxed{5}.", True),
    ],
)
def test_a_second_guess_beside_the_first_is_a_list_and_a_correction_is_not(text, expected):
    assert judged("5", text).correct is expected


def test_a_marked_answer_counts_only_for_the_lenient_judge():
    problem = Problem(id="p", question="", answer="64")
    assert judge_math(problem, "Final answer: **64**").reason == "no_answer"
    assert judge_math_marked(problem, "Final answer: **64**").reason == "match"
    assert judge_math_marked(problem, "It might be 64 or 65.").reason == "no_answer"


CHOICES = r"Which one? (A) $12$ (B) $\frac{1}{2}$ (C) a circle"


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("B", "B", True),
        ("B", r"\frac{1}{2}", True),
        ("B", "0.5", True),
        ("B", "12", False),
        ("12", "A", True),
        ("12", "B", False),
        ("C", r"\text{a circle}", True),
        ("A", "A or B", False),
        ("A", "(A) 12", True),
        ("A", "(A) 13", False),
        ("B", r"\text{(B) } \frac{1}{2}", True),
        ("C", "C. a circle", True),
        ("C", "C. circle", True),
        ("C", "C. a square", False),
        ("A", "A. B. C.", False),
    ],
)
def test_a_letter_and_its_content_are_one_answer_where_the_question_lists_the_choices(
    gold, answer, expected
):
    assert verify_answer(gold, answer, question=CHOICES) is expected


def test_the_content_of_a_choice_is_no_answer_where_no_choices_are_listed():
    assert not verify_answer("B", "0.5", question="Which option is right?")


@pytest.mark.parametrize(
    ("question", "gold", "answer", "expected"),
    [
        (r"Find $7^{3}-7^{2}$.", "294", r"7^{3}-7^{2}", False),
        (r"Find $7^{3}-7^{2}$.", "294", "294", True),
        (r"Find $7^{3}-7^{2}-287$.", "7", r"7^{3}-7^{2}-287", False),
        (r"Simplify $\frac{x^2-1}{x-1}$.", "x+1", r"\frac{x^2-1}{x-1}", False),
        (r"Simplify $\frac{x^2-1}{x-1}$.", "x+1", "1+x", True),
        (r"Is $\frac{1}{2}$ or $0.4$ larger?", "0.5", r"\frac{1}{2}", True),
        ("What is 4 * 11?", "44", "(4 * 11)", False),
        ("What is 4 * 11?", "44", "11 * 4", False),
        ("What is 4 * 11?", "44", r"4 \times 11 = 4 \cdot 11", False),
        ("What is 4 * 11?", "44", "4 * 11 = 44", True),
        ("What is 4 * 11?", "44", "1*(11 * 4)+0", False),
        ("What is 4 * 11?", "44", r"\text{44}", True),
        ("What is 3 + 4 * 11?", "47", "11*4 + 3", False),
        (r"Evaluate $\int_0^1 x^2 dx$.", r"\frac13", r"0+\int_0^1 x^2 dx", False),
        ("Find the remainder when $16^{22}$ is divided by $9$.", "7", r"(16^{22}) \bmod 9", False),
        ("What is $3^5$ modulo $7$?", "5", r"x \equiv 5 \pmod 7", True),
        ("What is $16$ modulo $9$?", "7", r"16 \bmod 9", False),
        ("Half of $da+db$?", r"\frac{da+db}{2}", r"\frac{d(a+b)}{2}", True),
        (r"Differentiate $x^2$.", "2x", r"\frac{d}{dx}(x^2)", False),
        (r"Differentiate $x^2$.", "2x", r"\frac{dy}{dx} = 2x", True),
        (r"Differentiate $f(x) = x^2$.", "2x", "f'(x) = 2x", True),
        ("How many subsets have 10 elements?", "1024", "2^{10}", True),
        ("Simplify $x+1+0$.", "1+x", "x+1", True),
        (r"Factor $x^2-1$ or leave $x^2-1$.", "x^2-1", "x^2-1", True),
    ],
)
def test_an_expression_copied_from_the_question_is_no_answer(question, gold, answer, expected):
    assert verify_answer(gold, answer, question=question) is expected


@pytest.mark.parametrize(
    ("question", "gold", "answer", "expected"),
    [
        ("How many hens are left?", "4", r"4\text{ hens}", True),
        ("How many hens are left?", "4", r"4\text{ hen}", True),
        ("How many hens are left?", "4", r"4\text{ goats}", False),
        ("How many hens are left?", "4", r"4\text{ km}", True),
        ("In how many ways?", "4", r"4\text{ ways}", True),
        ("In how many ways?", "4", r"\text{Number of ways} = 4", True),
        ("How many such pairs?", "4", r"4\text{ ordered pairs}", True),
        ("How many red hens?", "4", r"4\text{ red hens}", True),
        ("Is 4 even or odd?", "even", "odd = even", False),
        ("Find the area.", "4", r"\text{Area} = 4", True),
        ("Find the area.", "4", r"\text{lower bound} = 4", False),
        ("Find the area.", "4", r"\text{answer} = 4", True),
        ("Find $AB$.", "2", "AB=2", True),
        ("Find $CD$.", "2", "AB=2", False),
        ("Find $x+y$.", "5", "x+y=5", True),
        ("Find $x-y$.", "5", "x+y=5", False),
        ("Find $x$.", "5", "x=5", True),
        ("Find the line.", "x+y=5", "y+x=5", True),
    ],
)
def test_names_and_nouns_of_an_answer_must_be_those_of_the_question(
    question, gold, answer, expected
):
    assert verify_answer(gold, answer, question=question) is expected


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("44", "44", True),
        ("44", "44.0", True),
        ("44", "x = 44", True),
        ("44", "4 * 11 = 44", True),
        ("44", r"\text{44}", True),
        ("44", "4 * 11", False),
        ("44", "(4 * 11)", False),
        ("44", "40 + 4", False),
        ("44", r"\frac{88}{2}", False),
        ("44", "44 + 0", False),
        ("44", "2 * 22 = 4 * 11", False),
        ("-12345", "-12,345", True),
        (r"- \frac{5}{2}", r"\frac{-5}{2}", True),
        (r"- \frac{5}{2}", "-2.5", True),
        (r"- \frac{5}{2}", r"x = -\frac{5}{2}", True),
        (r"- \frac{5}{2}", r"-2\frac{1}{2}", True),
        (r"- \frac{5}{2}", r"2 - \frac{9}{2}", False),
        ("2 x", r"\frac{d}{dx} x^2", False),
        ("2 x", "f'(x) = x + x", True),
        ("7", r"16^{22} \bmod 9", False),
        (r"\left\{-1, 2\right\}", r"\{2, -1\}", True),
    ],
)
def test_a_task_that_knows_the_form_of_its_golds_pays_for_worked_out_answers_only(
    gold, answer, expected
):
    """An equal expression is a mismatch: a learner that is paid for it echoes the question."""
    verdict = judge_final(Problem(id="p", question="", answer=gold), f"\\boxed{{{answer}}}")
    assert (verdict.correct, verdict.reason) == (expected, "match" if expected else "mismatch")


@pytest.mark.parametrize(
    "gold",
    ["", "  ", "$$", "((((", r"\iny", r"\frac{1}{0}", r"\infty-\infty", r"\text{see the figure}",
     "The proof follows from the lemma above and the fact that every such map is a closed one",
     "__import__('os').system('true')", "####<think>", "7 </think>"],
)  # fmt: skip
def test_a_gold_that_cannot_serve_says_why(gold):
    """Guards pitfall 64 (unparsable or wrong gold rewarded)."""
    assert gold_problem(gold)


def test_the_judge_works_off_the_main_thread_and_is_right_there():
    """Guards pitfalls 58 and 62: no SIGALRM in threads, and no score of 0 for it."""
    found = []
    texts = [r"\boxed{\frac{6}{8}}", r"\boxed{\lim_{x\to 0}\frac{3\sin x}{4x}}"]
    thread = threading.Thread(
        target=lambda: found.extend(judged(r"\frac{3}{4}", text).correct for text in texts)
    )
    thread.start()
    thread.join()
    assert found == [True, True]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_algebra_that_does_not_end_is_a_timeout_and_leaves_the_callers_alarm_alone():
    """Guards pitfall 59 (a hang) and the loss of a caller's timer."""
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    timer = signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        verdict = judged("2", r"\boxed{\int e^{-x^2}\cdot\sin(x^{17})\ln(x+\sqrt{x}) dx}")
        assert (verdict.correct, verdict.reason) == (False, "timeout")
        assert rung
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
