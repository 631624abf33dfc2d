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
    [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)], "\N{REPLACEMENT CHARACTER}"
)


def check_render_mode(mode: RenderMode | None) -> RenderMode | None:
    """The mode, if there is such a one."""
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(f"render_mode must be None or one of {list(RENDER_MODES)}, got {mode!r}")
    return mode


def render_match(live: LiveMatch, mode: RenderMode | None) -> str | None:
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


def printable(text: str) -> str:
    """The text with what a terminal would obey or refuse replaced by a replacement character."""
    return text.translate(_CONTROL).encode("utf-8", "replace").decode("utf-8")


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
    title = Text(f"problem {printable(problem.id)}")
    console.print(Panel(Text(printable(problem.question)), title=title, border_style="bold"))
    for index, turn in enumerate(turns):
        body = Text(printable(turn.reply))
        if turn.role == "solver":
            shown = printable(turn.draft or "(nothing)")
            body = Text.assemble(
                ("reads:\n", "bold"), (shown, "dim"), ("\nwrites:\n", "bold"), body
            )
        if outcomes:
            colour = _COLOURS[outcomes[index].verdict.correct]
            body = Text.assemble(body, "\n", (_result(outcomes[index]), colour))
        border = "cyan" if turn.role == "drafter" else "magenta"
        console.print(Panel(body, title=Text(_heading(turn)), border_style=border))
