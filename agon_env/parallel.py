"""PettingZoo Parallel view of a match: two rounds, drafts first, then solutions.

By default both agents draft in round 1 and each solves in round 2 on the *other's* draft, so the
second observation is new. With a single drafter both agents stay alive for both rounds; the one
that does not act has `infos[agent]["acts"] == False`, and whatever is passed as its action is
ignored.

    env = agon_env.parallel_env("arithmetic-easy")
    observations, infos = env.reset(seed=0)
    while env.agents:
        replies = {agent: reply_to(infos[agent]["messages"]) for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(replies)
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, TypeAlias, Unpack

from gymnasium import spaces
from pettingzoo import ParallelEnv

from agon_env.game import Game, LiveMatch, Settings
from agon_env.render import RENDER_MODES, RenderMode, check_render_mode, render_match
from agon_env.rules import check_reply
from agon_env.spaces import UnicodeText, action_space, observation_space
from agon_env.types import AGENTS, AgentID, Episode, Seating

Observations: TypeAlias = dict[AgentID, dict[str, str]]
Infos: TypeAlias = dict[AgentID, dict[str, Any]]


class parallel_env(ParallelEnv[AgentID, dict[str, str], str]):
    """The Parallel env: every agent is asked in each of two rounds."""

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "name": "agon_v0",
        "render_modes": list(RENDER_MODES),
    }

    def __init__(
        self,
        task: str | PathLike[str] | None = None,
        *,
        seating: Seating = "both",
        render_mode: RenderMode | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the env.

        Args:
            task: A name of `agon_env.tasks()` or a file of problems.
            seating: "both": both draft, then each solves; "alternate": agent_0 drafts in even
                episodes and the other solves; "fixed": agent_0 always drafts.
            render_mode: "ansi": `render` returns text; "human": finished matches are printed.
            **settings: See `agon_env.game.Settings`.
        """
        self.possible_agents = list(AGENTS)
        self.agents = []
        self.render_mode = check_render_mode(render_mode)
        self._game = Game(task, seating=seating, **settings)
        self._live: LiveMatch | None = None
        self._observation_spaces = {agent: observation_space() for agent in AGENTS}
        self._action_spaces = {agent: action_space() for agent in AGENTS}

    def observation_space(self, agent: AgentID) -> spaces.Space[dict[str, str]]:
        """Dict of texts: role, problem, draft."""
        return self._observation_spaces[agent]

    def action_space(self, agent: AgentID) -> UnicodeText:
        """The whole reply as one string."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Start an episode.

        Args:
            seed: Starts the shuffle of problems and the alternation of seats anew.
            options: `problem_id` pins the problem; `seating` overrides the seating of this episode
                and may be the id of the agent that drafts. Other keys are ignored.
        """
        self._live = self._game.reset(seed, options)
        self.agents = list(AGENTS)
        return self._observations(self._live), self._infos(self._live)

    def step(
        self, actions: Mapping[AgentID, str]
    ) -> tuple[Observations, dict[AgentID, float], dict[AgentID, bool], dict[AgentID, bool], Infos]:
        """Take one round of replies.

        Args:
            actions: A reply per acting agent. After the end there is nobody to act for, and the
                five returned mappings are empty.

        Raises:
            ValueError: An acting agent's reply is missing.
            TypeError: A reply is no string. Then, too, nothing is played.
        """
        live = self._started()
        if not self.agents:
            return {}, {}, {}, {}, {}
        seats = live.match.actors()
        missing = [agent for agent, _ in seats if agent not in actions]
        if missing:
            raise ValueError(
                f"actions must hold a reply for {missing}, got replies for {sorted(actions)}"
            )
        for agent, _ in seats:
            check_reply(agent, actions[agent])
        for agent, _ in seats:
            live.play(agent, actions[agent])
        over = live.match.over
        rewards = live.episode().rewards() if over else dict.fromkeys(AGENTS, 0.0)
        if over:
            self.agents = []
        if over and self.render_mode == "human":
            self.render()
        terminations, truncations = dict.fromkeys(AGENTS, over), dict.fromkeys(AGENTS, False)
        return self._observations(live), rewards, terminations, truncations, self._infos(live)

    @property
    def episode(self) -> Episode | None:
        """The record of the finished match; None before its end."""
        if self._live is None or not self._live.match.over:
            return None
        return self._live.episode()

    def render(self) -> str | None:
        """The match so far: returned as text, printed, or nothing, by the render mode."""
        return render_match(self._started(), self.render_mode)

    def close(self) -> None:
        """Nothing to release: the worker pool is shared and closes with the process."""

    def _started(self) -> LiveMatch:
        if self._live is None:
            raise RuntimeError("call reset() before anything else")
        return self._live

    @staticmethod
    def _observations(live: LiveMatch) -> Observations:
        return {agent: live.match.observe(agent) for agent in AGENTS}

    @staticmethod
    def _infos(live: LiveMatch) -> Infos:
        return {agent: live.info(agent) for agent in AGENTS}
