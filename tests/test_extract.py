"""Reading a reply: think tags, answer tags, boxes, marked answers, programs."""

import time

import pytest

from agon_env.extract import (
    answer_is_cut,
    answer_span,
    code_block,
    thinking,
    visible_text,
)

VISIBLE = [
    ("no tags", "no tags"),
    ("<think>a</think>b", "b"),
    ("opened by the prompt</think>b", "b"),
    ("<think>the tag </think> is odd</think> end", " end"),
    ("<think>a</think> x <think>b</think> y", " y"),
    ("<think>never closed \\boxed{5}", None),
    ("<think>a</think> x <think>again", None),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), VISIBLE)
def test_only_what_follows_the_last_closing_think_tag_is_visible(text, expected):
    """Guards pitfall 55 (the first rather than the last `</think>` taken)."""
    assert visible_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", None),
        ("<think> a </think>b", "a"),
        ("a</think>b", "a"),
        ("<think>cut", "cut"),
        ("<think>a</think>b<think>c", "ac"),
    ],
)
def test_thinking_is_what_stands_inside_the_think_blocks(text, expected):
    assert thinking(text) == expected


ANSWERS = [
    (r"<answer>5</answer>", "5", "answer"),
    (r"\boxed{4} <answer>5</answer>", "5", "answer"),
    (r"<answer>5</answer> \boxed{4}", "5", "answer"),
    (r"<answer>4</answer> so <answer>5</answer>", "5", "answer"),
    (r"put it in <answer> tags: <answer>5</answer>", "5", "answer"),
    (r"<answer>\boxed{5}", "5", "box"),
    (r"<answer>4</answer> no: <answer>\boxed{5}", "5", "box"),
    (r"\boxed{17} then \boxed{15}", "15", "box"),
    (r"\fbox{3}", "3", "box"),
    (r"\boxed {3}", "3", "box"),
    (r"\boxed{\frac{1}{2}} and a later }", r"\frac{1}{2}", "box"),
    (r"\boxed{\{1,2\}}", r"\{1,2\}", "box"),
    (r"\boxed{\boxed{8}}", r"\boxed{8}", "box"),
    (r"\boxed{2, wait: \boxed{5}", "5", "box"),
    (r"an open { brace, then \boxed{5}", "5", "box"),
    (r"write \boxed in the end: \boxed{5}", "5", "box"),
    (r"\boxed{21} \boxed{21}", "21", "box"),
    (r"\boxed{7}, $\boxed{3}$ and \boxed{5}", "7, 3, 5", "list"),
    (r"\boxed{4} or \boxed{9}", "4, 9", "list"),
    (r"<answer>4</answer> or <answer>9</answer>", "4, 9", "list"),
    ("Final Answer: **64**\n", "64", "marked"),
    ("The answer is 42.", "42", "marked"),
    ("work\n#### 12", "12", "marked"),
]


@pytest.mark.parametrize(("text", "expected", "kind"), ANSWERS)
def test_the_final_answer_is_the_last_complete_one(text, expected, kind):
    span = answer_span(text)
    assert span is not None
    assert (span.text, span.kind) == (expected, kind)
    if kind != "list":
        assert text[span.start : span.end] == expected


@pytest.mark.parametrize(
    "text",
    [
        r"a candidate is \boxed{24}, yet the total is \boxed{2",
        r"\boxed{\frac{1}{2}",
        "<answer>4</answer> no, <answer>5",
        r"\boxed{4} <answer>5",
        "\\boxed{" * 50,
    ],
)
def test_an_answer_that_was_cut_off_never_falls_back_to_an_earlier_one(text):
    assert answer_is_cut(text)
    assert answer_span(text) is None


@pytest.mark.parametrize("text", ["", "nothing here", "It might be 41 or 43.", "answers vary"])
def test_prose_has_no_answer(text):
    assert answer_span(text) is None
    assert not answer_is_cut(text)


PROGRAMS = [
    ("```python\na\n```", "a\n"),
    ("```python\na\n```\nor\n```py\nb\n```", "b\n"),
    ("```python\na\n```\nprints\n```\n7\n```", "a\n"),
    ("```\na\n```", "a\n"),
    ("```Python3\na\n```", "a\n"),
    ("```{.python .numberLines}\na\n```", "a\n"),
    ("1. so:\n   ```python\n   a\n     b\n   ```", "a\n  b\n"),
    ("```python\r\na\r\nb\r\n```\r\n", "a\nb\n"),
    ("~~~python\na\n~~~", "a\n"),
    ("```python\ncut", "```python\ncut"),
    ("```cpp\nint x;\n```", "```cpp\nint x;\n```"),
    ("print(1)", "print(1)"),
]


@pytest.mark.parametrize(("text", "expected"), PROGRAMS)
def test_the_program_is_the_last_complete_python_block_else_untagged_else_the_text(text, expected):
    span = code_block(text)
    assert span is not None
    assert span.text == expected


def test_blank_text_holds_no_program():
    assert code_block(" \n") is None


def reading_seconds(text: str) -> float:
    """CPU time of reading the text, the best of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        answer_span(text)
        code_block(text)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    ["\\boxed{", "\\boxed{1} ", "<answer>", "</answer>", "`", "\n", "```x\n", "{", "answer "],
)
def test_reading_is_linear_so_that_a_long_reply_costs_little(piece):
    """Four times the length may cost ten times the time; a quadratic reader takes sixteen."""
    short, long = (piece * (size // len(piece)) for size in (50_000, 200_000))
    assert reading_seconds(long) < 10 * reading_seconds(short) + 0.05
