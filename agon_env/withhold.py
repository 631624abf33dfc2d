r"""The visible text of a draft -> the same text without its final answer or program.

A rival is to meet the reasoning and not the result. Withholding is looser than judging: what only
resembles an answer (`\boxed 7`, `<ANSWER >7`, `7</answer>`, "the answer is 7") is withheld too, and
so is a line, a table cell or a piece between tags that says nothing but an answer in any common
spelling (`x = 7`, `**7.0**`, `(7)`, `1. 7`).

Linear in the length of the text; any string gives a result. Left out: a result that stands inside
a sentence of the reasoning, which stays: "3 + 4 = 7" is a step.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from agon_env.extract import Span, brace_pairs, code_block, fenced_blocks

WITHHELD = "[withheld]"
"""Stands where a final answer was cut out of a draft."""

Cut = tuple[int, int]
"""A stretch of the text: index of the first character, index after the last."""


def withhold_answers(visible: str, final: Span | None) -> str:
    """Replace every final answer in a visible text by the marker.

    Withheld are: what stands in answer tags, in boxes and behind "answer:" or "the answer is",
    whatever follows a tag or box that is opened and never closed, and each line or table cell that
    only repeats an answer.

    Args:
        visible: The visible text of a reply.
        final: Its final answer, as `extract.answer_span` reads it.
    """
    tags, boxes = list(_answer_elements(visible)), list(_boxes(visible))
    said = [visible[start:end] for start, end in tags + boxes]
    said += [piece for text in said for piece in _PIECE.split(text)[::2]]
    said += [final.text] if final else []
    answers = {spelling(text) for text in said} - {""}
    whole_boxes = [
        (visible.rfind("\\", 0, start), _past_brace(visible, end)) for start, end in boxes
    ]
    shown = _cut(visible, [*tags, *whole_boxes, *_marked(visible)])
    return "".join(_withhold_line(line, answers) for line in shown.splitlines(True)).strip()


def withhold_program(visible: str) -> str:
    """Replace what the verifier would run, and copies of it, by the marker.

    A fenced block that never ends is withheld too: its program may be the same, cut off.
    """
    span = code_block(visible)
    shown = visible
    if span is not None:
        program = _code_spelling(span.text)
        cuts = [
            _with_fences(visible, block)
            for block in [span, *fenced_blocks(visible)]
            if program and program in _code_spelling(block.text)
        ]
        copies = re.finditer(
            rf"^[ \t]*{re.escape(span.text.strip())}[ \t]*$", visible, re.MULTILINE
        )
        shown = _cut(visible, [*cuts, *(copy.span() for copy in copies if program)])
    opening: int | None = None
    for fence in _FENCE.finditer(shown):
        opening = fence.start() if opening is None else None
    return (shown if opening is None else shown[:opening] + WITHHELD).strip()


# --- where answers stand ---

_TAG = re.compile(r"<[ \t]{0,9}(/?)[ \t]{0,9}answer\b[^<>\n]{0,40}>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|f(?:rame)?box)\s*")
_MARK = re.compile(
    r"\banswers?[*_}\"'`]{0,4}(?:[ \t]{0,9}[:=]"
    r"|[ \t]{1,9}(?:is|are|equals|(?:would|must|should|will|can\s+only)\s{1,9}be)\b)"
    r"|^[#*_>\d.) \t]{0,20}(?:the\s{1,9})?(?:final\s{1,9})?answer[*_: \t]{0,20}$"
    r"|^[ \t]{0,20}####(?!#)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_WORD = re.compile(r"[^\w<]*")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|\n|\Z")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)


def _answer_elements(text: str) -> Iterator[Cut]:
    """Contents of answer tags, from the first opening one to its close or the end of the text.

    A closing tag alone gives the line before it.
    """
    opened: re.Match[str] | None = None
    done = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = opened or tag
            continue
        if opened:
            yield opened.end(), tag.start()
        elif said := text[done : tag.start()].rstrip():
            yield done + said.rfind("\n") + 1, done + len(said)
        opened, done = None, tag.end()
    if opened:
        yield opened.start(), len(text)


def _boxes(text: str) -> Iterator[Cut]:
    """Contents of boxes, with or without braces; one that is never closed runs to the end."""
    pairs = brace_pairs(text) if _BOX.search(text) else {}
    done = 0
    while box := _BOX.search(text, done):
        start = box.end()
        if text.startswith("{", start):
            yield start + 1, pairs.get(start + 1, len(text))
            done = pairs.get(start + 1, len(text))
            continue
        done = _argument_end(text, start, pairs)
        if done > start:
            yield start, done


def _argument_end(text: str, start: int, pairs: dict[int, int]) -> int:
    r"""Where the argument of a box without braces ends: `$7$`, `(7, 8)`, `\frac{7}{1}`, `7`."""
    closing = {"$": "$", "(": ")", "[": "]"}.get(text[start : start + 1])
    line_end = text.find("\n", start)
    close = text.find(closing, start + 1, line_end if line_end >= 0 else None) if closing else -1
    end = close + 1 if close >= 0 else start
    while end < len(text) and not text[end].isspace() and text[end] != "$":
        end = pairs.get(end + 1, len(text)) if text[end] == "{" else end
        end += 1
    return min(end, len(text))


def _past_brace(text: str, end: int) -> int:
    return end + text.startswith("}", end)


def _marked(text: str) -> Iterator[Cut]:
    """What follows "answer:", "the answer is" or "####", to the end of its sentence or line."""
    done = 0
    while mark := _MARK.search(text, done):
        first_word = _NO_WORD.match(text, mark.end())
        assert first_word is not None, "the pattern matches the empty string"
        end = _SENTENCE_END.search(text, first_word.end())
        assert end is not None, "the end of the text ends a sentence"
        said = text[mark.end() : end.start()]
        if said.strip() and not _TAG.match(said.strip()):
            yield mark.end() + len(said) - len(said.lstrip()), mark.end() + len(said.rstrip())
        done = max(end.start(), mark.end())


# --- lines and cells that only say an answer ---

_PIECE = re.compile(rf"(</?[A-Za-z][^<>\n]{{0,80}}>|{re.escape(WITHHELD)}|(?<!\\)\||(?<!\\)&)")
_DECORATION = " \t\r\n\f\v*_`$#>-+.:;,!?=~|%°()[]{}'\"“”‘’«»•–—\\"
_WRAPPER = re.compile(r"\\(?:text|math|operatorname|display|bf|it|rm|left|right|quad|qquad)[a-z]*")
_SPACING = re.compile(r"\\[,;:! ]|\{,\}|\^\{?\\circ\}?")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(\d)\s*(\d))")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TRAILING_ZEROS = re.compile(r"(\.\d*?)0+$")
_LIST_MARK = re.compile(r"(?:\d{1,3}|[a-z])[.)]\s+")
_NAME = re.compile(r"\\?[a-z]\w{0,20}(?:\([a-z]\))?\s*(?:=|:|\\approx|\\equiv|≈|≡)")
_WORDS = re.compile(
    r"(?:(?:so|thus|hence|therefore|then|finally|and|we|i|get|have|obtain|find|which|it|that|is|"
    r"gives|equals|the|my|our|final|correct|answer|result|solution|value)\b[\s,:=]*){1,12}"
)
_TAIL = re.compile(
    r"\b(?:is|as)\s{1,9}(?:the|my|our)\s{1,9}(?:(?:final|correct)\s{1,9})?"
    r"(?:answer|result|solution)$"
)


def spelling(text: str) -> str:
    """An answer or a line in a common spelling, without marks around it: `**$x = 7.0$.**` -> `7`.

    For comparing only: different answers may have the same spelling (`7`, `-7`).
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = _SPACING.sub("", _WRAPPER.sub("", text))
    text = _FRACTION.sub(lambda m: f"{m[1] or m[3]}/{m[2] or m[4]}", text)
    text = _THOUSANDS.sub("", text).strip(_DECORATION)
    text = _TAIL.sub("", text).strip(_DECORATION) or text
    for _ in range(4):
        before = text
        for lead in (_LIST_MARK, _WORDS, _NAME):
            if (found := lead.match(text)) and (rest := text[found.end() :].strip(_DECORATION)):
                text = rest
        if text == before:
            break
    text = re.sub(r"[\s{}]", "", text)
    return _TRAILING_ZEROS.sub(r"\1", text).rstrip(".") if "." in text else text


