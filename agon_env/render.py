"""A match -> text for people: the problem, every turn, verdicts and what they paid.

"ansi" gives plain text, "human" prints the same with rich. Model text is shown as it is but
for control characters and lone surrogates, which could steer or crash a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from agon_env.types import Episode, Outcome, Problem, Turn

if TYPE_CHECKING:
    from agon_env.game import LiveMatch

RenderMode = Literal["ansi", "human"]
RENDER_MODES: tuple[str, ...] = get_args(RenderMode)

_MARKS = {True: "right", False: "wrong", None: "unscored"}
_COLOURS = {True: "green", False: "red", None: "yellow"}
_CONTROL = dict.fromkeys(
    [
        *range(0x09),
        *range(0x0B, 0x20),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),  # reverse the direction of what follows
        *range(0x2066, 0x206A),
    ],
    "\N{REPLACEMENT CHARACTER}",
)


def check_render_mode(mode: RenderMode | None) -> RenderMode | None:
    """The mode, if there is such a one."""
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(f"render_mode must be None or one of {list(RENDER_MODES)}, got {mode!r}")
    return mode


def render_match(live: LiveMatch, mode: str | None) -> str | None:
    """The match so far: returned as text ("ansi"), printed ("human"), or None."""
    if mode is None:
        return None
    match = live.match
    outcomes = live.episode().outcomes if match.over else ()
    if mode == "ansi":
        return match_text(match.problem, match.turns, outcomes)
    _print(match.problem, match.turns, outcomes)
    return None


def episode_text(episode: Episode) -> str:
    """A finished match as plain text."""
    return match_text(episode.problem, episode.turns, episode.outcomes)


def match_text(
    problem: Problem, turns: tuple[Turn, ...], outcomes: tuple[Outcome, ...] = ()
) -> str:
    """A match as plain text.

    Args:
        problem: What was asked.
        turns: What was said so far.
        outcomes: One per turn when the match is over, else empty.
    """
    blocks = [f"problem {printable(problem.id)}\n{_indent(problem.question)}"]
    for index, turn in enumerate(turns):
        lines = [_heading(turn)]
        if turn.role == "solver":
            lines += ["  reads:", _indent(turn.draft or "(nothing)", 4), "  writes:"]
        lines.append(_indent(turn.reply, 4 if turn.role == "solver" else 2))
        if outcomes:
            lines.append(f"  -> {_result(outcomes[index])}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def printable(text: str, encoding: str = "utf-8") -> str:
    """The text with replacements for what a terminal of that encoding would obey or refuse."""
    return text.translate(_CONTROL).encode(encoding, "replace").decode(encoding)


def _heading(turn: Turn) -> str:
    return f"{turn.agent} ({turn.role})" + (" [cut to the length limit]" if turn.cut else "")


def _result(outcome: Outcome) -> str:
    verdict = outcome.verdict
    answer = "" if verdict.answer is None else f" {printable(verdict.answer)!r}"
    parts = " + ".join(f"{name} {value:g}" for name, value in outcome.parts.items())
    reward = "none" if outcome.reward is None else f"{outcome.reward:g}"
    return f"{_MARKS[verdict.correct]} ({verdict.reason}){answer}; reward {reward}" + (
        f" = {parts}" if parts else ""
    )


def _indent(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in printable(text).split("\n"))


def _print(problem: Problem, turns: tuple[Turn, ...], outcomes: tuple[Outcome, ...]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    console = Console()

    def text(content: str, style: str = "") -> Text:
        return Text(printable(content, console.encoding), style=style)

    title = text(f"problem {problem.id}")
    console.print(Panel(text(problem.question), title=title, border_style="bold"))
    for index, turn in enumerate(turns):
        body = text(turn.reply)
        if turn.role == "solver":
            draft = text(turn.draft or "(nothing)", "dim")
            body = Text.assemble(("reads:\n", "bold"), draft, ("\nwrites:\n", "bold"), body)
        if outcomes:
            result = text(_result(outcomes[index]), _COLOURS[outcomes[index].verdict.correct])
            body = Text.assemble(body, "\n", result)
        border = "cyan" if turn.role == "drafter" else "magenta"
        console.print(Panel(body, title=text(_heading(turn)), border_style=border))
