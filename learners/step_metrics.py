"""A rollout -> the metrics of one training step. Pure."""

from __future__ import annotations

from agon_env.types import ROLES
from learners.evaluate import reading_rates
from learners.rollout import Rollout


def rollout_metrics(rollout: Rollout) -> dict[str, float]:
    """Rates over all episodes of a step.

    `<role>/solve_rate` and `<role>/reward` over scored turns, `solver/conversion` P(right | draft
    wrong), `solver/corruption` P(wrong | draft right), and over all turns `well_formed`,
    `unfinished` (cut by the token limit), `cut` (by the env's character limit), `unscored`,
    `no_answer` and `tokens_per_reply`. A rate without a case is left out.
    """
    outcomes = [o for episode in rollout.episodes for o in episode.outcomes]
    turns = len(outcomes)
    metrics = {
        "well_formed": sum(o.well_formed for o in outcomes) / turns,
        "unscored": sum(o.verdict.correct is None for o in outcomes) / turns,
        "no_answer": sum(o.verdict.reason in ("no_answer", "truncated") for o in outcomes) / turns,
        "cut": sum(turn.cut for e in rollout.episodes for turn in e.turns) / turns,
        "unfinished": sum(not t.finished for t in rollout.trajectories) / turns,
        "tokens_per_reply": sum(len(t.completion_ids) for t in rollout.trajectories) / turns,
    }
    for role in ROLES:
        scored = [o for o in outcomes if o.role == role and o.verdict.correct is not None]
        metrics |= _mean(f"{role}/solve_rate", [float(o.verdict.correct or 0) for o in scored])
        rewards = [o.reward for o in scored if o.reward is not None]
        metrics |= _mean(f"{role}/reward", rewards)
    reading = reading_rates([o for o in outcomes if o.role == "solver"])
    for name, rate in zip(("conversion", "corruption"), reading, strict=True):
        if rate.n:
            metrics[f"solver/{name}"] = rate.value
    return metrics


def _mean(name: str, values: list[float]) -> dict[str, float]:
    return {name: sum(values) / len(values)} if values else {}
