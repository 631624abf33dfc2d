r"""Answer text -> one canonical LaTeX spelling.

Unicode, spacing commands, sizes, fonts, math delimiters and the many spellings of one number
("12{,}345", "½", "3.2e5", "0.\overline{3}") are brought to one form, so that equal spellings are
equal strings and the readers behind it know one form of each thing. Meaning is not touched:
nothing is evaluated. Every pattern is linear in the length of the text.

Canonical: `\frac{a}{b}`, `\cdot`, `\le`, `\ge`, `\ne`, `\ldots`, `\text{...}` for words, `\and` and
`\or` for connecting words, single blanks.
"""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙ", "0123456789+-()n")

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi",
    "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "χ": "chi", "ψ": "psi",
    "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Π": "Pi",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
_SYMBOLS = {
    **{letter: f"\\{name} " for letter, name in _GREEK.items()},
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "⁄": "/", "∕": "/", "∗": "*", "⋆": "*",
    "×": "\\cdot ", "·": "\\cdot ", "⋅": "\\cdot ", "•": "\\cdot ", "÷": "/", "√": "\\sqrt ",
    "∛": "\\sqrt[3] ", "∞": "\\infty ", "°": "^\\circ ", "º": "^\\circ ", "±": "\\pm ",
    "∓": "\\mp ", "≤": "\\le ", "≥": "\\ge ", "⩽": "\\le ", "⩾": "\\ge ", "≠": "\\ne ",
    "≈": "\\approx ", "≡": "\\equiv ", "∈": "\\in ", "∪": "\\cup ", "∩": "\\cap ",
    "∖": "\\setminus ", "∅": "\\emptyset ", "ℝ": "\\R ", "ℤ": "\\Z ", "ℕ": "\\N ",
    "ℚ": "\\Q ", "ℂ": "\\C ", "→": "\\to ", "⟨": "\\langle ", "⟩": "\\rangle ",
    "〈": "\\langle ", "〉": "\\rangle ", "⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ",
    "⌉": "\\rceil ", "…": "\\ldots ", "⋯": "\\ldots ", "′": "'", "’": "'", "‘": "'",
    "∑": "\\sum ", "∏": "\\prod ", "∫": "\\int ", "∂": "\\partial ", "△": "\\triangle ",
    "∠": "\\angle ", "¬": "\\neg ", "∧": "\\and ", "∨": "\\or ", "∣": "\\mid ", "。": ".",
    "、": ",", "¥": "\\yen ", "£": "\\pounds ", "€": "\\euro ", "％": "%", "✓": "\\checkmark ",
}  # fmt: skip
_SYMBOL = re.compile("|".join(map(re.escape, _SYMBOLS)))
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_CONTROL = {"\x0c": "\\f", "\x08": "\\b", "\x07": "\\a", "\x0b": "\\v"}
"""A LaTeX command whose backslash and first letter were eaten by a string escape."""


def canonical(text: str) -> str:
    """The canonical spelling of an answer. Total: any string gives a string."""
    text = re.sub(r"^\s*\*\*([^*]*)\*\*\s*$", r"\1", text)
    text = _plain_characters(text)
    text = _unescape(text)
    text = _strip_layout(text)
    text = _unwrap_fonts(text)
    text = _plain_names(text)
    text = _numbers(text)
    return _trim(text)


def squeeze(text: str) -> str:
    r"""A canonical text without blanks: equal squeezed texts are the same answer.

    The blank that ends a command stays when a letter follows: `\pi r` is not `\pir`.
    """
    text = re.sub(r"(\\[A-Za-z]+) +(?=[A-Za-z])", "\\1\0", text)
    text = re.sub(r"(\d) +(?=\d)", "\\1\0", text)
    text = text.replace(" ", "").replace("\0", " ")
    return re.sub(r"([\^_])\{(\w)\}", r"\1\2", text)


