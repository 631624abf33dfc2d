"""Gymnasium view of a match: one learner against a fixed rival.

The learner is agent_0, the rival agent_1: a function from prompt to reply. Where the learner
drafts, its reply ends the episode after the rival's solution; where it solves, the rival has
drafted in `reset`.

    env = gymnasium.make("agon/arithmetic-easy-v0", rival=lambda prompt: "I do not know.")
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, ClassVar, Unpack

import gymnasium

from agon_env.game import Game, LiveMatch, Settings
from agon_env.render import RENDER_MODES, RenderMode, check_render_mode, render_match
from agon_env.spaces import action_space, observation_space
from agon_env.types import AGENTS, Episode, Seating

LEARNER, RIVAL = AGENTS


class single_agent_env(gymnasium.Env[dict[str, str], str]):
    """One learner against a fixed rival; one step per episode, two with seating "both"."""

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "name": "agon_v0",
        "render_modes": list(RENDER_MODES),
        "render_fps": 1,
    }

    def __init__(
        self,
        task: str | PathLike[str] | None = None,
        rival: Callable[[str], str] | None = None,
        *,
        seating: Seating = "alternate",
        render_mode: RenderMode | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the env.

        Args:
            task: A name of `agon_env.tasks()` or a file of problems.
            rival: Text -> text: answers the content of the last user message of its prompt. Same
                prompt, same reply, if episodes are to be reproducible.
            seating: "alternate": the learner drafts in even episodes; "fixed": always; "both":
                both draft, then each solves.
            render_mode: "ansi": `render` returns text; "human": finished matches are printed.
            **settings: See `agon_env.game.Settings`.
        """
        if not callable(rival):
            raise ValueError(
                "the single-agent env needs rival=, a function from prompt text to reply text, "
                f"got {rival!r}"
            )
        self.observation_space = observation_space()
        self.action_space = action_space()
        self.render_mode = check_render_mode(render_mode)
        self._rival = rival
        self._game = Game(task, seating=seating, **settings)
        self._live: LiveMatch | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Start an episode, `seed` and `options` as for the other envs; the rival may draft now."""
        super().reset(seed=seed)
        self._live = self._game.reset(seed, options)
        return self._after_the_rival(self._live)

    def step(self, action: str) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        """Take the learner's reply and let the rival answer what is its to answer."""
        live = self._started()
        live.play(LEARNER, action)
        observation, info = self._after_the_rival(live)
        reward = live.episode().rewards()[LEARNER] if live.match.over else 0.0
        return observation, reward, live.match.over, False, info

    @property
    def episode(self) -> Episode | None:
        """The record of the finished match; None before its end."""
        if self._live is None or not self._live.match.over:
            return None
        return self._live.episode()

    def render(self) -> str | None:  # type: ignore[override]
        """The match so far: returned as text, printed, or nothing, by the render mode."""
        return render_match(self._started(), self.render_mode)

    def _after_the_rival(self, live: LiveMatch) -> tuple[dict[str, str], dict[str, Any]]:
        """Play the rival's seats until it is the learner's turn or the match is over."""
        while (seats := dict(live.match.actors())) and LEARNER not in seats:
            messages = live.info(RIVAL)["messages"]
            prompt = [message["content"] for message in messages if message["role"] == "user"][-1]
            live.play(RIVAL, self._rival(prompt))
        if live.match.over and self.render_mode == "human":
            self.render()
        return live.match.observe(LEARNER), live.info(LEARNER)

    def _started(self) -> LiveMatch:
        if self._live is None:
            raise RuntimeError("call reset() before anything else")
        return self._live
