r"""(problem, reply) -> Verdict for problems with a mathematical gold answer.

Extraction first (`agon_env.extract`), then one spelling (`normalize`), then the options of a
multiple-choice question, then values by kind (`values`, `compare`). Any reply gives a verdict; a
gold that cannot serve gives `unscorable`, which is never the model's fault. Nothing from a reply is
ever evaluated as code.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping

from agon_env.extract import (
    THINK_CLOSE,
    THINK_OPEN,
    Span,
    answer_is_cut,
    answer_span,
    visible_text,
)
from agon_env.types import Problem, Reason, Verdict
from agon_env.verifiers.math.algebra import AlgebraTimeoutError
from agon_env.verifiers.math.asked import is_asked
from agon_env.verifiers.math.choices import (
    choices,
    option_gold,
    option_letter,
    option_set,
    split_option,
)
from agon_env.verifiers.math.compare import same
from agon_env.verifiers.math.kinds import Opaque, Value, Words
from agon_env.verifiers.math.normalize import canonical, squeeze
from agon_env.verifiers.math.parrot import is_parrot
from agon_env.verifiers.math.values import read_value
from agon_env.verifiers.math.words import tokens_of

MAX_ANSWER = 20_000
"""Characters of an answer that are looked at; longer ones are wrong."""
MAX_STRUCTURE = 2000
"""Longest answer that is read as a value; longer ones must be spelled like the gold."""
MAX_GOLD_WORDS = 12


def judge_math(problem: Problem, text: str) -> Verdict:
    """Whether the final answer of a reply is the gold of the problem.

    The answer must stand in `<answer>` or in a box. Reasons: match, mismatch, no_answer (none, or
    an empty one), truncated (a think block, tag or box that never closes), timeout (the algebra did
    not finish), unscorable (`correct` is None: the gold itself is unusable).
    """
    return _judge(problem, text, marked=False)


def judge_math_marked(problem: Problem, text: str) -> Verdict:
    """As `judge_math`, but a clearly marked answer without tag or box counts too.

    For data and models that never box: "Final answer: 42", "#### 42".
    """
    return _judge(problem, text, marked=True)


def _judge(problem: Problem, text: str, *, marked: bool) -> Verdict:
    started = time.perf_counter()
    fault = gold_problem(problem.answer)
    answer, missing = _final_answer(text, marked=marked)
    if fault is not None:
        correct, reason = None, "unscorable"
    elif answer is None:
        correct, reason = False, missing
    else:
        correct, reason = _verdict(problem, answer)
    return Verdict(correct, reason, answer, time.perf_counter() - started)


def _verdict(problem: Problem, answer: str) -> tuple[bool, Reason]:
    try:
        right = verify_answer(problem.answer, answer, question=problem.question)
    except AlgebraTimeoutError:
        return False, "timeout"
    return right, "match" if right else "mismatch"


def _final_answer(text: str, *, marked: bool) -> tuple[str | None, Reason]:
    """(answer, reason why there is none)."""
    visible = visible_text(text)
    if visible is None or answer_is_cut(visible):
        return None, "truncated"
    span = answer_span(visible)
    if span is None or (span.kind == "marked" and not marked):
        return None, "no_answer"
    if span.kind == "answer" and answer_is_cut(span.text):
        return None, "truncated"
    answer = _boxed_inside(span).strip()
    return (answer, "match") if answer else (None, "no_answer")


def _boxed_inside(span: Span) -> str:
    """The box inside an answer tag, where there is one."""
    inner = answer_span(span.text) if span.kind in ("answer", "list") else None
    text = inner.text if inner is not None and inner.kind in ("box", "list") else span.text
    nested = _NESTED.match(text)
    depth = nested.group().count("{") if nested else 0
    if depth and text.rstrip().endswith("}" * depth):
        text = text[nested.end() : len(text.rstrip()) - depth]  # type: ignore[union-attr]
    return text


_NESTED = re.compile(r"\s*(?:\\(?:boxed|fbox)\s*\{\s*)+")


def verify_answer(gold: str, answer: str, *, question: str = "") -> bool:
    """Whether an extracted answer is the gold.

    Args:
        gold: The gold answer as the data set has it: bare, in dollars, boxed or at the end of a
            solution.
        answer: The text of the final answer, without its box.
        question: Where it lists lettered choices, a letter stands for its content and the other
            way round. An expression copied from it is no answer.

    Raises:
        AlgebraTimeoutError: The algebra did not finish within its limit.
    """
    answer = answer.strip()
    if len(answer) > MAX_ANSWER:
        return False
    wanted, given = _gold_text(gold), canonical(answer)
    if not squeeze(wanted) or not squeeze(given):
        return False
    if squeeze(wanted) == squeeze(given):
        return True
    if len(given) > MAX_STRUCTURE or len(wanted) > MAX_STRUCTURE:
        return False
    chosen = _same_choice(wanted, given, question)
    if chosen is not None:
        return chosen
    if is_parrot(given, wanted, question):
        return False
    value = read_value(given)
    return is_asked(value, wanted, given, question) and same(_gold_value(wanted), value)


@functools.lru_cache(maxsize=8192)
def gold_problem(gold: str) -> str | None:
    """Why a gold answer cannot be used; None when it verifies against itself."""
    if not gold.strip():
        return "the gold is empty"
    if THINK_OPEN in gold or THINK_CLOSE in gold:
        return "the gold holds a think tag"
    text = _gold_text(gold)
    if not squeeze(text):
        return "nothing is left of the gold once markup is removed"
    if len(text) > MAX_STRUCTURE:
        return None if re.fullmatch(r"[-+]?\d+", text) else "the gold is longer than an answer"
    if option_gold(text) or option_set(text):
        return None
    value = _gold_value(text)
    if isinstance(value, Words):
        return _prose(value.text)
    if isinstance(value, Opaque):
        return None if _spelled_only(value.text) else "the gold cannot be read as an answer"
    if not _verifies(value):
        return "the gold does not verify against itself"
    return None


def _verifies(value: Value) -> bool:
    try:
        return same(value, value)
    except AlgebraTimeoutError:
        return False


def _prose(words: str) -> str | None:
    tokens = tokens_of(words)
    if len(tokens) > MAX_GOLD_WORDS:
        return f"the gold is prose of {len(tokens)} words"
    if set(tokens) & {"figure", "diagram", "graph", "above", "below", "proof", "vary", "varies"}:
        return "the gold refers to something else"
    return None


_KNOWN_COMMANDS = re.compile(
    r"\\(?:ldots|cdot|frac|sqrt|text|le|ge|ne|in|to|mid|pm|mp|pi|infty|equiv|mod|pmod|begin|end|cr|and|or|"
    r"cup|cap|setminus|emptyset|sum|prod|int|approx|sim|R|Z|N|Q|C|alpha|beta|gamma|theta|lambda|"
    r"triangle|angle|langle|rangle|forall|exists|subset|subseteq|overline|log|ln|sin|cos|tan|circ|"
    r"\{|\})(?![A-Za-z])"
)


def _spelled_only(text: str) -> bool:
    """True for a gold that can be compared by spelling: balanced, known commands, some content."""
    rest = _KNOWN_COMMANDS.sub("", text)
    balanced = all(text.count(a) == text.count(b) for a, b in ("{}", "()", "[]"))
    loose = balanced or bool(re.search(r"[\[(][^\[\]()]*[\])]", text))
    return loose and "\\" not in rest and bool(re.search(r"[A-Za-z0-9]", rest)) and "__" not in rest


@functools.lru_cache(maxsize=8192)
def _gold_text(gold: str) -> str:
    """The canonical answer inside a gold, which may be a whole solution."""
    gold = gold.strip()  # as an answer is
    span = answer_span(gold)
    if span is not None and (span.kind != "marked" or span.start > 0):
        gold = _boxed_inside(span)
    return canonical(gold[:MAX_ANSWER])


@functools.lru_cache(maxsize=8192)
def _gold_value(text: str) -> Value:
    return read_value(text)


# --- multiple choice ---


def _same_choice(gold: str, answer: str, question: str) -> bool | None:
    """The verdict where the gold is an option; None where options play no part."""
    listed = choices(question)
    several = option_set(gold)
    if several is not None:
        run = re.fullmatch(r"(?:\\text\{)?\s*([A-J]{2,10})\s*\}?", answer)
        return (frozenset(run.group(1)) if run else option_set(answer)) == several
    letter = option_gold(gold)
    if letter is not None:
        given = _chosen(answer, listed)
        if given is not None:
            return given == letter
        if letter in listed:
            return _same_content(listed[letter], answer)
        return False if not listed and len(gold) <= 3 else None
    if listed:
        given = _chosen(answer, listed)
        if given in listed and len(answer) <= 3:
            return _same_content(listed[given], gold)
    return None


def _chosen(answer: str, listed: Mapping[str, str]) -> str | None:
    """The letter an answer chooses; what follows it must be the content that the question lists."""
    split = split_option(answer)
    if split is None or split[0] not in listed or not split[1]:
        return option_letter(answer)
    letter, rest = split
    return letter if _same_content(listed[letter], canonical(rest)) else None


def _same_content(content: str, text: str) -> bool:
    return same(read_value(canonical(content)), read_value(text))
