r"""Canonical LaTeX -> a small expression tree. Nothing is evaluated while reading.

math-verify's own parser costs 1-100 ms per expression, merges `12 345` into 357, drops subscripts,
primes and units and lower-cases names; this one reads the part of LaTeX that answers are written
in, strictly: what it does not know (integrals, limits, derivatives, unknown commands) it refuses
with `UnreadableError`, and `algebra.py` hands those to math-verify.

Trees are nested tuples, `(operator, ...)`:
`("num", Fraction)`, `("sym", name)`, `("add" | "mul", a, b)`, `("neg", a)`, `("div", a, b)`,
`("pow", a, b)`, `("fn", name, a, ...)`, `("call", name, a, ...)` for a named unknown function,
`("sum" | "prod", body, variable, low, high)`, `("pm" | "mp", a)`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, TypeAlias

Node: TypeAlias = tuple[Any, ...]

MAX_DEPTH = 40
MAX_HEIGHT = 120
"""Levels of a tree; the evaluators recurse, and no model text may exhaust Python's stack."""
MAX_LENGTH = 2000

GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon"
    " phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell hbar aleph"
    " triangle angle".split()
)
FUNCTIONS = frozenset(
    "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot arcsec arccsc arcsinh"
    " arccosh arctanh asin acos atan arsinh arcosh artanh exp log ln Gamma zeta cbrt abs floor"
    " ceil".split()
)
MANY = frozenset("gcd lcm max min".split())
INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec",
            "csc": "arccsc", "sinh": "arcsinh", "cosh": "arccosh", "tanh": "arctanh"}  # fmt: skip
CALLED = frozenset("fghFGHPQR")
"""Letters that name a function where a parenthesis follows; other letters are multiplied."""

ACCENT = frozenset("bar overline hat tilde dot ddot widehat unit check widetilde".split())


class UnreadableError(ValueError):
    """The text is not an expression that this reader knows."""


def parse_expression(text: str) -> Node:
    """Read a canonical text (see `normalize.canonical`) as one expression.

    Raises:
        UnreadableError: It is not one expression, or longer or deeper than the limits.
    """
    if len(text) > MAX_LENGTH:
        raise UnreadableError(f"an expression may have {MAX_LENGTH} characters, got {len(text)}")
    reader = _Reader(text)
    node = reader.sum()
    reader.blanks()
    if _height(node) > MAX_HEIGHT:
        raise UnreadableError(f"a tree higher than {MAX_HEIGHT}")
    if reader.at < len(text):
        raise UnreadableError(f"no operator fits before {text[reader.at : reader.at + 20]!r}")
    return node


def _with_sign(sign: str, term: Node) -> Node:
    kind = {"-": "neg", "\\pm": "pm", "\\mp": "mp"}.get(sign)
    return (kind, term) if kind else term


