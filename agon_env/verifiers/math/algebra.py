r"""math-verify, for what the strict reader does not know: integrals, limits, derivatives.

The only importer of math-verify. Settings: LaTeX only (its plain-text fall-back takes the last
number of anything it cannot parse), the first match, no unit stripping (it eats variable letters),
100 digits. The gold comes first: `verify` is not symmetric. Results are never printed: the text of
a tower of powers does not end.

math-verify's own timeouts are switched off: they start anew for every parse and comparison, fail
off the main thread, and cancel an alarm that the caller has set. One budget of CPU time covers the
whole question instead (ITIMER_VIRTUAL: a busy machine does not turn right answers into timeouts,
and the caller's SIGALRM is left alone). In other threads there are no signals; there, and in code
that ignores them, the hard kill of the pool is the limit.
"""

from __future__ import annotations

import functools
import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

BUDGET_S = 2.0
"""CPU time for one pair of expressions, parsing included; seconds."""
MAX_LENGTH = 400
MAX_NESTING = 10
"""math-verify's parser takes about 0.1 s per level of brackets."""


class AlgebraTimeoutError(Exception):
    """math-verify did not finish within its budget."""


class _Alarm(BaseException):
    """Not an Exception: sympy and math-verify catch those."""


def same_algebra(gold: str, answer: str) -> bool:
    """Whether math-verify takes two LaTeX expressions to be equal.

    Raises:
        AlgebraTimeoutError: It did not finish.
    """
    if max(len(gold), len(answer)) > MAX_LENGTH or _too_deep(gold) or _too_deep(answer):
        return False
    warm_up()
    try:
        with _budget(BUDGET_S):
            return _same(gold, answer)
    except _Alarm:
        raise AlgebraTimeoutError(f"no decision within {BUDGET_S} s") from None


def _same(gold: str, answer: str) -> bool:
    from math_verify import verify

    gold_parsed, answer_parsed = _parse_gold(gold), _parse(answer)
    return bool(gold_parsed and answer_parsed) and verify(
        gold_parsed,
        answer_parsed,
        numeric_precision=100,
        allow_set_relation_comp=True,
        timeout_seconds=None,
    )


@functools.lru_cache(maxsize=1)
def warm_up() -> None:
    """Import and build the parser's tables, about a second, once per process and off the budget."""
    _same("1", "\\frac{1}{1}")


@functools.lru_cache(maxsize=4096)
def _parse_gold(gold: str) -> list[Any]:
    return _parse(gold)


def _parse(text: str) -> list[Any]:
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that timeouts are off
    spelling = NormalizationConfig(
        basic_latex=True,
        units=False,
        malformed_operators=False,
        nits=False,
        boxed="all",
        equations=False,
    )
    config = LatexExtractionConfig(boxed_match_priority=0, normalization_config=spelling)
    return parse(
        f"\\boxed{{{text}}}",
        [config],
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,  # type: ignore[arg-type]
    )


@contextmanager
def _budget(seconds: float) -> Iterator[None]:
    """Raise `_Alarm` in the body after `seconds`, and again each half second if it is swallowed."""
    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise _Alarm

    handler = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def _too_deep(text: str) -> bool:
    """True for deep brackets and for towers of three powers."""
    depth = deepest = 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        deepest = max(deepest, depth)
    return deepest > MAX_NESTING or bool(re.search(r"\^\s*\{[^{}]*\^\s*\{[^{}]*\^", text))
