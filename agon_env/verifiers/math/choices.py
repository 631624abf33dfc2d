r"""Multiple choice: option letters in golds, answers and questions.

`B`, `(b)`, `\text{(B)} 14` and `C: the smaller ring` name one option; "A or B" names none.
"""

from __future__ import annotations

import re

from agon_env.verifiers.math.words import TEXT

_OPTION = re.compile(
    r"^(?:\\text\{)?\s*(?:(?:option|choice|answer)\s+)?\(?\s*([A-J])\s*(?:\)|\.|:|\}|$)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"^[A-J](?:\s*(?:,|\\and|and|\\or|or|/|&)\s*\(?[A-J]\)?)+$", re.IGNORECASE)
_CHOICE = re.compile(
    r"(?:^|[\s({$])(?:\\(?:text|textbf|mathrm|mathbf)\{)?\(?([A-J])(?:\)|\.|:)\}?(?:\)|\s|\\ |~)\s*"
)


_OTHER_LETTER = re.compile(r"(?<![A-Za-z\\])(?:[A-J]|[b-j](?=\s*(?:$|[).:,;/&])))(?![A-Za-z])")


def option_letter(text: str) -> str | None:
    r"""The letter of "B", "(b)", "\text{(B)} 14", "C: the smaller ring"; None for anything else.

    What follows the letter may not name a second one: "A: B" and "(A). B. C. D." choose nothing.
    """
    split = split_option(text)
    if split is None or _OTHER_LETTER.search(split[1]):
        return None
    return split[0]


def split_option(text: str) -> tuple[str, str] | None:
    """(letter, what follows it) of an answer that begins as an option; None for anything else."""
    flat = TEXT.sub(r"\1 ", text).strip()
    if _SEVERAL.match(flat) or re.match(r"^\(?[A-J]\)?\s*(?:\\?and|\\?or|,|/)\b", flat, re.I):
        return None
    m = _OPTION.match(flat)
    return (
        None if m is None else (m.group(1).upper(), flat[m.end() :].lstrip(" ~).:}").rstrip(" ."))
    )


def option_gold(text: str) -> str | None:
    r"""The letter when the gold is an option: "B", "(B)", "\text{(B)}", "B) 14"."""
    flat = TEXT.sub(r"\1 ", text).strip()
    m = re.match(r"^(?:\(\s*([A-J])\s*\)|([A-J]))(?:$|\s*[).:]|\s)", flat)
    if m is None or (len(flat) > 3 and not re.match(r"^\(?[A-J]\s*[).:]", flat)):
        return None
    return m.group(1) or m.group(2)


def option_set(text: str) -> frozenset[str] | None:
    """The letters of a multiple-select answer ("A, C", "A and C"); None for anything else."""
    flat = TEXT.sub(r" \1 ", text).strip().replace("\\and", " and ")
    if not re.fullmatch(r"\(?[A-J]\)?(?:(?:\s|,|and|&)+\(?[A-J]\)?)+", flat):
        return None
    return frozenset(re.findall(r"(?<![a-z])[A-J]", flat))


def choices(question: str) -> dict[str, str]:
    r"""The options that a question lists, letter -> content; {} when it lists none.

    Reads "(A) 12 (B) 14", "A. 12" and "\textbf{(A)}\ 12": consecutive letters from A, at least two.
    """
    found: list[tuple[str, int, int]] = []
    for m in _CHOICE.finditer(question):
        if m.group(1) == chr(ord("A") + len(found)):
            found.append((m.group(1), m.start(), m.end()))
    if len(found) < 2:
        return {}
    ends = [start for _, start, _ in found[1:]] + [len(question)]
    return {
        letter: re.sub(r"\\q?quad|\$|\s+$|^\s+|[,;.]\s*$", " ", question[start:end]).strip()
        for (letter, _, start), end in zip(found, ends, strict=True)
    }
