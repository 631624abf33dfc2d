"""Prompts, and what of a reply reaches the rival: the reasoning, not the answer or thinking."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_env.prompts import (
    CODE_TEMPLATE,
    MATH_TEMPLATE,
    ChatTemplate,
    Template,
    template_for,
)
from agon_env.types import Problem
from agon_env.withhold import WITHHELD

MATH = Problem("m", "What is 6 * 7?", "42")
CODE = Problem("c", "Print 42.", "", verifier="code", tests=[{"input": "", "output": "42"}])

secrets = st.text("abcXYZ019", min_size=4, max_size=8).map(lambda text: f"Q{text}Q")
"""Answers that occur nowhere else in a reply."""


@st.composite
def boxes(draw) -> str:
    """A box around a secret, with braces nested up to three deep."""
    content = draw(secrets)
    for _ in range(draw(st.integers(0, 3))):
        content = (
            draw(st.sampled_from([r"\frac{%s}{2}", r"\{%s\}", "{%s}", r"\text{%s }"])) % content
        )
    return draw(st.sampled_from([r"\boxed{%s}", r"\fbox{%s}", r"\boxed {%s}"])) % content


statements = st.one_of(
    secrets.map("<answer>{}</answer>".format),
    boxes(),
    boxes().map("<answer>{}</answer>".format),
    secrets.map("<answer>\n{}\n</answer>".format),
)
prose = st.sampled_from(
    ["First REASON.", "Then REASON: $x^2 = {y}$", "So REASON\n", "REASON, and "]
)
thoughts = st.lists(st.sampled_from(["HIDDEN", r"\boxed{HIDDEN}", "<answer>HIDDEN</answer>"]))


@given(
    blocks=st.lists(thoughts, min_size=1, max_size=3),
    visible=st.lists(st.tuples(prose, statements), min_size=1, max_size=4),
)
def test_the_summary_keeps_the_reasoning_and_withholds_every_answer_and_all_thinking(
    blocks, visible
):
    """Pitfall 55: with several thinking blocks only what follows the last one is shown."""
    hidden = "REASON?".join(f"<think>{' '.join(block)}</think>" for block in blocks)
    said = "\n".join(f"{reason} {statement}" for reason, statement in visible)
    reply = MATH_TEMPLATE.read(MATH, hidden + said)
    assert "HIDDEN" not in reply.summary
    assert "Q" not in reply.summary
    assert reply.summary.count("REASON") == len(visible)
    assert WITHHELD in reply.summary


@given(secret=secrets, statement=st.data())
def test_a_line_that_only_repeats_the_answer_is_withheld_and_a_sentence_with_it_is_not(
    secret, statement
):
    line = statement.draw(st.sampled_from(REPEATS)).format(secret)
    text = f"We compute.\n{line}\nThe sum of {secret} and nothing else.\n<answer>{secret}</answer>"
    first, repeat, *rest = MATH_TEMPLATE.read(MATH, text).summary.splitlines()
    assert first == "We compute."
    assert WITHHELD in repeat
    assert secret not in repeat
    assert rest == [f"The sum of {secret} and nothing else.", f"<answer>{WITHHELD}</answer>"]


REPEATS = [
    "{}",
    "  {}  ",
    "${}$",
    "**{}**",
    "**${}$.**",
    "= {}",
    "x = {}",
    r"\({}\)",
    "Answer: {}",
    "- Final answer: {}",
    "The answer is {}.",
    "So the final answer is **{}**",
    "> {}",
]


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("   \n", ""),
        ("just words", "just words"),
        ("<think>plan</think>", ""),
        ("<think>never closed 42", ""),
        ("shown</think>again <think>open", ""),
        ("prefilled thought</think>seven.", "seven."),
        ("<think>a</think>b<think>c</think>d", "d"),
        (r"so \boxed{42}.", "so [withheld]."),
        (r"so $\boxed{\frac{1}{\sqrt{2}}}$", "so $[withheld]$"),
        (r"\boxed{41} no, \boxed{42}", "[withheld] no, [withheld]"),
        ("<answer>42</answer>", "<answer>[withheld]</answer>"),
        (r"<answer>\boxed{42}</answer>" + "\n42", "<answer>[withheld]</answer>\n[withheld]"),
        ("steps <answer>42", "steps [withheld]"),
        (r"steps \boxed{42", "steps [withheld]"),
        (r"a \boxed{b \boxed{42}", "a [withheld]"),
        (r"so \boxed 42 and $\boxed7$", "so [withheld] and $[withheld]$"),
        ("steps\nFinal answer: 42", "steps\nFinal answer: [withheld]"),
        (
            "lone \ud800 and \0 <answer>\ud801</answer>",
            "lone \ud800 and \0 <answer>[withheld]</answer>",
        ),
    ],
)
def test_summaries_of_mathematics(text, summary):
    assert MATH_TEMPLATE.read(MATH, text).summary == summary


LEAKS = [
    "<answer>98<answer>98</answer>",
    "<ANSWER>98</ANSWER>",
    "<answer >98</answer >",
    "It is so:\n98</answer>",
    "98\n</answer>",
    "the final answer is 98.\n<answer>98</answer>",
    "Thus the answer should be 98!\n<answer>98</answer>",
    "**Answer:** 98\n<answer>98</answer>",
    "## Final Answer\n\n98 of them\n<answer>98</answer>",
    "the answer is:\n$$98$$\n<answer>98</answer>",
    "<answer>x=98</answer>\n98",
    "\\boxed{x = 98}\n98",
    "<answer>98.0</answer>\n98",
    "<answer>98</answer>\n98.00",
    "<answer>98</answer>\n1. 98",
    "<answer>98</answer>\na) 98",
    "<answer>98</answer>\n+ 98",
    "<answer>98</answer>\n(98)",
    '<answer>98</answer>\n"98"',
    "<answer>98</answer>\n98,",
    "<answer>98</answer>\n\\text{98}",
    "<answer>98</answer>\n9\u200b8",
    "<answer>98</answer>\n\uff19\uff18",
    "<answer>98</answer>\n| total | **98** |",
    "<answer>98</answer>\n<b>98</b>",
    "98 <answer>98</answer>",
    "<answer>98</answer> 98",
    "<answer>98</answer>\nSo we get 98.",
    "<answer>98</answer>\nHence 98 is the final answer.",
    "<answer>98/1</answer>\n\\dfrac{98}{1}",
    "\\boxed-98",
    "\\boxed(98)",
    "\\boxed$98$",
    "\\boxed\\frac{98}{1}",
    "\\framebox{98}",
    "\\framebox[2cm]{98}",
    "#### 98\n<answer>98</answer>",
]


@pytest.mark.parametrize("leak", LEAKS)
def test_the_answer_is_withheld_in_whatever_form_it_stands(leak):
    summary = MATH_TEMPLATE.read(MATH, f"Take 49 twice.\n{leak}\nThis was easy.").summary
    summary = unicodedata.normalize("NFKC", summary).replace("\u200b", "")
    assert "98" not in summary
    assert "Take 49 twice." in summary


def test_thousands_separators_make_no_other_answer():
    for said, line in (("1,234", "1234"), ("1234", "1,234"), ("1{,}234", "1234")):
        text = f"<answer>{said}</answer>\n{line}"
        assert MATH_TEMPLATE.read(MATH, text).summary == "<answer>[withheld]</answer>\n[withheld]"


@pytest.mark.parametrize(
    "line",
    ["So 90 + 8 = 98 holds.", "There are 98 of them.", "981", "19.8", "| 98 + 1 | 2 |", "y = 97"],
)
def test_a_step_of_the_reasoning_stays(line):
    assert line in MATH_TEMPLATE.read(MATH, f"{line}\n<answer>98</answer>").summary


PROGRAM = "```python\nprint(42)\n```"


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (f"Print it.\n{PROGRAM}\nDone.", "Print it.\n[withheld]\nDone."),
        ("First ```python\nnot a fence```", "[withheld]"),
        (f"{PROGRAM}\nAgain:\n{PROGRAM}", "[withheld]\nAgain:\n[withheld]"),
        (f"```text\nprint(42)  \n```\nthat is\n{PROGRAM}", "[withheld]\nthat is\n[withheld]"),
        (f"```py\nx = 1\nprint(42)\n```\nor\n{PROGRAM}", "[withheld]\nor\n[withheld]"),
        (f"We say\nprint(42)\nin\n{PROGRAM}", "We say\n[withheld]\nin\n[withheld]"),
        (f"{PROGRAM}\nor\n```python\nprint(6 * 7)\n```", f"{PROGRAM}\nor\n[withheld]"),
        (f"{PROGRAM}\nor\n```python\nprint(6 * 7)", "[withheld]\nor\n[withheld]"),
        ("```\nprint(42)\n```", "[withheld]"),
        (f"  {PROGRAM}", "[withheld]"),
        ("print(42)", "[withheld]"),
        (f"<think>{PROGRAM}</think>Print.\n{PROGRAM}", "Print.\n[withheld]"),
        (f"<think>{PROGRAM}", ""),
        ("", ""),
    ],
)
def test_summaries_of_programs_withhold_what_the_verifier_would_run(text, summary):
    assert CODE_TEMPLATE.read(CODE, text).summary == summary


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("<think>a</think>b<answer>c</answer>", True),
        ("\n<think>\n</think>\n<answer>c</answer>\n", True),
        ("opened by the prompt</think><answer>c</answer>", True),
        ("<think>mentions <answer>x</answer></think><answer>c</answer>", True),
        ("<answer>c</answer>", False),
        ("<think>a</think>c", False),
        ("<think>a<answer>c</answer>", False),
        ("<think>a</think><answer>c", False),
        ("<think>a</think>c</answer>", False),
        ("<think>a</think><answer>  </answer>", False),
        ("<think>a</think><answer>c</answer><answer>d</answer>", False),
        ("<think>a</think></answer><answer>", False),
        ("<think>a</think><think>b</think><answer>c</answer>", False),
        ("<think>a<think>b</think><answer>c</answer>", False),
        ("</think>a<think><answer>c</answer>", False),
        (r"<think>a</think>\boxed{c}", False),
        ("", False),
    ],
)
def test_a_mathematical_reply_is_well_formed_with_one_thought_and_one_answer(text, form):
    assert MATH_TEMPLATE.read(MATH, text).well_formed is form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (f"<think>a</think>\n{PROGRAM}", True),
        (f"<think>a</think>\n{PROGRAM}\n{PROGRAM}", True),
        (f"{PROGRAM}", False),
        ("<think>a</think>\nprint(42)", False),
        ("<think>a</think>\n```python\n\n```", False),
        (f"<think>a</think><think>b</think>\n{PROGRAM}", False),
    ],
)
def test_a_program_is_well_formed_with_one_thought_and_a_fenced_block(text, form):
    assert CODE_TEMPLATE.read(CODE, text).well_formed is form


def test_reading_a_reply_gives_its_answer_and_its_thinking():
    reply = MATH_TEMPLATE.read(MATH, "<think>six sevens</think>So.\n<answer>42</answer>")
    assert (reply.thinking, reply.answer) == ("six sevens", "42")
    assert CODE_TEMPLATE.read(CODE, PROGRAM).answer.strip() == "print(42)"
    assert MATH_TEMPLATE.read(MATH, "none").answer is None


@given(
    st.text(st.characters(codec=None, exclude_categories=()))
    | st.text("<>/think answer\\boxed{}`\n")
)
def test_any_string_can_be_read(text):
    for template, problem in ((MATH_TEMPLATE, MATH), (CODE_TEMPLATE, CODE)):
        assert isinstance(template.read(problem, text).summary, str)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *(
            r"\boxed{",
            r"\boxed{1}",
            r"\boxed(",
            r"\framebox[",
            "<answer>",
            "7</answer>",
            "</think>",
        ),
        *(
            "```py\nx\n```\n",
            "```python\n",
            "{",
            "the answer is ",
            "answer: ",
            "\n",
            "x = ",
            "1. ",
            "so ",
            "| 7 ",
            "< ",
        ),
    ],
)
@pytest.mark.timeout(20)
def test_long_degenerate_replies_are_read_in_linear_time(unit):
    text = unit * (50_000 // len(unit))
    MATH_TEMPLATE.read(MATH, text)
    CODE_TEMPLATE.read(CODE, text)


def test_a_drafter_gets_the_problem_and_a_solver_the_draft_beside_it():
    observation = {"role": "drafter", "problem": "What is {draft}?", "draft": ""}
    (plain,) = MATH_TEMPLATE.messages(observation)
    (reading,) = MATH_TEMPLATE.messages(
        {**observation, "role": "solver", "draft": "Use {problem}."}
    )
    assert plain["role"] == reading["role"] == "user"
    assert "What is {draft}?" in plain["content"]
    assert "raft:" not in plain["content"]
    assert "What is {draft}?" in reading["content"]
    assert "Use {problem}." in reading["content"]


@pytest.mark.parametrize("template", [MATH_TEMPLATE, CODE_TEMPLATE])
def test_a_solver_without_a_readable_draft_is_told_so(template):
    (message,) = template.messages({"role": "solver", "problem": "p", "draft": " \n"})
    assert "(nothing of it can be shown)" in message["content"]


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match="role must be 'drafter' or 'solver', got 'judge'"):
        MATH_TEMPLATE.messages({"role": "judge", "problem": "p", "draft": ""})


def test_templates_are_chosen_by_verifier_picklable_and_replaceable():
    assert template_for(MATH) is MATH_TEMPLATE
    assert template_for(CODE) is CODE_TEMPLATE
    assert pickle.loads(pickle.dumps(CODE_TEMPLATE)) == CODE_TEMPLATE
    mine = ChatTemplate(
        "mine", "Q {problem}", "Q {problem} D {draft}", "-", MATH_TEMPLATE.read_reply
    )
    assert isinstance(mine, Template)
    observation = {"role": "solver", "problem": "1", "draft": "2"}
    assert mine.messages(observation) == [{"role": "user", "content": "Q 1 D 2"}]
