"""A level -> integer expressions to work out, with exact answers.

An expression is a random tree of operations; its value is computed on the tree with Python
integers, never by evaluating text. Division is always exact and results stay small enough to write
down. The levels: easy is one operation on small numbers and shows worked examples, which is within
reach of a 135M-parameter LLM; medium is three to five, hard nine to twelve, nested.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from agon_env.prompts import Template
from agon_env.tasks.procedural import FINAL, Sketch, register_procedural
from agon_env.tasks.registry import Task
from agon_env.tasks.shots import FewShotTemplate, Shot

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
LARGEST_VALUE = 10**7
"""No intermediate value is larger in size; trees that pass it are drawn again."""


@dataclass(frozen=True)
class ArithmeticLevel:
    """How hard the expressions are."""

    operations: tuple[int, int]
    """Fewest and most operations of an expression."""
    largest: int
    """Operands of + and - are 1..largest."""
    largest_factor: int = 12
    """Factors and divisors are 2..largest_factor."""
    operators: str = "+-*"
    largest_right: int | None = None
    """Right operands of + and - that are numbers are 1..largest_right; None: 1..largest."""

    def __post_init__(self) -> None:
        low, high = self.operations
        if not 1 <= low <= high:
            raise ValueError(f"operations must be 1 <= low <= high, got {self.operations}")
        if self.largest < 1 or self.largest_factor < 2:
            raise ValueError("largest must be >= 1 and largest_factor >= 2")
        if not self.operators or set(self.operators) - set(PRECEDENCE):
            raise ValueError(f"operators must be among '+-*/', got {self.operators!r}")


@dataclass(frozen=True)
class Node:
    """A part of an expression: its text, its value and what binds it together."""

    text: str
    value: int
    operator: str = ""
    """The outermost operator; "" for a number."""
    parts: tuple[Node, Node] | None = None

    @property
    def key(self) -> str:
        """The expression up to the order of summands and factors: 3 * 8 and 8 * 3 are one."""
        if self.parts is None:
            return str(self.value)
        keys = [part.key for part in self.parts]
        if self.operator in "+*":
            keys.sort()
        return f"({keys[0]}{self.operator}{keys[1]})"


LEVELS = {
    "easy": ArithmeticLevel(operations=(1, 1), largest=99, largest_factor=12, largest_right=20),
    "medium": ArithmeticLevel(operations=(3, 5), largest=99, largest_factor=12),
    "hard": ArithmeticLevel(operations=(9, 12), largest=999, largest_factor=19, operators="+-*/"),
}


def draw_expression(rng: np.random.Generator, level: ArithmeticLevel) -> Node:
    """A random expression of the level whose values all stay below `LARGEST_VALUE`."""
    low, high = level.operations
    while True:
        node = _tree(rng, level, int(rng.integers(low, high + 1)))
        if node is not None:
            return node


def _tree(rng: np.random.Generator, level: ArithmeticLevel, operations: int) -> Node | None:
    """A tree with so many operations; None when a value grew too large or did not divide."""
    if operations == 0:
        return _number(rng, 1, level.largest)
    operator = level.operators[int(rng.integers(len(level.operators)))]
    if operator in "*/":
        left = _tree(rng, level, operations - 1)
        if operations == 1 and operator == "*":
            left = _number(rng, 2, level.largest_factor)
        right = _number(rng, 2, level.largest_factor)
    else:
        split = int(rng.integers(operations))
        left = _tree(rng, level, split)
        if split == operations - 1:
            right: Node | None = _number(rng, 1, level.largest_right or level.largest)
        else:
            right = _tree(rng, level, operations - 1 - split)
    if left is None or right is None:
        return None
    return _join(left, operator, right)


def _number(rng: np.random.Generator, low: int, high: int) -> Node:
    value = int(rng.integers(low, high + 1))
    return Node(str(value), value)


def _join(left: Node, operator: str, right: Node) -> Node | None:
    """`left operator right` with the brackets it needs; None when there is no small value."""
    if operator == "/" and left.value % right.value:
        # A dividend is made divisible by adding what is missing, which keeps the draw likely.
        missing = right.value - left.value % right.value
        filler = Node(str(missing), missing)
        left = Node(f"{left.text} + {missing}", left.value + missing, "+", (left, filler))
    if operator == "/":
        value = left.value // right.value
    elif operator == "*":
        value = left.value * right.value
    else:
        value = left.value + right.value if operator == "+" else left.value - right.value
    if abs(value) > LARGEST_VALUE:
        return None
    text = f"{_bracketed(left, operator)} {operator} {_bracketed(right, operator, right=True)}"
    return Node(text, value, operator, (left, right))


def _bracketed(node: Node, operator: str, *, right: bool = False) -> str:
    """The text of an operand, in brackets where reading left to right would change its value."""
    if not node.operator:
        return node.text
    mine, outer = PRECEDENCE[node.operator], PRECEDENCE[operator]
    needs = mine < outer or (right and mine == outer and (operator in "-/" or node.operator == "/"))
    return f"({node.text})" if needs else node.text


EASY_TEMPLATE = FewShotTemplate(
    "arithmetic",
    (
        Shot(
            "What is 12 + 7?",
            "<think>12 + 7 = 19</think>\n12 plus 7.\n<answer>19</answer>",
            draft="12 plus 7.\n<answer>[withheld]</answer>",
        ),
        Shot(
            "What is 6 * 3?",
            "<think>6 * 3 = 18</think>\n6 times 3.\n<answer>18</answer>",
            draft="6 plus 3.\n<answer>[withheld]</answer>",
        ),
        Shot(
            "What is 15 - 8?",
            "<think>15 - 8 = 7</think>\n15 minus 8.\n<answer>7</answer>",
            draft="15 minus 8.\n<answer>[withheld]</answer>",
        ),
    ),
)
"""Examples for `arithmetic-easy`. Larger models follow the plain template of the other levels."""


def shown_keys(template: Template | None) -> frozenset[str]:
    """`Node.key` of each question "What is a + b?" among the template's worked examples."""
    shots = template.shots if isinstance(template, FewShotTemplate) else ()
    keys = set()
    for shot in shots:
        parts = re.findall(r"\d+|[-+*/]", shot.question)
        if len(parts) == 3 and parts[1] in PRECEDENCE:
            left, right = (Node(part, int(part)) for part in (parts[0], parts[2]))
            keys.add(Node("", 0, parts[1], (left, right)).key)
    return frozenset(keys)


