r"""Answers in words: yes/no, true/false, names, option letters, "no solution", number words.

Compared as words, never as algebra: "On" is not "No", "eenv" is not "even". A word answer may say
more than the gold ("an isosceles triangle") as long as nothing in it hedges or denies.
"""

from __future__ import annotations

import re
from fractions import Fraction

_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_TOKEN = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d+(?:\.\d+)?")
_FIGURE = re.compile(
    r"^\\(?:triangle|angle|overline|overrightarrow|widehat)\s*\{?\s*[A-Z]{2,}\s*\}?$"
)

_SYNONYMS = {
    "no solution": "no solution|no solutions|no real solution|no real solutions|none exist|"
    "no such solution|no solution exists|no solutions exist|has no solution|has no solutions|"
    "there is no solution|there are no solutions|empty set|the empty set|the empty set is the answer|"
    "inconsistent|no real roots|no root|no roots",
    "does not exist": "does not exist|doesn't exist|dne|limit does not exist|"
    "the limit does not exist|limit dne|do not exist|not exist|nonexistent|no limit",
    "undefined": "undefined|not defined|is undefined|undef|it is undefined",
    "all real numbers": "all real numbers|all reals|real numbers|the real numbers|all real x|"
    "all real number|any real number|every real number|set of real numbers|"
    "the set of real numbers|the set of all real numbers|set of all real numbers",
    "infinity": "infinity|infinite|positive infinity|plus infinity|diverges to infinity|inf|"
    "infinitely many",
    "negative infinity": "negative infinity|minus infinity|diverges to negative infinity",
    "infinitely many solutions": "infinitely many solutions|infinite solutions|"
    "infinite number of solutions|an infinite number of solutions",
    "yes": "yes|true|it is true|that is true|correct",
    "no": "no|false|it is false|that is false|incorrect",
}  # fmt: skip
_CANONICAL = {
    spelling: name for name, spellings in _SYNONYMS.items() for spelling in spellings.split("|")
}
_ARTICLES = frozenset("a an the".split())
_COPULAS = frozenset("is are was were be equals called it's".split())
_HEDGES = frozenset(
    "not no nor neither either or and but never non none unless if except maybe perhaps possibly"
    " sometimes isn't aren't cannot can't doesn't don't false wrong incorrect versus vs rather"
    " unknown than instead without un".split()
)

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen".split()
)
_TENS = dict(
    zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10),
        strict=True)
)  # fmt: skip
MULTIPLIERS = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9,
               "trillion": 10**12}  # fmt: skip

_ALGEBRA_LETTERS = frozenset("abcdfghjkmnpqrstuvwxyz")
_SHORT_WORDS = frozenset("my by cry dry try fry sky fly why shy spy sty gym myth".split())


def plain_words(text: str) -> str | None:
    """The words of an answer that is nothing but words (perhaps with numbers); None otherwise.

    A first token that is a number makes a quantity, not words; single letters and short runs of
    variables ("ab", "xyz") are algebra unless they stand in a text command.
    """
    if _FIGURE.match(text):
        return re.sub(r"[\s{}]", "", text)
    bare = re.sub(r"\\(and|or)(?![A-Za-z])", r"\1", _TEXT.sub(r"\1 ", text))
    bare = bare.replace("\\ ", " ").replace("$", "")
    if re.search(r"[\\^_=<>+*{}|\[\]]|\s-\s|-\d|^-|\d\s*/|[a-z]\s*\(", bare):
        return None
    tokens = _TOKEN.findall(bare)
    if not tokens or not tokens[0][0].isalpha():
        return None
    in_text = "".join(_TEXT.findall(text))
    wordy = any(_is_word(token, in_text) for token in tokens)
    return " ".join(bare.split()) if wordy else None


def _is_word(token: str, in_text: str) -> bool:
    if len(token) < 2 or not token[0].isalpha():
        return False
    if token in in_text or token[:2].isupper() or (token[0].isupper() and len(token) > 2):
        return True
    if token.lower() in ("no", "on", "or", "yes"):
        return True
    letters = set(token)
    algebra = len(token) <= 4 and letters <= _ALGEBRA_LETTERS and token not in _SHORT_WORDS
    return not algebra and len(token) > 2


def tokens_of(words: str) -> list[str]:
    """Lower-case tokens without punctuation."""
    return [token.lower().strip("'-") for token in _TOKEN.findall(words)]


def canonical_words(words: str) -> str:
    """Lower case, no punctuation, one name per group of synonyms."""
    joined = " ".join(tokens_of(words))
    return _CANONICAL.get(joined, joined)


def number_of_words(words: str) -> Fraction | None:
    """ "twelve" -> 12, "two hundred and five" -> 205; None when it is not a number."""
    total, current, seen = 0, 0, False
    for token in re.split(r"[\s-]+", words.strip().lower().rstrip(".")):
        if token in _SMALL:
            current += _SMALL.index(token)
        elif token in _TENS:
            current += _TENS[token]
        elif token == "hundred" and seen:
            current *= 100
        elif token in MULTIPLIERS and seen:
            total, current = total + current * MULTIPLIERS[token], 0
        elif token != "and" or not seen:
            return None
        seen = True
    return Fraction(total + current)


