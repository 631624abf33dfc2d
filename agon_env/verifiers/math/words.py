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
    """ "twelve" -> 12, "two hundred and five" -> 205; None when it is not one number.

    Read by the grammar: tens, then one to nine; "one two" and "five ten" are two numbers.
    """
    total, current, last, largest = 0, 0, "", 10**15
    for token in re.split(r"[\s-]+", words.strip().lower().rstrip(".")):
        if token in _SMALL or token in _TENS:
            value = _SMALL.index(token) if token in _SMALL else _TENS[token]
            after_tens = last == "tens" and 0 < value < 10
            if not after_tens and last not in ("", "scale", "and"):
                return None
            current, last = current + value, "tens" if token in _TENS else "unit"
        elif token == "hundred" and last in ("unit", "tens") and current < 100:
            current, last = current * 100, "scale"
        elif (
            token in MULTIPLIERS and token != "hundred" and current and MULTIPLIERS[token] < largest
        ):
            largest = MULTIPLIERS[token]
            total, current, last = total + current * largest, 0, "scale"
        elif token == "and" and last == "scale":
            last = "and"
        else:
            return None
    return None if last == "and" else Fraction(total + current)


def same_words(gold: str, answer: str) -> bool:
    """Whether a word answer says what the gold says (and does not hedge)."""
    if gold.startswith("\\") or answer.startswith("\\"):
        return gold == answer
    wanted, given = canonical_words(gold), canonical_words(answer)
    if wanted == given:
        return True
    if wanted in ("yes", "no") or tokens_of(gold)[:1] in (["yes"], ["no"], ["true"], ["false"]):
        return _leading_decision(gold) == _leading_decision(answer) is not None
    return _same_members(gold, answer) or _says(tokens_of(gold), answer)


_DECISIONS = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
_WAVERING = frozenset(
    "wrong incorrect untrue unless maybe perhaps possibly or depends neither either nope".split()
)
_DENIALS = {
    "yes": frozenset("no false not never isn't doesn't don't aren't cannot can't".split()),
    "no": frozenset("yes true correct right".split()),
}


def _leading_decision(words: str) -> str | None:
    """ "yes" or "no" from the first token; None when undecided or taken back.

    "yes or no", "Yes, unless no" and "True, it is false" decide nothing; a reason may deny:
    "No, it need not be closed".
    """
    tokens = tokens_of(words)
    if not tokens or tokens[0] not in _DECISIONS:
        return None
    decision = _DECISIONS[tokens[0]]
    if set(tokens[1:]) & (_WAVERING | _DENIALS[decision]):
        return None
    if tokens[0] == "no" and len(tokens) > 1 and not re.match(r"\s*no\s*[.:;,(-]", words, re.I):
        return None  # "no solution" decides nothing
    return decision


def _same_members(gold: str, answer: str) -> bool:
    """ "red and blue" against "blue, red": the same parts in any order."""
    parts = [
        sorted(
            " ".join(tokens_of(part)) for part in re.split(r",|;|\band\b", words) if part.strip()
        )
        for words in (gold, answer)
    ]
    return len(parts[0]) > 1 and parts[0] == parts[1]


_SUBJECTS = _ARTICLES | frozenset("it this that these they he she there answer".split())
_NOUNS = frozenset(
    "triangle triangles function functions number numbers integer integers series sequence curve"
    " line lines matrix graph relation operator equation polygon quadrilateral shape figure angle"
    " angles group ring field set system solution solutions map polynomial distribution variable"
    " circle prism surface conic point color colour ball box day o'clock".split()
)
"""What may follow a word answer: "isosceles triangle" for "isosceles"."""
_SEPARATED = re.compile(r"[^\w\s'’.()-]|[.(]\s*\w|\)\s*\w")


def _says(gold: list[str], answer: str) -> bool:
    """True for "[it is] [an] GOLD [noun]": the gold as the end of a plain statement.

    Nothing that lists, hedges or denies, and no second word that could be another guess.
    """
    given = tokens_of(answer)
    if not gold or len(given) > len(gold) + 8 or (set(given) - set(gold)) & HEDGES:
        return False
    if _SEPARATED.search(answer.strip(" .()")):
        return False
    core = gold[1:] if gold[0] in _ARTICLES else gold
    for start in range(len(given) - len(core) + 1):
        before, after = given[:start], given[start + len(core) :]
        while before and before[-1] in _ARTICLES:
            before = before[:-1]
        stated = not before or (
            before[-1] in _COPULAS and (before[0] in _SUBJECTS or len(before[0]) == 1)
        )
        ended = not after or (len(after) == 1 and after[0] in _NOUNS)
        if core and given[start : start + len(core)] == core and stated and ended:
            return True
    return False