def _plain_characters(text: str) -> str:
    text = _INVISIBLE.sub("", text)
    for control, command in _CONTROL.items():
        text = text.replace(control, command)
    text = re.sub(r"\t(?=ext\b|imes\b|frac\b|heta\b|an\b|au\b|o\b)", r"\\t", text)
    if text.isascii():
        return text
    text = re.sub(
        "[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+", lambda m: "^{" + m.group().translate(_SUPERSCRIPTS) + "}", text
    )
    text = re.sub(
        "[₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙ]+", lambda m: "_{" + m.group().translate(_SUBSCRIPTS) + "}", text
    )
    text = re.sub("[¼-¾⅐-⅞]", _vulgar_fraction, text)
    text = _SYMBOL.sub(lambda m: _SYMBOLS[m.group()], text)
    text = unicodedata.normalize("NFKC", text)
    return _SYMBOL.sub(lambda m: _SYMBOLS[m.group()], text)


def _vulgar_fraction(m: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", m.group()).partition("⁄")
    return f"\\frac{{{above}}}{{{below}}}"


def _unescape(text: str) -> str:
    r"""Undo a doubled escape: `\\frac` in a text without rows, every `\\` when `\\begin` occurs."""
    if "\\\\begin" in text:
        text = re.sub(r"\\\\(?=[A-Za-z,;:!{}$%()\[\]])|\\\\(?=\\)", lambda _: "\\", text)
    elif "\\begin" not in text:
        text = re.sub(r"\\\\(?=[A-Za-z])", lambda _: "\\", text)
    return text


_BLANK = re.compile(
    r"\\(?:quad|qquad|enspace|enskip|thinspace|medspace|thickspace|hfill|newline|noindent"
    r"|displaystyle|textstyle|scriptstyle|limits|nolimits|left|right|[bB]ig+[lrm]?|middle|strut"
    r"|centering|normalsize|large|Large|huge)(?![A-Za-z])\.?"
)
_DROPPED = re.compile(r"\\(?:tag|label|hspace|vspace|phantom|hphantom|vphantom|color)\*?\{[^{}]*\}")
_COMMANDS = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom",
    r"\tbinom": r"\binom", r"\times": r"\cdot", r"\ast": r"\cdot", r"\bullet": r"\cdot",
    r"\div": "/", r"\leq": r"\le", r"\leqslant": r"\le", r"\geq": r"\ge", r"\geqslant": r"\ge",
    r"\leqq": r"\le", r"\geqq": r"\ge", r"\neq": r"\ne", r"\lt": "<", r"\gt": ">",
    r"\cdots": r"\ldots", r"\dots": r"\ldots", r"\dotsc": r"\ldots", r"\dotsb": r"\ldots",
    r"\varnothing": r"\emptyset", r"\rightarrow": r"\to", r"\longrightarrow": r"\to",
    r"\Rightarrow": r"\to", r"\implies": r"\to", r"\lor": r"\or", r"\vee": r"\or",
    r"\land": r"\and", r"\wedge": r"\and", r"\lvert": "|", r"\rvert": "|", r"\vert": "|",
    r"\colon": ":", r"\degree": r"^\circ", r"\varphi": r"\phi", r"\varepsilon": r"\epsilon",
    r"\vartheta": r"\theta", r"\approxeq": r"\approx", r"\simeq": r"\approx", r"\tg": r"\tan",
    r"\ctg": r"\cot", r"\arctg": r"\arctan", r"\infin": r"\infty", r"\lbrace": r"\{",
    r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\smallsetminus": r"\setminus",
    r"\backslash": r"\setminus", r"\imath": "i", r"\jmath": "j", r"\dag": "", r"\notin": r"\ne",
    r"\textdegree": r"^\circ", r"\percent": r"\%", r"\dollar": r"\$", r"\bmod": r"\mod",
    r"\reals": r"\R", r"\Reals": r"\R", r"\thinmuskip": "", r"\bigcup": r"\cup",
}  # fmt: skip
_COMMAND = re.compile(r"\\[A-Za-z]+")


