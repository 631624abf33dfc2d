"""Problems without signal -> others in their place, within one training step.

Dynamic sampling as in DAPO (arXiv:2503.14476), for both streams of a pair.

A problem is dead when every one of its groups is constant: it was too easy or too hard for both
models in both roles, and no gradient would come of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from agon_env.types import Problem
from learners.rollout import Rollout


def dead_problems(rollout: Rollout) -> set[str]:
    """Ids of the problems of which no group has two different rewards."""
    rewards: defaultdict[tuple, set[float]] = defaultdict(set)
    for t in rollout.trajectories:
        if t.reward is not None:
            rewards[t.group].add(t.reward)
    alive = {group[1] for group, seen in rewards.items() if len(seen) > 1}
    return {episode.problem.id for episode in rollout.episodes} - alive


def without(rollout: Rollout, ids: set[str]) -> Rollout:
    """The rollout without some problems."""
    return Rollout(
        episodes=tuple(e for e in rollout.episodes if e.problem.id not in ids),
        trajectories=tuple(t for t in rollout.trajectories if t.group[1] not in ids),
    )


def refilled(
    rollout: Rollout,
    rounds: int,
    draw: Callable[[int], list[Problem]],
    play: Callable[[list[Problem], int], Rollout],
) -> tuple[Rollout, dict[str, float]]:
    """Replace dead problems, at most `rounds` times; those that are left stay in.

    Args:
        rollout: The step's first rollout.
        rounds: 0 changes nothing.
        draw: count -> the next problems of the sampler.
        play: Plays problems; the number of the round, from 1, keys its random stream.

    Returns:
        The rollout, and `dead_problems` (share of the problems first drawn), `refill_rounds` and
        `discarded_replies`. All other metrics of the step are over what is returned.
    """
    dead = dead_problems(rollout)
    problems = {episode.problem.id for episode in rollout.episodes}
    metrics = {"dead_problems": len(dead) / len(problems)}
    played = discarded = 0
    while dead and played < rounds:
        played += 1
        kept = without(rollout, dead)
        taken = {episode.problem.id for episode in kept.episodes} | dead
        fresh = [problem for problem in draw(len(dead)) if problem.id not in taken]
        if not fresh:
            continue
        found = play(fresh, played)
        spare = set(sorted(dead)[len(fresh) :])  # too few fresh ones: some dead problems stay
        stay = without(rollout, dead - spare)
        discarded += len(rollout.trajectories) - len(stay.trajectories)
        rollout = Rollout(stay.episodes + found.episodes, stay.trajectories + found.trajectories)
        dead = dead_problems(rollout)
    metrics |= {"refill_rounds": float(played), "discarded_replies": float(discarded)}
    return rollout, metrics
