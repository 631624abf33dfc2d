r"""Answers in words: yes/no, true/false, names, option letters, "no solution", number words.

Compared as words, never as algebra: "On" is not "No", "eenv" is not "even". A word answer may say
more than the gold ("an isosceles triangle") as long as nothing in it hedges or denies.
"""

from __future__ import annotations

import re
from fractions import Fraction

TEXT = re.compile(r"\\text\{([^{}]*)\}")
_TOKEN = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d+(?:\.\d+)?")
_FIGURE = re.compile(
    r"^\\(?:triangle|angle|overline|overrightarrow|widehat)\s*\{?\s*[A-Z]{2,}\s*\}?$"
)

_SYNONYMS = {
    "no solution": "no solution|no solutions|no real solution|no real solutions|none exist|"
    "no such solution|no solution exists|no solutions exist|has no solution|has no solutions|"
    "there is no solution|there are no solutions|empty set|the empty set|"
    "inconsistent|no real roots|no root|no roots",
    "does not exist": "does not exist|doesn't exist|dne|limit does not exist|"
    "the limit does not exist|limit dne|do not exist|not exist|nonexistent|no limit",
    "undefined": "undefined|not defined|is undefined|undef|it is undefined",
    "all real numbers": "all real numbers|all reals|real numbers|the real numbers|all real x|"
    "all real number|any real number|every real number|set of real numbers|"
    "the set of real numbers|the set of all real numbers|set of all real numbers",
    "all integers": "all integers|integers|the integers|any integer|every integer|"
    "the set of integers|set of integers|the set of all integers",
    "infinity": "infinity|infinite|positive infinity|plus infinity|diverges to infinity|inf|"
    "infinitely many",
    "negative infinity": "negative infinity|minus infinity|diverges to negative infinity",
    "infinitely many solutions": "infinitely many solutions|infinite solutions|"
    "infinite number of solutions|an infinite number of solutions",
    "yes": "yes|true|it is true|that is true",
    "no": "no|false|it is false|that is false",
}  # fmt: skip
_CANONICAL = {
    spelling: name for name, spellings in _SYNONYMS.items() for spelling in spellings.split("|")
}
_ARTICLES = frozenset("a an the".split())
_COPULAS = frozenset("is are was were be equals called it's".split())
HEDGES = frozenset(
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
MULTIPLIERS = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9,
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
    bare = re.sub(r"\\(and|or)(?![A-Za-z])", r"\1", TEXT.sub(r"\1 ", text))
    bare = bare.replace("\\ ", " ").replace("$", "")
    if re.search(r"[\\^_=<>+*{}|\[\]]|\s-\s|-\d|^-|\d\s*/|[a-z]\s*\(", bare):
        return None
    tokens = _TOKEN.findall(bare)
    if not tokens or not tokens[0][0].isalpha():
        return None
    in_text = "".join(TEXT.findall(text))
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
    if not gold or set(answer) - set(gold) & HEDGES or len(answer) > len(gold) + 8:
        return False
    if (set(answer) - set(gold)) & HEDGES:
        return False
    core = gold[1:] if gold[0] in _ARTICLES else gold
    for start in range(len(answer) - len(core) + 1):
        before, after = answer[:start], answer[start + len(core) :]
        while before and before[-1] in _ARTICLES:
            before = before[:-1]
        plain = not before or before[-1] in _COPULAS
        if core and answer[start : start + len(core)] == core and plain and len(after) <= 1:
            return True
    return False
