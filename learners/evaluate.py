"""Two players on held-out problems -> how often each is right alone and in both cascades.

One pass plays both seatings: the drafts are the models alone, the solutions the cascades. Held-out
problems are decoded exactly as in training unless told otherwise (pitfall 72). Numbers are counts
with their n; intervals come from `statistics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from agon_env.types import AGENTS, AgentID, Episode, Outcome, Problem, Role
from agon_env.vector import vector_env
from learners.rollout import Player, Rollout, play
from learners.schedule import Plan
from learners.seeds import stream_seed
from learners.statistics import Proportion

DIRECTIONS = ((AGENTS[0], AGENTS[1]), (AGENTS[1], AGENTS[0]))
"""(drafter, solver) of both cascades."""

CHUNK = 128
"""Matches played at once; fixed, so that the random streams of an evaluation are too."""


@dataclass(frozen=True)
class Stage:
    """All replies of one agent in one role."""

    correct: Proportion
    """Pass@1; unscored replies are not in n."""
    well_formed: Proportion
    """Replies in the form that the prompt asks for."""
    unfinished: Proportion
    """Replies cut by the length limit."""
    unscored: int
    """Replies without a verdict, our fault."""
    tokens: float
    """Mean sampled tokens of a reply."""
    prompt_tokens: float
    """Mean prompt tokens of a reply."""


@dataclass(frozen=True)
class Cascade:
    """One direction: the drafter's draft and the solver that read it."""

    drafter: AgentID
    solver: AgentID
    solution: Stage
    """The solver's replies: the cascade's answers."""
    conversion: Proportion
    """P(solution right | draft wrong)."""
    corruption: Proportion
    """P(solution wrong | draft right)."""
    tokens: float
    """Mean sampled tokens of both stages together."""
    prompt_tokens: float
    """Mean prompt tokens of both stages together."""