def _strip_layout(text: str) -> str:
    text = re.sub(r"\\\\\s*(?:\[[\d.]+\s*[a-z]{2}\])?", r"\\cr ", text)
    text = re.sub(r"\\+\s*$", "", text)
    text = re.sub(r"(?<=\d)(?:\{,\}|,\\!|\\,|\\!|\\;|\\ |~)(?=\d{3}(?!\d))", "\u2009", text)
    text = re.sub(r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}", r"\\frac{\1}{\2}", text)
    text = re.sub(r"^([^{}]{1,99})\\over(?![A-Za-z])([^{}]{1,99})$", r"\\frac{\1}{\2}", text)
    text = _DROPPED.sub("", text)
    text = re.sub(r"\\textcolor\s*\{[^{}]*\}", "", text)
    text = re.sub(r"\\left\s*\\\{|\\left\s*\\lbrace", r"\\{", text)
    text = re.sub(r"\\right\s*\\\}", r"\\}", text)
    text = _BLANK.sub(" ", text)
    text = _COMMAND.sub(lambda m: _COMMANDS.get(m.group(), m.group()) + " ", text)
    text = re.sub(r"\\[,;:!> ]|~|\\(?=\s)", " ", text)
    text = re.sub(r"\\[()\[\]]|(?<!\\)\$", " ", text)
    text = text.replace("\\|", "|").replace("{,}", ",").replace("**", "^").replace("*", r"\cdot ")
    text = text.replace("!=", r"\ne ").replace("<=", r"\le ").replace(">=", r"\ge ")
    text = text.replace("\\_", "_").replace("\\#", "#").replace("\\&", " and ")
    return re.sub(r"\.\.\.+", r"\\ldots ", text)


_FONT = re.compile(
    r"\\(text|textrm|textbf|textit|textsf|texttt|textnormal|textup|textsc|mbox|hbox|mathrm|mathbf|"
    r"mathit|mathsf|mathtt|mathnormal|boldsymbol|bm|bold|rm|bf|it|emph|operatorname|underline|"
    r"boxed|fbox|ensuremath|mathop|mathord|mathbin|mathcal|mathscr|vec|overrightarrow)"
    r"\s*\*?\s*(\{[^{}]*\}|[A-Za-z0-9](?![A-Za-z]))"
)
_TEXT_FONTS = frozenset(
    "text textrm textbf textit textsf texttt textnormal textup textsc mbox hbox emph".split()
)
_UNIT_TEXT = re.compile(r"[mgshlLtJNWVAK]|[A-Za-z]{1,3}\s*/\s*[A-Za-z]{1,3}(?:\^?\d)?")
"""Units that are words only behind a number: `5\\text{ m}`, `9\\mathrm{km/h}`."""
_BOLD = frozenset("mathbf boldsymbol bm bold vec hat".split())


def _unwrap_fonts(text: str) -> str:
    """Remove font commands from the inside out; words end up in `text`."""
    text = re.sub(r"\\mathbb\s*\{?\s*([RZNQC])\s*\}?", r"\\\1 ", text)
    text = re.sub(r"\\(?:mathbf|bm|boldsymbol)\s*\{\s*([RZNQC])\s*\}(?=\s*$)", r"\\\1 ", text)
    text = re.sub(r"\\hat\s*\{?\s*(?:\\mathbf\s*)?\{?\s*([ijk])\s*\}*", r"\\unit{\1}", text)
    for _ in range(8):
        replaced = _FONT.sub(_unwrap, text)
        if replaced == text:
            break
        text = replaced
    return text


def _unwrap(m: re.Match[str]) -> str:
    font, content = m.group(1), m.group(2)
    content = content[1:-1] if content.startswith("{") else content
    inner = content.strip()
    if font in _BOLD and inner in {"i", "j", "k"}:
        return f"\\unit{{{inner}}}"
    if re.fullmatch(r"[A-Za-z][A-Za-z'. -]*", inner) and len(inner) > 1:
        return f"\\word{{{content}}}"
    if _UNIT_TEXT.fullmatch(inner) and re.search(r"[\d})/]\s*$", m.string[: m.start()][-40:]):
        return f"\\word{{{content}}}"
    if font in _TEXT_FONTS and re.search(r"[A-Za-z]{2}", inner) and "\\" not in inner:
        return f"\\word{{{content}}}"
    return f" {content} " if font in _TEXT_FONTS else f"{{{content}}}" if inner else ""


