"""Any string gives a verdict: random LaTeX, random Unicode, damaged golds. Never an exception."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agon_env.extract import answer_span
from agon_env.types import Problem
from agon_env.verifiers.math import (
    gold_problem,
    judge_math,
    judge_math_marked,
    verify_answer,
)

SPELLED = (
    r"\frac{ \sqrt \sqrt[3]{ \log_ \ln \sin ^ _ { } ( ) [ ] \{ \} | \left( \right) , ; : . ! !! = <"
    r" > \le \ge \ne \in \cup \cap \setminus \approx \equiv \pmod{ \mod \to \mid \pm \mp + - \cdot"
    r" / * ** \infty \emptyset \mathbb{R} \R \pi \theta \ldots \text{ \text{or} \and and or \boxed{"
    r" \begin{pmatrix} \end{pmatrix} \begin{cases} \end{cases} & \\ \% % ^\circ \$ $ cm \text{m}"
    r" yes No A (B) x y n e i f(x) a_{n-1} 0 1 7 12 0.5 .5 1,234 999999 10^{ 3e5 \overline{3}"
    r" \binom{ \sum_{k=1}^ \prod_{k=1}^ \Gamma( \zeta( \lfloor \rfloor \int \lim_{ \hat{i} \angle"
    r" <think> </think> <answer> </answer> ½ ² √ ∞ ≤ − 😀 ​ \ ' #### 9^{9^{9^{"
)
PIECES = [*SPELLED.split(" "), " ", "\n", "\x00", "\u202e"]
GOLDS = [
    "7", "0", r"\frac{1}{2}", "x^2+1", "(0,1)", r"\{1,2\}", "Yes", "A", "A, C", r"[0,\infty)",
    r"3 \pmod 7", r"\pi", "1,2,3", r"\begin{pmatrix}1\\2\end{pmatrix}", "x=5", "y=2x+1", "x>3",
    r"15\text{ cm}", r"35\%", "2:3", "1011_2", "convergent", r"\pm 3", "f(x)=x", r"\emptyset",
    r"60^\circ", r"\infty", r"8:15\text{ PM}", "x^2+y^2=9", "0.5", r"\sqrt{2}", "2ab", "DNE",
]  # fmt: skip
latex = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
damaged = st.tuples(st.sampled_from(GOLDS), st.integers(0, 9), latex).map(
    lambda t: t[0][: t[1]] + t[2][:9] + t[0][t[1] :]
)
answers = st.one_of(latex, damaged, st.text(max_size=40))
golds = st.one_of(st.sampled_from(GOLDS), latex, st.text(max_size=20))
replies = st.one_of(
    answers.map(lambda a: f"\\boxed{{{a}}}"), answers.map(lambda a: f"<answer>{a}</answer>"), latex
)
QUICK = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
THOROUGH = settings(QUICK, max_examples=int(os.environ.get("AGON_FUZZ_EXAMPLES", "1000")))
"""`make fuzz` asks for 55,000 of each."""
VERDICTS = {"match", "mismatch", "no_answer", "truncated", "timeout", "unscorable"}


def check_reply(gold, reply):
    verdict = judge_math(Problem(id="p", question=reply[::-1], answer=gold), reply)
    assert verdict.reason in VERDICTS
    assert verdict.correct is {"match": True, "unscorable": None}.get(verdict.reason, False)
    assert verdict.seconds < 20


def check_gold(gold):
    """A gold that brings its own markers is a reply of its own; a bare one is a final answer."""
    if gold_problem(gold) is not None:
        return
    if answer_span(gold) is None:
        assert verify_answer(gold, gold)
    else:
        assert judge_math_marked(Problem(id="p", question="q", answer=gold), gold).correct


@pytest.mark.slow
@QUICK
@given(golds, replies)
def test_any_reply_gets_a_verdict(gold, reply):
    check_reply(gold, reply)


@QUICK
@given(golds)
def test_a_gold_that_is_accepted_verifies_against_itself(gold):
    """Guards pitfall 64: load rejects a gold that its own text would not satisfy."""
    check_gold(gold)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@THOROUGH
@given(golds, replies)
def test_any_of_many_replies_gets_a_verdict(gold, reply):
    check_reply(gold, reply)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@THOROUGH
@given(golds)
def test_any_of_many_accepted_golds_verifies_against_itself(gold):
    check_gold(gold)