def same_words(gold: str, answer: str) -> bool:
    """Whether a word answer says what the gold says (and does not hedge)."""
    if gold.startswith("\\") or answer.startswith("\\"):
        return gold == answer
    wanted, given = canonical_words(gold), canonical_words(answer)
    if wanted == given:
        return True
    if wanted in ("yes", "no") or tokens_of(gold)[:1] in (["yes"], ["no"], ["true"], ["false"]):
        return _leading_decision(gold) == _leading_decision(answer) is not None
    return _same_members(gold, answer) or _says(tokens_of(gold), tokens_of(answer))


def is_yes_no(words: str) -> bool:
    """True when the words start with a decision."""
    return _leading_decision(words) is not None


def _leading_decision(words: str) -> str | None:
    """ "yes" or "no" from the first token; None when undecided ("yes or no", "yes/no")."""
    tokens = tokens_of(words)
    meaning = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
    if not tokens or tokens[0] not in meaning:
        return None
    if len(tokens) > 1 and tokens[1] in meaning:
        return None
    if len(tokens) > 2 and tokens[1] in ("or", "and") and tokens[2] in meaning:
        return None
    if tokens[0] == "no" and canonical_words(words) not in ("no",) and "," not in words[:4]:
        return None if len(tokens) > 1 and not re.match(r"\s*no\s*[.:;,(-]", words, re.I) else "no"
    return meaning[tokens[0]]


def _same_members(gold: str, answer: str) -> bool:
    """ "red and blue" against "blue, red": the same parts in any order."""
    parts = [
        sorted(
            " ".join(tokens_of(part)) for part in re.split(r",|;|\band\b", words) if part.strip()
        )
        for words in (gold, answer)
    ]
    return len(parts[0]) > 1 and parts[0] == parts[1]


def _says(gold: list[str], answer: list[str]) -> bool:
    """True for "[...is] [an] GOLD [noun]": the gold as the end of a plain statement."""
    if not gold or set(answer) - set(gold) & _HEDGES or len(answer) > len(gold) + 8:
        return False
    if (set(answer) - set(gold)) & _HEDGES:
        return False
    core = [token for token in gold if token not in _ARTICLES]
    for start in range(len(answer) - len(core) + 1):
        before, after = answer[:start], answer[start + len(core) :]
        while before and before[-1] in _ARTICLES:
            before = before[:-1]
        plain = not before or before[-1] in _COPULAS
        if core and answer[start : start + len(core)] == core and plain and len(after) <= 1:
            return True
    return False


# --- multiple choice ---

_OPTION = re.compile(
    r"^(?:\\text\{)?\s*(?:(?:option|choice|answer)\s+)?\(?\s*([A-J])\s*(?:\)|\.|:|\}|$)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"^[A-J](?:\s*(?:,|\\and|and|\\or|or|/|&)\s*\(?[A-J]\)?)+$", re.IGNORECASE)
_CHOICE = re.compile(
    r"(?:^|[\s({$])(?:\\(?:text|textbf|mathrm|mathbf)\{)?\(?([A-J])(?:\)|\.|:)\}?(?:\)|\s|\\ |~)\s*"
)


def option_letter(text: str) -> str | None:
    r"""The letter of "B", "(b)", "\text{(B)} 14", "C: the smaller ring"; None for anything else."""
    flat = _TEXT.sub(r"\1 ", text).strip()
    if _SEVERAL.match(flat) or re.match(r"^\(?[A-J]\)?\s*(?:\\?and|\\?or|,|/)\b", flat, re.I):
        return None
    m = _OPTION.match(flat)
    if m is None:
        return None
    rest = flat[m.end() :]
    if re.search(r"(?<![A-Za-z])\(?[A-J]\)(?![A-Za-z])|\b(?:or|and)\s+\(?[A-J]\b", rest):
        return None
    return m.group(1).upper()


def option_gold(text: str) -> str | None:
    r"""The letter when the gold is an option: "B", "(B)", "\text{(B)}", "B) 14"."""
    flat = _TEXT.sub(r"\1 ", text).strip()
    m = re.match(r"^(?:\(\s*([A-J])\s*\)|([A-J]))(?:$|\s*[).:]|\s)", flat)
    if m is None or (len(flat) > 3 and not re.match(r"^\(?[A-J]\s*[).:]", flat)):
        return None
    return m.group(1) or m.group(2)


def option_set(text: str) -> frozenset[str] | None:
    """The letters of a multiple-select answer ("A, C", "A and C"); None for anything else."""
    flat = _TEXT.sub(r" \1 ", text).strip().replace("\\and", " and ")
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