_FUNCTIONS = (
    "arcsin|arccos|arctan|arccot|arcsec|arccsc|arcsinh|arccosh|arctanh|asin|acos|atan|sinh|cosh|"
    "tanh|coth|sin|cos|tan|cot|sec|csc|exp|log|ln|lg|sqrt|gcd|lcm|max|min|det|floor|ceil|binom|"
    "frac|pi|theta|alpha|beta|gamma|lambda|infty|arsinh|arcosh|artanh|cbrt|abs|pmod|mod|cdot|oo"
)
_BARE_FUNCTION = re.compile(rf"(?<![A-Za-z\\])({_FUNCTIONS})(?![A-Za-z])")
_WORD_FUNCTION = re.compile(rf"\\word\{{\s*({_FUNCTIONS})\s*\}}")
_WORD = re.compile(r"\\word\{([^{}]*)\}")


def _function(m: re.Match[str]) -> str:
    """The command of a function name; "45 min" and "30 sec" at the end are units."""
    ends = not re.search(r"[A-Za-z0-9({]", m.string[m.end() : m.end() + 40])
    before = m.string[max(0, m.start() - 9) : m.start()]
    if m.group(1) in ("min", "sec") and ends and re.search(r"[\d})]\s*$", before):
        return m.group()
    return f"\\{m.group(1)} "


def _plain_names(text: str) -> str:
    r"""`sin` -> `\sin`, connecting words -> `\and`/`\or`, words -> `\text{...}`."""
    text = _WORD_FUNCTION.sub(_function, text)
    words: list[str] = []

    def park(m: re.Match[str]) -> str:
        words.append(m.group(1))
        return f"\\word{{{len(words) - 1}}}"

    text = _WORD.sub(park, text)
    text = re.sub(r"(?<![A-Za-z\\])(and|or)(?![A-Za-z])", r" \\\1 ", text)
    text = _BARE_FUNCTION.sub(_function, text)
    text = text.replace(r"\oo ", r"\infty ").replace(r"\lg ", r"\log_{10} ")
    text = re.sub(r"\\log\s*_\s*(?:e|\{\s*e\s*\})(?![A-Za-z])", r"\\ln ", text)
    return re.sub(r"\\word\{(\d+)\}", lambda m: _word(words[int(m.group(1))]), text)


_NUMBER_FIRST = re.compile(r"\s*([-+]?\d[\d,]*(?:\.\d+)?)\s*([A-Za-z][A-Za-z /.]*)")


def _word(content: str) -> str:
    r"""A piece of text. A number in front of it stands outside; "and"/"or" at its ends do too."""
    if m := _NUMBER_FIRST.fullmatch(content):
        return f" {m.group(1)} " + _word(m.group(2))
    m = re.fullmatch(r"\s*(?:(and|or)\b)?(.*?)(?:\b(and|or))?\s*", content, re.DOTALL)
    if not m:
        return f"\\text{{{content.strip()}}}"
    before, middle, after = m.groups()
    middle = middle.strip()
    return (
        (f" \\{before} " if before else "")
        + (f"\\text{{{middle}}} " if middle else " ")
        + (f" \\{after} " if after else "")
    )


_THOUSANDS = re.compile(r"(?<![\d.,\u2009])\d{1,3}(?:[,\u2009 ]\d{3})+(?![\d\u2009])(?!,\d)")
_SCIENTIFIC = re.compile(r"(?<![\dA-Za-z\\])(\d+(?:\.\d*)?|\.\d+)[eE]([+-]?\d{1,6})(?![\dA-Za-z.])")
_REPETEND = re.compile(
    r"(?<!\d)(\d*)\.(\d*)(?:\\overline\s*\{\s*(\d+)\s*\}|\\overline\s*(\d)|\\dot\s*\{?\s*(\d)\s*\}?"
    r"(?:(\d*)\\dot\s*\{?\s*(\d)\s*\}?)?|\((\d+)\))"
)
_ELLIPSIS = re.compile(r"(?<!\d)(\d*)\.(\d{2,40})\s*\\ldots\s*$")