@dataclass(frozen=True)
class Evaluation:
    """Everything measured on one set of problems."""

    problems: int
    samples: int
    """Matches per problem and direction."""
    alone: Mapping[AgentID, Stage]
    """Each model from the plain prompt."""
    cascades: tuple[Cascade, Cascade]
    """agent_0 drafting, then agent_1 drafting."""

    @property
    def best_direction(self) -> Cascade:
        """The cascade with more right answers; a tie goes to agent_0 drafting."""
        return max(self.cascades, key=lambda c: c.solution.correct.k / max(c.solution.correct.n, 1))

    def cascade(self, drafter: AgentID) -> Cascade:
        """The direction in which this agent drafts."""
        return self.cascades[AGENTS.index(drafter)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        """Read what `to_dict` returned."""
        return cls(
            problems=data["problems"],
            samples=data["samples"],
            alone={agent: _stage_from(stage) for agent, stage in data["alone"].items()},
            cascades=tuple(_cascade_from(c) for c in data["cascades"]),  # pyright: ignore
        )


def evaluate(
    players: Mapping[AgentID, Player],
    env: vector_env,
    problems: Sequence[Problem],
    *,
    seed: int,
    samples: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Play every problem in both directions.

    Args:
        players: Who plays agent_0 and agent_1.
        env: A vector env that knows the problems.
        problems: Held-out problems.
        seed: Seeds the sampling.
        samples: Matches per problem and direction. Intervals treat all replies as independent, so
            with more than one sample they are too narrow.
        progress: Called with (matches done, matches in all).
    """
    rollout = play_held_out(players, env, problems, seed=seed, samples=samples, progress=progress)
    return summary(rollout, len(problems), samples)


def play_held_out(
    players: Mapping[AgentID, Player],
    env: vector_env,
    problems: Sequence[Problem],
    *,
    seed: int,
    samples: int = 1,
    seating: str = "both",
    solve: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Rollout:
    """Play every problem; for the arguments see `evaluate`.

    Args beyond those: `seating`, "both" directions or the agent that drafts; `solve`, False for
    drafts alone.
    """
    if not problems:
        raise ValueError("an evaluation needs at least one problem, got none")
    ids = [problem.id for problem in problems for _ in range(samples)]
    parts = []
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        stream = stream_seed(seed, "chunk", start)
        plan = replace(Plan.simple(chunk, seating), solve=solve)
        parts.append(play(env, players, plan, step=0, seed=stream))
        if progress is not None:
            progress(start + len(chunk), len(ids))
    return Rollout(
        episodes=tuple(e for part in parts for e in part.episodes),
        trajectories=tuple(t for part in parts for t in part.trajectories),
    )


def summary(rollout: Rollout, problems: int, samples: int) -> Evaluation:
    """The counts of a held-out rollout."""
    return Evaluation(
        problems=problems,
        samples=samples,
        alone={agent: stage_of(rollout, agent, "drafter") for agent in AGENTS},
        cascades=(_cascade(rollout, *DIRECTIONS[0]), _cascade(rollout, *DIRECTIONS[1])),
    )


def reading_rates(solutions: Sequence[Outcome]) -> tuple[Proportion, Proportion]:
    """What solvers make of their drafts; pairs with an unscored reply do not count.

    Returns:
        Conversion, P(right | draft wrong), and corruption, P(wrong | draft right).
    """
    scored = [o for o in solutions if None not in (o.verdict.correct, o.rival_verdict.correct)]
    wrong = [o for o in scored if not o.rival_verdict.correct]
    right = [o for o in scored if o.rival_verdict.correct]
    return (
        Proportion(sum(bool(o.verdict.correct) for o in wrong), len(wrong)),
        Proportion(sum(not o.verdict.correct for o in right), len(right)),
    )


def stage_of(rollout: Rollout, agent: AgentID, role: Role) -> Stage:
    """What one agent did in one role."""
    outcomes = [outcome_of(episode, agent, role) for episode in rollout.episodes]
    trajectories = rollout.of(agent, role)
    scored = [o for o in outcomes if o.verdict.correct is not None]
    count = len(trajectories)
    return Stage(
        correct=Proportion(sum(o.verdict.correct is True for o in scored), len(scored)),
        well_formed=Proportion(sum(o.well_formed for o in outcomes), len(outcomes)),
        unfinished=Proportion(sum(not t.finished for t in trajectories), count),
        unscored=len(outcomes) - len(scored),
        tokens=sum(len(t.completion_ids) for t in trajectories) / count,
        prompt_tokens=sum(len(t.prompt_ids) for t in trajectories) / count,
    )


def _cascade(rollout: Rollout, drafter: AgentID, solver: AgentID) -> Cascade:
    solutions = [outcome_of(episode, solver, "solver") for episode in rollout.episodes]
    conversion, corruption = reading_rates(solutions)
    draft, solution = stage_of(rollout, drafter, "drafter"), stage_of(rollout, solver, "solver")
    return Cascade(
        drafter=drafter,
        solver=solver,
        solution=solution,
        conversion=conversion,
        corruption=corruption,
        tokens=draft.tokens + solution.tokens,
        prompt_tokens=draft.prompt_tokens + solution.prompt_tokens,
    )


def outcome_of(episode: Episode, agent: AgentID, role: Role) -> Outcome:
    """The outcome of a role that the agent played."""
    found = episode.outcome(agent, role)
    assert found is not None, f"{agent} was no {role} in this episode"
    return found


def _stage_from(data: Mapping[str, Any]) -> Stage:
    shares = {k: Proportion(**data[k]) for k in ("correct", "well_formed", "unfinished")}
    return Stage(**{**data, **shares})


def _cascade_from(data: Mapping[str, Any]) -> Cascade:
    shares = {k: Proportion(**data[k]) for k in ("conversion", "corruption")}
    return Cascade(**{**data, **shares, "solution": _stage_from(data["solution"])})
