"""Batched view: many matches side by side, two steps each. What a trainer plays through.

Lists are indexed by match; None stands where an agent has nothing to do. All drafts go to the
verifier in step 1 and are judged while the solvers write; verdicts are awaited only at the end of
step 2.

    venv = agon_env.vector_env("arithmetic-easy", num_envs=64)
    observations, infos = venv.reset(seed=0)
    while not venv.over:
        replies = {agent: policies[agent](infos[agent]) for agent in venv.possible_agents}
        observations, rewards, terminations, truncations, infos = venv.step(replies)
    venv.episodes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, TypeAlias, Unpack

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agon_env.game import Game, LiveMatch, Settings
from agon_env.render import RENDER_MODES, RenderMode, check_render_mode, render_match
from agon_env.rules import check_reply
from agon_env.spaces import UnicodeText, action_space, observation_space
from agon_env.types import AGENTS, AgentID, Episode, Seating

Observations: TypeAlias = dict[AgentID, list[dict[str, str] | None]]
Infos: TypeAlias = dict[AgentID, list[dict[str, Any]]]


class vector_env:
    """`num_envs` matches at once. Steps are synchronous: all drafts, then all solutions."""

    metadata: ClassVar[dict[str, Any]] = {
        "name": "agon_v0",
        "render_modes": list(RENDER_MODES),
    }

    def __init__(
        self,
        task: str | PathLike[str] | None = None,
        num_envs: int = 64,
        *,
        seating: Seating = "alternate",
        render_mode: RenderMode | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the env.

        Args:
            task: A name of `agon_env.tasks()` or a file of problems.
            num_envs: Matches per batch, unless a reset pins a list of problems.
            seating: "alternate": agent_0 drafts in every second match, counted over batches;
                "fixed": in all of them; "both": both draft, then each solves.
            render_mode: "ansi": `render` returns text; "human": finished batches are printed.
            **settings: See `agon_env.game.Settings`.
        """
        if not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs must be a whole number of at least 1, got {num_envs!r}")
        self.render_mode = check_render_mode(render_mode)
        self.possible_agents = list(AGENTS)
        self.single_observation_space: spaces.Space[dict[str, str]] = observation_space()
        self.single_action_space: UnicodeText = action_space()
        self._num_envs = num_envs
        self._game = Game(task, seating=seating, **settings)
        self._live: list[LiveMatch] = []
        self._lenders: list[int] = []

    @property
    def num_envs(self) -> int:
        """Matches of the current batch; before the first reset, of the batch to come."""
        return len(self._live) or self._num_envs

    @property
    def over(self) -> bool:
        """True when every match of the batch is over, and before the first reset."""
        return all(live.match.over for live in self._live)

    @property
    def episodes(self) -> list[Episode]:
        """Records of the batch, by match; empty until it is over."""
        return [live.episode() for live in self._live] if self.over else []

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Start a batch.

        Args:
            seed: Starts the shuffle of problems and the alternation of seats anew.
            options: `problem_id`: one id for all matches, or a list, one per match, which sets the
                size of this batch and may repeat ids for groups (None takes the next of the
                shuffle). `seating`: a seating or the id of the agent that drafts, for all matches
                or as a list. `draft_of`: one index per match, of the match in this batch whose
                drafts its solvers read (default: its own). Other keys are ignored.

        Returns:
            Observations and infos, each agent -> one entry per match.
        """
        options = options or {}
        ids = options.get("problem_id")
        ids = [ids] * self._num_envs if ids is None or isinstance(ids, str) else list(ids)
        seatings = options.get("seating")
        if seatings is None or isinstance(seatings, str):
            seatings = [seatings] * len(ids)
        if not ids or len(seatings) != len(ids):
            raise ValueError(
                f"problem_id and seating must have one entry per match, "
                f"got {len(ids)} problems and {len(seatings)} seatings"
            )
        wanted = options.get("draft_of")
        lenders = list(range(len(ids)) if wanted is None else wanted)
        if len(lenders) != len(ids) or not all(0 <= i < len(ids) for i in lenders):
            raise ValueError(
                f"draft_of must hold one index from 0 to {len(ids) - 1} per match, got {lenders}"
            )
        if seed is not None:
            self._game.dealer.reseed(seed)
        dealt = [
            self._game.deal(problem_id=problem_id, seating=seat)
            for problem_id, seat in zip(ids, seatings, strict=True)
        ]
        for live, lender in zip(dealt, lenders, strict=True):
            if dealt[lender].match.drafters != live.match.drafters:
                raise ValueError("draft_of must name matches in which the same agents draft")
        self._live, self._lenders = dealt, lenders
        return self._observations(), self._infos()

    def step(
        self, actions: Mapping[AgentID, Sequence[str | None]]
    ) -> tuple[
        Observations,
        dict[AgentID, NDArray[np.float64]],
        NDArray[np.bool_],
        NDArray[np.bool_],
        Infos,
    ]:
        """Take one round of replies in every match.

        Args:
            actions: Agent -> one reply per match; entries of matches in which the agent does not
                act are ignored.

        Returns:
            Observations; rewards, agent -> (num_envs,), zero before the end and for unscored turns
            (`infos[...]["scored"]` tells them apart); terminations and truncations, (num_envs,);
            infos.

        Raises:
            ValueError: An acting agent's reply is missing, or a list has the wrong length.
            TypeError: A reply is no string. Then, too, nothing is played.
            RuntimeError: The batch is over or was never started.
        """
        if self.over:
            raise RuntimeError("no match is under way: call reset() to start a batch")
        moves = [self._moves(index, actions) for index in range(self.num_envs)]
        for live, replies in zip(self._live, moves, strict=True):
            for agent, reply in replies:
                live.play(agent, reply)
        if not self.over:
            self._lend()
        rewards = {agent: np.zeros(self.num_envs) for agent in AGENTS}
        for index, episode in enumerate(self.episodes):
            for agent, reward in episode.rewards().items():
                rewards[agent][index] = reward
        terminations = np.full(self.num_envs, self.over)
        truncations = np.zeros(self.num_envs, dtype=np.bool_)
        if self.over and self.render_mode == "human":
            self.render()
        return self._observations(), rewards, terminations, truncations, self._infos()

    def render(self) -> str | None:
        """The matches of the batch: returned as one text, printed, or nothing, by the mode."""
        if not self._live:
            raise RuntimeError("call reset() before anything else")
        texts = [render_match(live, self.render_mode) for live in self._live]
        return "\n\n\n".join(text for text in texts if text) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Nothing to release: the worker pool is shared and closes with the process."""

    def _moves(
        self, index: int, actions: Mapping[AgentID, Sequence[str | None]]
    ) -> list[tuple[AgentID, str]]:
        """The replies due in one match; all are checked before any is played."""
        moves: list[tuple[AgentID, str]] = []
        for agent, _ in self._live[index].match.actors():
            replies = actions.get(agent, ())
            if isinstance(replies, str) or len(replies) != self.num_envs:
                raise ValueError(
                    f"actions[{agent!r}] must be a list of {self.num_envs} replies, one per match, "
                    f"got {'one string' if isinstance(replies, str) else f'{len(replies)} replies'}"
                )
            reply = replies[index]
            if reply is None:
                raise ValueError(f"actions[{agent!r}][{index}] must be a reply, got None")
            check_reply(agent, reply)
            moves.append((agent, reply))
        return moves

    def _lend(self) -> None:
        """Between the rounds: give every match the drafts that it was to read."""
        for index, lender in enumerate(self._lenders):
            if lender != index:
                self._live[index].borrow(self._live[lender])

    def _observations(self) -> Observations:
        return {
            agent: [
                live.match.observe(agent) if agent in dict(live.match.actors()) else None
                for live in self._live
            ]
            for agent in AGENTS
        }

    def _infos(self) -> Infos:
        return {agent: [live.info(agent) for live in self._live] for agent in AGENTS}