def _balanced(operator: str, nodes: list[Node]) -> Node:
    """One tree of logarithmic height over a long sum or product."""
    while len(nodes) > 1:
        pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
        nodes = [(operator, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return nodes[0]


def _quotient(above: list[Node], below: list[Node]) -> Node:
    node = _balanced("mul", above)
    return ("div", node, _balanced("mul", below)) if below else node


def _height(node: Node) -> int:
    level, height = [node], 0
    while level:
        height += 1
        level = [part for n in level for part in n if isinstance(part, tuple)]
    return height


_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_INTEGER_FRACTION = re.compile(r"\s*\\frac\s*\{\s*(\d{1,40})\s*\}\s*\{\s*(\d{1,40})\s*\}")


class _Reader:
    """Recursive descent over one text; `at` is the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.open_bars = 0

    # --- characters ---

    def blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def peek(self) -> str:
        """The next character or command, "" at the end."""
        self.blanks()
        if m := _COMMAND.match(self.text, self.at):
            return m.group()
        return self.text[self.at : self.at + (2 if self.text.startswith("\\", self.at) else 1)]

    def take(self, *tokens: str) -> str | None:
        """Consume the next token if it is one of `tokens`."""
        token = self.peek()
        if token and token in tokens:
            self.at += len(token)
            return token
        return None

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise UnreadableError(f"expected {token!r}, got {self.peek()!r}")

    # --- operators, loosest first ---

    def deeper(self) -> None:
        """Count one level; the count is only taken back where reading succeeds."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {MAX_DEPTH}")

    def sum(self) -> Node:
        terms = [self.signed()]
        while sign := self.take("+", "-", "\\pm", "\\mp"):
            terms.append(_with_sign(sign, self.signed()))
        return _balanced("add", terms)

    def signed(self) -> Node:
        sign = self.take("+", "-", "\\pm", "\\mp")
        if sign is None:
            return self.product()
        self.deeper()
        term = self.signed()
        self.depth -= 1
        return _with_sign(sign, term)

    def product(self) -> Node:
        above, below = [self.power()], []
        while True:
            if self.take("\\cdot"):
                above.append(self.signed_factor())
            elif self.take("/"):
                below.append(self.signed_factor())
            elif self.take("\\mod"):
                above, below = [("fn", "mod", _quotient(above, below), self.signed_factor())], []
            elif self.starts_factor() or self.number_may_follow(above[-1]):
                above.append(self.power())
            else:
                return _quotient(above, below)

    def signed_factor(self) -> Node:
        if self.take("-"):
            return ("neg", self.power())
        self.take("+")
        return self.power()

    def starts_factor(self) -> bool:
        """True when a factor follows without an operator; two numbers never multiply silently."""
        token = self.peek()
        if token == "|":
            return self.open_bars == 0
        if token[:1] == "\\":
            name = token[1:]
            return name in GREEK | FUNCTIONS | MANY | ACCENT or name in _FACTORS
        return token.isalpha() or token in ("(", "[", "{")

    def number_may_follow(self, last: Node) -> bool:
        """True before the 5 of `5!5!` and the second 2 of `2^x2^y`."""
        before = self.text[max(self.at - 2, 0) : self.at].rstrip()[-1:]
        power = last[0] == "pow" and (before.isalpha() or before == "}")
        return self.peek().isdigit() and (before == "!" or power)

    def power(self) -> Node:
        node = self.atom()
        while True:
            if self.take("!"):
                double = self.text.startswith("!", self.at)
                self.at += double
                node = ("fn", "factorial2" if double else "factorial", node)
            elif self.take("^"):
                if self.take("\\circ") or self.braced("\\circ"):
                    node = ("fn", "degrees", node)
                else:
                    node = ("pow", node, self.script())
            elif self.take("\\%"):
                node = ("div", node, ("num", Fraction(100)))
            else:
                return node

    def braced(self, token: str) -> bool:
        m = re.compile(r"\s*\{\s*" + re.escape(token) + r"\s*\}").match(self.text, self.at)
        if m:
            self.at = m.end()
        return bool(m)

    def script(self) -> Node:
        """An exponent: a group, a signed number of any length, or one symbol."""
        negative = self.take("-", "+") == "-"
        node = self.atom()
        return ("neg", node) if negative else node

    def group(self, opener: str, closer: str) -> Node:
        self.expect(opener)
        bars, self.open_bars = self.open_bars, 0
        node = self.sum()
        self.open_bars = bars
        self.expect(closer)
        return node

    # --- atoms ---

    def atom(self) -> Node:
        self.deeper()
        node = self.undecorated()
        self.depth -= 1
        return node

    def undecorated(self) -> Node:
        token = self.peek()
        if token in ("(", "[", "{"):
            return self.group(token, {"(": ")", "[": "]", "{": "}"}[token])
        if token == "|":
            self.expect("|")
            self.open_bars += 1
            node = self.sum()
            self.open_bars -= 1
            self.expect("|")
            return ("fn", "abs", node)
        if token[:1] == "\\":
            return self.command(token[1:])
        if m := _NUMBER.match(self.text, self.at):
            return self.number(m)
        if token.isalpha() and token.isascii():
            self.at += 1
            return self.named(token)
        raise UnreadableError(f"expected a value, got {token!r}")

    def number(self, m: re.Match[str]) -> Node:
        """A number; an integer directly before a fraction of integers is a mixed number."""
        self.at = m.end()
        value = Fraction(m.group().rstrip(".") if m.group() != "." else "0")
        if m.group().isdigit() and (f := _INTEGER_FRACTION.match(self.text, self.at)):
            above, below = int(f.group(1)), int(f.group(2))
            if not 0 < above < below:
                raise UnreadableError("a mixed number needs a proper fraction")
            self.at = f.end()
            value += Fraction(above, below)
        return ("num", value)

    def named(self, name: str) -> Node:
        """A symbol with its primes, subscript and arguments."""
        arguments: tuple[Node, ...] = ()
        while True:
            if self.take("'"):
                name += "'"
            elif self.take("_"):
                subscript = self.subscript()
                if isinstance(subscript, str):
                    name += "_" + subscript
                else:
                    name, arguments = name + "_", (*arguments, subscript)
            else:
                break
        if name[0] in CALLED and len(name.rstrip("'")) == 1 and self.inverse_mark():
            name += "^-1"
        if self.peek() == "(" and (name[0] in CALLED or arguments):
            return ("call", name, *arguments, *self.arguments())
        if name == "C" and re.match(r"\s*\(\s*\d+\s*,\s*\d+\s*\)", self.text[self.at :]):
            return ("fn", "binom", *self.arguments())
        return ("call", name, *arguments) if arguments else ("sym", name)

    def inverse_mark(self) -> bool:
        m = re.compile(r"\s*\^\s*\{\s*-\s*1\s*\}(?=\s*\()").match(self.text, self.at)
        if m:
            self.at = m.end()
        return bool(m)

    def subscript(self) -> str | Node:
        """The subscript as part of a name, or as an expression when it holds a letter."""
        if m := re.compile(r"\s*(\d+)").match(self.text, self.at):
            self.at = m.end()
            return m.group(1)
        word = re.compile(r"\s*\{\s*(\d+|\\text\{[^{}]*\})\s*\}").match(self.text, self.at)
        if word:
            self.at = word.end()
            return word.group(1)
        return self.group("{", "}") if self.peek() == "{" else self.atom()

    def arguments(self) -> list[Node]:
        self.expect("(")
        nodes = [self.sum()]
        while self.take(","):
            nodes.append(self.sum())
        self.expect(")")
        return nodes

    # --- commands ---

    def command(self, name: str) -> Node:
        if name == "Gamma" and not re.match(r"\\Gamma\s*[({]", self.text[self.at :]):
            return self.greek(name)
        if name == "zeta" and not re.match(r"\\zeta\s*\(", self.text[self.at :]):
            return self.greek(name)
        if name in FUNCTIONS:
            return self.function(name)
        if name in MANY:
            self.at += len(name) + 1
            return ("fn", name, *self.arguments())
        if name in GREEK:
            return self.greek(name)
        if name in ACCENT:
            return self.accent(name)
        if name in _FACTORS:
            self.at += len(name) + 1
            return _FACTORS[name](self)
        raise UnreadableError(f"unknown command \\{name}")

    def greek(self, name: str) -> Node:
        self.at += len(name) + 1
        return self.named(f"\\{name}")

    def accent(self, name: str) -> Node:
        m = re.compile(r"\\\w+\s*(\{[^{}]*\}|\w)").match(self.text, self.at)
        if not m:
            raise UnreadableError(f"\\{name} needs one letter")
        self.at = m.end()
        return self.named(f"\\{name}{m.group(1).strip('{}').replace(' ', '')}")

    def function(self, name: str) -> Node:
        self.at += len(name) + 1
        exponent: Node | None = None
        base: Node | None = None
        while self.peek() in ("^", "_"):
            if self.take("^"):
                exponent = self.script()
            else:
                self.expect("_")
                base = self.script()
        if exponent == ("neg", ("num", Fraction(1))) and name in INVERSES:
            name, exponent = INVERSES[name], None
        node: Node = ("fn", name, self.function_argument())
        if base is not None:
            if name != "log":
                raise UnreadableError(f"\\{name} takes no base")
            node = ("fn", "logb", node[2], base)
        return node if exponent is None else ("pow", node, exponent)

    def function_argument(self) -> Node:
        if self.peek() in ("(", "{", "["):
            return self.power_without_exponent()
        node = self.signed_factor() if self.peek() == "-" else self.power()
        while self.starts_factor() and self.peek() not in ("(", "["):
            if self.peek()[1:] in FUNCTIONS:
                break
            node = ("mul", node, self.power())
        return node

    def power_without_exponent(self) -> Node:
        return self.atom()

    def frac(self) -> Node:
        return ("div", self.operand(), self.operand())

    def binom(self) -> Node:
        return ("fn", "binom", self.operand(), self.operand())

    def operand(self) -> Node:
        r"""An argument of a command: a group, one digit, or one symbol (`\frac12`, `\frac1x`)."""
        if self.peek() == "{":
            return self.group("{", "}")
        if self.peek().isdigit():
            self.at += 1
            return ("num", Fraction(self.text[self.at - 1]))
        return self.atom()

    def sqrt(self) -> Node:
        index: Node = ("num", Fraction(2))
        if self.peek() == "[":
            index = self.group("[", "]")
        return ("pow", self.atom(), ("div", ("num", Fraction(1)), index))

    def rounding(self, name: str) -> Node:
        node = self.sum()
        self.expect({"floor": "\\rfloor", "ceil": "\\rceil"}[name])
        return ("fn", name, node)

    def big_operator(self, name: str) -> Node:
        self.expect("_")
        self.expect("{")
        variable = self.atom()
        if variable[0] != "sym":
            raise UnreadableError("a sum runs over one symbol")
        self.expect("=")
        low = self.sum()
        self.expect("}")
        self.expect("^")
        high = self.script()
        if ("sym", "\\infty") in (low, high):
            raise UnreadableError("an infinite series")
        return (name, self.product(), variable[1], low, high)


_FACTORS = {
    "frac": _Reader.frac,
    "binom": _Reader.binom,
    "sqrt": _Reader.sqrt,
    "pi": lambda _: ("sym", "\\pi"),
    "infty": lambda _: ("sym", "\\infty"),
    "lfloor": lambda reader: reader.rounding("floor"),
    "lceil": lambda reader: reader.rounding("ceil"),
    "sum": lambda reader: reader.big_operator("sum"),
    "prod": lambda reader: reader.big_operator("prod"),
}
"""Commands that start a factor: the reader is called after the command was consumed."""


def names(node: Node) -> frozenset[str]:
    """The symbols and unknown functions of a tree, without the constants pi and infinity."""
    kind = node[0]
    if kind == "num":
        return frozenset()
    if kind == "sym":
        return frozenset() if node[1] in ("\\pi", "\\infty") else frozenset((node[1],))
    own = frozenset((node[1] + "()",)) if kind == "call" else frozenset()
    rest = [part for part in node[1:] if isinstance(part, tuple)]
    bound = frozenset((node[2],)) if kind in ("sum", "prod") else frozenset()
    return (own | frozenset().union(*map(names, rest))) - bound
