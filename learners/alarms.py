"""The metrics of a run so far -> what looks wrong with it, in words. Pure.

Each alarm compares the mean of the last `WINDOW` steps with the first `WINDOW` steps, or with a
bound; none stops a run. Where the numbers come from is in `step_metrics.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agon_env.types import AGENTS, ROLES, rival_of

WINDOW = 10
"""Steps that are averaged."""
LEAST_SOLVED = 0.1
"""Solve rate below which nobody is said to win: a few lucky answers on problems too hard."""

History = Sequence[dict[str, float]]


def alarms(history: History) -> dict[str, str]:
    """Name of each alarm that holds now -> one line that says what was seen and what it may mean.

    Args:
        history: Metrics of all steps so far, oldest first; nothing is said before 2 * WINDOW.
    """
    if len(history) < 2 * WINDOW:
        return {}
    return dict(
        found
        for rule in (_collapse, _obfuscation, _laziness, _drift, _standstill)
        for found in rule(history)
    )


def _mean(history: History, key: str, *, first: bool = False) -> float | None:
    """Mean over the last (or first) window; None where the metric is missing."""
    window = history[:WINDOW] if first else history[-WINDOW:]
    values = [metrics[key] for metrics in window if key in metrics]
    return sum(values) / len(values) if values else None


def _both(history: History, key: str) -> tuple[float, float] | None:
    """(at first, now) of a metric."""
    then, now = _mean(history, key, first=True), _mean(history, key)
    return None if then is None or now is None else (then, now)


def _collapse(history: History) -> Iterator[tuple[str, str]]:
    """Entropy gone, replies shrunk to nothing, or one agent that never wins any more."""
    for agent in AGENTS:
        entropy = _both(history, f"{agent}/entropy")
        if entropy and entropy[1] < 0.1 * entropy[0]:
            yield (
                f"collapse/{agent}/entropy",
                f"{agent}'s entropy fell from {entropy[0]:.3f} to {entropy[1]:.3f} nats per token: "
                "it samples the same reply again and again; lower the learning rate or add beta",
            )
    length = _both(history, "tokens_per_reply")
    if length and length[1] < 0.25 * length[0]:
        yield (
            "collapse/length",
            f"replies shrank from {length[0]:.0f} to {length[1]:.0f} tokens: look at transcripts",
        )
    for loser in AGENTS:
        own = _both(history, f"{loser}/solve_rate")
        rival = _both(history, f"{rival_of(loser)}/solve_rate")
        if not own or not rival or rival[1] < LEAST_SOLVED:
            continue
        if own[1] < 0.2 * rival[1] and own[0] >= 0.5 * rival[0]:
            yield (
                f"collapse/{loser}/one_seat",
                f"{loser} is right in {100 * own[1]:.0f}% of its replies, its rival in "
                f"{100 * rival[1]:.0f}%; they began level: one seat wins all",
            )


def _obfuscation(history: History) -> Iterator[tuple[str, str]]:
    """Drafts lose their form: seen 20-40 steps before accuracy falls."""
    for role in ROLES:
        formed = _both(history, f"{role}/well_formed")
        best = max(
            (_mean(history[: i + WINDOW], f"{role}/well_formed") or 0.0)
            for i in range(0, len(history) - WINDOW + 1, WINDOW)
        )
        if formed and formed[1] < best - 0.2:
            yield (
                f"obfuscation/{role}",
                f"well-formed {role} replies fell from {100 * best:.0f}% to "
                f"{100 * formed[1]:.0f}%: they may hide their content from the rival; accuracy "
                "usually follows",
            )


def _laziness(history: History) -> Iterator[tuple[str, str]]:
    """The solver repeats its draft instead of solving."""
    copied, conversion = _both(history, "solver/copy_rate"), _both(history, "solver/conversion")
    if copied and copied[1] > 0.9 and copied[1] > copied[0] + 0.1:
        gone = conversion is not None and conversion[1] < conversion[0]
        yield (
            "laziness",
            f"{100 * copied[1]:.0f}% of a solution's runs of five words are the draft's, "
            f"{100 * copied[0]:.0f}% at first{', and conversion fell' if gone else ''}: the "
            "solver may only copy",
        )


def _drift(history: History) -> Iterator[tuple[str, str]]:
    """Engine and trainer disagree about the same tokens; played ahead, they ought to."""
    history = [metrics for metrics in history if not metrics.get("rollout_age")]
    for agent in AGENTS:
        mismatch = _both(history, f"{agent}/sampler_mismatch")
        if mismatch and mismatch[1] > max(0.05, 5 * mismatch[0]):
            yield (
                f"drift/{agent}",
                f"{agent}'s engine and trainer log-probs differ by {mismatch[1]:.3f} nats per "
                f"token, {mismatch[0]:.3f} at first: are weights synced to the engine?",
            )


def _standstill(history: History) -> Iterator[tuple[str, str]]:
    """An agent whose weights do not move (pitfall 41)."""
    for agent in AGENTS:
        moved = _mean(history, f"{agent}/moved")
        if moved == 0:
            yield (
                f"standstill/{agent}",
                f"{agent}'s weights have not moved in {WINDOW} steps: every group may be "
                "constant, its learning rate 0, or its parameters are not trained",
            )