def _numbers(text: str) -> str:
    text = re.sub(r"\\frac\s*(\d)\s*(\d)(?!\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)(?=\d)", r"\\frac{\1}{\2} \\cdot ", text)
    if not _in_brackets(text):
        text = _THOUSANDS.sub(lambda m: re.sub(r"[^\d]", "", m.group()), text)
    text = text.replace("\u2009", "")
    text = _SCIENTIFIC.sub(r"\1\\cdot 10^{\2}", text)
    text = _REPETEND.sub(_repeating_fraction, text)
    text = _ELLIPSIS.sub(_ellipsis_fraction, text)
    text = re.sub(r"\\?%|\\text\{\s*(?:percent|per cent)\s*\}", r"\\%", text)
    return re.sub(r"(?<![\w}])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d/.^])", _mixed, text)


def _in_brackets(text: str) -> bool:
    """True when a comma may be one of a tuple, interval or set rather than of a number."""
    return bool(re.search(r"[(\[{]\s*-?\d{1,3},\d{3}\s*[)\]]|\\\{", text))


def _mixed(m: re.Match[str]) -> str:
    whole, above, below = m.groups()
    if len(below) > 9 or int(above) >= int(below):
        return m.group()
    return f"{whole}\\frac{{{above}}}{{{below}}}"


def _repeating_fraction(m: re.Match[str]) -> str:
    whole, fixed, *cycle = m.groups()
    repeated = "".join(part for part in cycle if part)
    return _as_fraction(whole, fixed, repeated) if repeated else m.group()


def _ellipsis_fraction(m: re.Match[str]) -> str:
    """ "0.333..." -> 1/3: the shortest cycle that ends the digits and is shown at least twice."""
    whole, digits = m.groups()
    for length in range(1, len(digits) // 2 + 1):
        cycle = digits[-length:]
        shown = 0
        while digits.endswith(cycle * (shown + 1)):
            shown += 1
        if shown >= (3 if length == 1 else 2):
            return _as_fraction(whole, digits[: len(digits) - shown * length], cycle)
    return m.group()


def _as_fraction(whole: str, fixed: str, cycle: str) -> str:
    below = (10 ** len(cycle) - 1) * 10 ** len(fixed)
    above = int((whole or "0") + fixed + cycle) - int((whole or "0") + fixed)
    return f"\\frac{{{above}}}{{{below}}}"


_LEAD = re.compile(
    r"^\s*(?:\\text\{\s*)?(?:(?:so|thus|hence|therefore)[, ]+)?(?:the\s+)?(?:final\s+)?"
    r"(?:answer|result)\s*(?:is|:|=|\\text\{is\})\s*:?\s*(\}?)",
    re.IGNORECASE,
)


def _trim(text: str) -> str:
    r"""Drop a lead such as "the answer is", outer braces, final points and stray blanks."""
    if m := _LEAD.match(text):
        rest = text[m.end() :]
        text = rest if m.group(1) or "\\text{" not in m.group() else "\\text{" + rest
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"^\\text\{([\d.,/ +-]*)\}$", r"\1", text)
    text = re.sub(r"(\\[A-Za-z]+) (?![A-Za-z])", r"\1", text)
    while True:
        trimmed = re.sub(r"(?:\\cr|[.,;:]| )+$", "", text) if not text.endswith("!") else text
        trimmed = re.sub(r"^(?:[=:,;.](?!\d)| |=)+", "", trimmed)
        if _braced(trimmed):
            trimmed = trimmed[1:-1].strip()
        if trimmed == text:
            return text
        text = trimmed


def _braced(text: str) -> bool:
    if not (text.startswith("{") and text.endswith("}")) or text.endswith("\\}"):
        return False
    depth = 0
    for i, char in enumerate(text):
        if char in "{}" and (i == 0 or text[i - 1] != "\\"):
            depth += 1 if char == "{" else -1
            if depth == 0 and i < len(text) - 1:
                return False
    return depth == 0
