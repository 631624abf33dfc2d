"""PettingZoo AEC view of a match: one agent replies at a time, drafts first.

With one drafter an episode is two turns; with both drafting it is four. Rewards are paid when the
last reply is in, because then both verdicts are known; the verifier works while the other agent
writes.

    env = agon_env.env("arithmetic-easy")
    env.reset(seed=0)
    for agent in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        env.step(None if termination else reply_to(info["messages"]))
"""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar, Unpack

from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from agon_env.game import Game, LiveMatch, Settings
from agon_env.render import RENDER_MODES, RenderMode, check_render_mode, render_match
from agon_env.spaces import UnicodeText, action_space, observation_space
from agon_env.types import AGENTS, AgentID, Episode, Seating


class raw_env(AECEnv[AgentID, dict[str, str], str | None]):
    """The AEC env without wrappers; `env` adds the check of the calling order."""

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "name": "agon_v0",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": False,
    }

    def __init__(
        self,
        task: str | PathLike[str] | None = None,
        *,
        seating: Seating = "alternate",
        render_mode: RenderMode | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the env.

        Args:
            task: A name of `agon_env.tasks()` or a file of problems.
            seating: "alternate": agent_0 drafts in even episodes; "fixed": always; "both": both
                draft, then each solves.
            render_mode: "ansi": `render` returns text; "human": finished matches are printed.
            **settings: See `agon_env.game.Settings`.
        """
        super().__init__()
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

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode.

        Args:
            seed: Starts the shuffle of problems and the alternation of seats anew.
            options: `problem_id` pins the problem; `seating` overrides the seating of this episode
                and may be the id of the agent that drafts. Other keys are ignored.
        """
        self._live = self._game.reset(seed, options)
        self.agents = list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos = {agent: self._live.info(agent) for agent in AGENTS}
        self.agent_selection = self._live.match.actors()[0][0]
        self._skip_agent_selection = None

    def observe(self, agent: AgentID) -> dict[str, str]:
        """What the agent sees now: its role, the question, and as a solver the shown draft."""
        return self._started().match.observe(agent)

    def step(self, action: str | None) -> None:
        """Take the reply of `agent_selection`, or None from an agent whose match is over."""
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        live = self._started()
        live.play(agent, action)  # type: ignore[arg-type]  # the rules refuse None
        # The order matters: what the actor has been paid is consumed before new rewards are set.
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if live.match.over:
            self.rewards.update(live.episode().rewards())
            self.terminations = dict.fromkeys(AGENTS, True)
            self.agent_selection = AGENTS[0]
        else:
            self.agent_selection = live.match.actors()[0][0]
        self._accumulate_rewards()
        self.infos = {agent: live.info(agent) for agent in AGENTS}
        if live.match.over and self.render_mode == "human":
            self.render()

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


def env(
    task: str | PathLike[str] | None = None,
    *,
    seating: Seating = "alternate",
    render_mode: RenderMode | None = None,
    **settings: Unpack[Settings],
) -> OrderEnforcingWrapper[AgentID, dict[str, str], str | None]:
    """The AEC env with PettingZoo's check of the calling order; arguments as for `raw_env`.

    PettingZoo's bounds check is left out: a reply that is too long is cut and flagged, not refused.
    """
    return OrderEnforcingWrapper(
        raw_env(task, seating=seating, render_mode=render_mode, **settings)
    )
