"""A batch of problems and two policies -> finished episodes and the trajectories behind them.

Played through the same vector env that anyone can use, so training sees exactly the prompts and
rewards of the game. Text crosses between the policies; token ids never do (pitfall 42).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agon_env.types import AGENTS, ROLES, AgentID, Episode, Outcome, Role
from agon_env.vector import vector_env
from learners import processes, sharding
from learners.concurrency import are_independent, run_jobs
from learners.engines import Completion, Engine, Sampling, VLLMEngine, VLLMServerEngine
from learners.policy import Policy, Prompt
from learners.schedule import Plan
from learners.seeds import stream_seed
from learners.trajectory import Trajectory


@dataclass(frozen=True)
class Player:
    """Who plays a seat: a policy, the engine that samples from it, and how."""

    policy: Policy
    engine: Engine
    sampling: Sampling

    def sync(self) -> None:
        """Bring a server up to the policy's weights; all processes call it together."""
        if isinstance(self.engine, VLLMServerEngine):
            self.engine.sync(self.policy)

    def reply(
        self, messages: Sequence[Sequence[Mapping[str, str]]], seed: int, first: int = 0
    ) -> list[tuple[Prompt, Completion, str]]:
        """One reply per chat: its prompt, the sampled ids and the text.

        Args:
            messages: The chats.
            seed: Of a batch of chats, of which these may be a part.
            first: Number of the first of these in that batch.
        """
        prompts = [self.policy.encode(chat) for chat in messages]
        completions = self.engine.generate(
            self.policy, [prompt.ids for prompt in prompts], self.sampling, seed, first
        )
        return [
            (prompt, completion, self.policy.decode(completion.ids, prompt))
            for prompt, completion in zip(prompts, completions, strict=True)
        ]


@dataclass(frozen=True)
class Rollout:
    """Finished episodes and what each agent sampled in them."""

    episodes: tuple[Episode, ...]
    trajectories: tuple[Trajectory, ...]
    """One per sampled turn, in the order of `episodes` and of their turns."""

    @property
    def outcomes(self) -> list[Outcome]:
        """One per trajectory: those of the turns that were sampled, not passed."""
        roles = {t.role for t in self.trajectories}
        return [o for e in self.episodes for o in e.outcomes if o.role in roles]

    def of(self, agent: AgentID, role: Role | None = None) -> list[Trajectory]:
        """The trajectories of one agent, in one role or in both."""
        return [t for t in self.trajectories if t.agent == agent and role in (None, t.role)]


def play(
    env: vector_env, players: Mapping[AgentID, Player], plan: Plan, *, step: int, seed: int
) -> Rollout:
    """Play the matches of a plan and collect everything sampled.

    Several processes play a part of the problems each, and all get the whole.

    Args:
        env: Batched env that knows the problems.
        players: Who plays agent_0 and agent_1.
        plan: The matches; a problem that is repeated makes a group.
        step: Training step, part of the group keys.
        seed: Seeds the sampling of this rollout; each (round, agent) has its own stream.
    """
    for player in players.values():
        player.sync()
    groups = plan.groups()
    mine = [i for group in groups[slice(*processes.bounds(len(groups)))] for i in group]
    with sharding.gathered(*(player.policy.model for player in players.values())):
        parts = processes.together(
            lambda: _play_part(env, players, plan, mine, seed) if mine else ((), {})
        )
    return Rollout(
        episodes=tuple(e for episodes, _ in parts for e in episodes),
        trajectories=tuple(t for part in parts for t in _trajectories(*part, step)),
    )


Sampled = dict[tuple[int, AgentID, Role], tuple[Prompt, Completion]]
"""(match, agent, role) -> what was asked and sampled."""


def _play_part(
    env: vector_env, players: Mapping[AgentID, Player], whole: Plan, mine: list[int], seed: int
) -> tuple[Sequence[Episode], Sampled]:
    """Play some consecutive matches of a plan."""
    plan = whole.between(mine[0], mine[-1] + 1)
    _, infos = env.reset(
        options={
            "problem_id": plan.problem_ids,
            "seating": plan.seatings,
            "draft_of": plan.draft_of,
        }
    )
    sampled: Sampled = {}
    apart = are_independent(*(players[agent].policy for agent in AGENTS)) and not any(
        isinstance(players[agent].engine, VLLMEngine) for agent in AGENTS
    )  # vLLM's engines are driven by one thread
    for number, role in enumerate(ROLES):  # drafts, then solutions
        rows_of = {a: plan.acts(a, role) for a in AGENTS}
        acting = [agent for agent in AGENTS if rows_of[agent]]
        if number == 1 and not plan.solve:
            passed = {a: [""] * len(plan.problem_ids) for a in AGENTS}
            env.step(passed)
            break
        jobs = [
            partial(
                players[agent].reply,
                [infos[agent][i]["messages"] for i in rows_of[agent]],
                stream_seed(seed, number, AGENTS.index(agent)),
                bisect_left(whole.acts(agent, role), mine[0]),
            )
            for agent in acting
        ]
        actions: dict[AgentID, list[str | None]] = {
            a: [None] * len(plan.problem_ids) for a in AGENTS
        }
        for agent, replies in zip(acting, run_jobs(jobs, side_by_side=apart), strict=True):
            for i, (prompt, completion, text) in zip(rows_of[agent], replies, strict=True):
                actions[agent][i] = text
                sampled[i, agent, role] = (prompt, completion)
        _, _, _, _, infos = env.step(actions)
    return env.episodes, sampled


def _trajectories(episodes: Sequence[Episode], sampled: Sampled, step: int) -> list[Trajectory]:
    result = []
    for i, episode in enumerate(episodes):
        for turn, outcome in zip(episode.turns, episode.outcomes, strict=True):
            if (i, turn.agent, turn.role) not in sampled:
                continue  # a solver that passed
            prompt, completion = sampled[i, turn.agent, turn.role]
            result.append(
                Trajectory(
                    agent=turn.agent,
                    role=turn.role,
                    group=(step, episode.problem.id, turn.agent, turn.role),
                    prompt_ids=prompt.ids,
                    completion_ids=completion.ids,
                    logprobs=completion.logprobs,
                    finished=completion.finished,
                    reward=outcome.reward,
                )
            )
    return result