def register_arithmetic(
    name: str,
    level: ArithmeticLevel,
    *,
    template: Template | None = None,
    sizes: dict[str, int] | None = None,
    description: str = "",
) -> Task:
    """Register arithmetic of a level of your own under a name.

    What the worked examples of the template ask, commuted or not, is never drawn.
    """
    shown = shown_keys(template)

    def draw(rng: np.random.Generator) -> Sketch:
        node = draw_expression(rng, level)
        while node.key in shown:
            node = draw_expression(rng, level)
        steps = sum(node.text.count(f" {operator} ") for operator in PRECEDENCE)
        topic = "arithmetic" if steps > 1 else f"arithmetic/{node.operator}"
        question = f"What is {node.text}?"
        return Sketch(question, lambda: str(node.value), topic, float(steps), key=node.key)

    return register_procedural(
        name,
        draw,
        verifier=FINAL,
        template=template,
        sizes=sizes,
        description=description
        or f"{level.operations[0]}-{level.operations[1]} operations on integers",
    )


register_arithmetic(
    "arithmetic-easy",
    LEVELS["easy"],
    template=EASY_TEMPLATE,
    sizes={"train": 2000, "validation": 200, "test": 300},
    description="one operation, 3,800 questions; the prompt shows worked examples",
)
register_arithmetic("arithmetic-medium", LEVELS["medium"])
register_arithmetic("arithmetic-hard", LEVELS["hard"])
