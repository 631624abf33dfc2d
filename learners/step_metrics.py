"""A rollout -> the metrics of one training step. Pure."""

from __future__ import annotations

from agon_env.types import ROLES, Outcome
from learners.rollout import Rollout


def rollout_metrics(rollout: Rollout) -> dict[str, float]:
    """Rates over all episodes of a step.

    `<role>/solve_rate` and `<role>/reward` over scored turns, `solver/conversion` P(right | draft
    wrong), `solver/corruption` P(wrong | draft right), and over all turns `well_formed`,
    `unfinished` (cut by the length limit), `unscored`, `no_answer` and `tokens_per_reply`. A rate
    without a case is left out.
    """
    outcomes = [o for episode in rollout.episodes for o in episode.outcomes]
    turns = len(outcomes)
    metrics = {
        "well_formed": sum(o.well_formed for o in outcomes) / turns,
        "unscored": sum(o.verdict.correct is None for o in outcomes) / turns,
        "no_answer": sum(o.verdict.reason in ("no_answer", "truncated") for o in outcomes) / turns,
        "unfinished": sum(not t.finished for t in rollout.trajectories) / turns,
        "tokens_per_reply": sum(len(t.completion_ids) for t in rollout.trajectories) / turns,
    }
    for role in ROLES:
        scored = [o for o in outcomes if o.role == role and o.verdict.correct is not None]
        metrics |= _mean(f"{role}/solve_rate", [float(o.verdict.correct or 0) for o in scored])
        rewards = [o.reward for o in scored if o.reward is not None]
        metrics |= _mean(f"{role}/reward", rewards)
    solved = [o for o in outcomes if o.role == "solver" and _both_scored(o)]
    missed = [o for o in solved if not o.rival_verdict.correct]
    hit = [o for o in solved if o.rival_verdict.correct]
    metrics |= _mean("solver/conversion", [float(bool(o.verdict.correct)) for o in missed])
    metrics |= _mean("solver/corruption", [float(not o.verdict.correct) for o in hit])
    return metrics


def _both_scored(outcome: Outcome) -> bool:
    return None not in (outcome.verdict.correct, outcome.rival_verdict.correct)


def _mean(name: str, values: list[float]) -> dict[str, float]:
    return {name: sum(values) / len(values)} if values else {}