def _withhold_line(line: str, answers: set[str]) -> str:
    """The line with the marker for itself or for those of its pieces that only say an answer."""
    body = line.rstrip("\r\n")
    if spelling(body) in answers:
        return WITHHELD + line[len(body) :]
    pieces = _PIECE.split(body)
    if len(pieces) == 1:
        return line
    for index in range(0, len(pieces), 2):
        piece = pieces[index]
        if piece.strip() and spelling(piece) in answers:
            pieces[index] = piece.replace(piece.strip(), WITHHELD)
    return "".join(pieces) + line[len(body) :]


def _cut(text: str, cuts: Iterable[Cut]) -> str:
    """Replace every stretch by the marker; overlapping stretches by one marker."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(cuts):
        if start >= done:
            pieces += [text[done:start], WITHHELD]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


# --- programs ---


def _code_spelling(code: str) -> str:
    """Code without blank lines and trailing blanks: for comparing."""
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


def _with_fences(visible: str, span: Span) -> Cut:
    """The stretch of a program, and for a fenced one also of the two lines that fence it."""
    if span.kind == "text":
        return span.start, span.end
    line_end = visible.find("\n", span.end)
    start = visible.rfind("\n", 0, max(span.start - 1, 0)) + 1
    return start, len(visible) if line_end < 0 else line_end
