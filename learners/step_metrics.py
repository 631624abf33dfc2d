"""A rollout -> the metrics of one training step. Pure."""

from __future__ import annotations

import math

from agon_env.types import AGENTS, ROLES
from learners.evaluate import reading_rates
from learners.rollout import Rollout
from learners.text_overlap import text_overlap


def rollout_metrics(rollout: Rollout) -> dict[str, float]:
    """Rates over the sampled turns of a step.

    `<role>/solve_rate`, `<role>/reward` and `<agent>/solve_rate` over scored turns,
    `solver/conversion` P(right | draft wrong), `solver/corruption` P(wrong | draft right),
    `solver/copy_rate` (share of a solution's runs of five words that stand in its draft), and
    over all turns `replies` (their number), `well_formed`, `<role>/well_formed`, `unfinished` (cut
    by the token limit), `cut` (by the env's character limit), `unscored`, `no_answer` and
    `tokens_per_reply`. A rate without a case is left out.
    """
    outcomes = rollout.outcomes
    turns = len(outcomes)
    metrics = {
        "replies": float(turns),
        "well_formed": sum(o.well_formed for o in outcomes) / turns,
        "unscored": sum(o.verdict.correct is None for o in outcomes) / turns,
        "no_answer": sum(o.verdict.reason in ("no_answer", "truncated") for o in outcomes) / turns,
        "cut": sum(turn.cut for e in rollout.episodes for turn in e.turns) / turns,
        "unfinished": sum(not t.finished for t in rollout.trajectories) / turns,
        "tokens_per_reply": sum(len(t.completion_ids) for t in rollout.trajectories) / turns,
    }
    for role in ROLES:
        played = [o for o in outcomes if o.role == role]
        scored = [o for o in played if o.verdict.correct is not None]
        metrics |= _mean(f"{role}/well_formed", [float(o.well_formed) for o in played])
        metrics |= _mean(f"{role}/solve_rate", [float(o.verdict.correct or 0) for o in scored])
        rewards = [o.reward for o in scored if o.reward is not None]
        metrics |= _mean(f"{role}/reward", rewards)
    for agent in AGENTS:
        scored = [o for o in outcomes if o.agent == agent and o.verdict.correct is not None]
        metrics |= _mean(f"{agent}/solve_rate", [float(o.verdict.correct or 0) for o in scored])
    reading = reading_rates([o for o in outcomes if o.role == "solver"])
    for name, rate in zip(("conversion", "corruption"), reading, strict=True):
        if rate.n:
            metrics[f"solver/{name}"] = rate.value
    solutions = [t for e in rollout.episodes for t in e.turns if t.role == "solver" and t.draft]
    copied = [text_overlap(turn.draft, turn.reply) for turn in solutions]
    return metrics | _mean("solver/copy_rate", [rate for rate in copied if not math.isnan(rate)])


def _mean(name: str, values: list[float]) -> dict[str, float]:
    return {name: sum(values) / len(values)} if values else {}
