"""The next step's rollout, sampled by servers while this step's update runs: one step off-policy.

The servers keep the weights of before the update, so what they sample is one update old; the
importance correction of the update makes up for it. Where the weights of the moment are needed, at
an evaluation or a checkpoint, nothing is played ahead: a resumed run plays what an undisturbed one
does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from agon_env.tasks.sampler import ProblemSampler
from learners.engines import VLLMServerEngine
from learners.rollout import Player
from learners.training_step import Played


class Ahead:
    """At most one rollout under way; used with `with`, none when an error ends the block."""

    def __init__(self, players: Iterable[Player], sampler: ProblemSampler) -> None:
        self._players, self._sampler = list(players), sampler
        self._future: Future[Played] | None = None
        self._before: dict[str, Any] = {}

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.cancel()

    def start(self, play: Callable[[], Played]) -> None:
        """Play in a thread, from the players' weights of now whatever becomes of them.

        Args:
            play: What to do; it must not read weights but through the players' engines.
        """
        for player in self._players:
            player.sync()
        self._keep(True)
        self._before = self._sampler.state_dict()
        self._future = future = Future()

        def run() -> None:
            try:
                future.set_result(play())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()

    def cancel(self) -> None:
        """Ask the servers for nothing more: the run ends. What they are at is waited for."""
        if self._future is not None:
            for engine in self._engines():
                engine.cancel()

    def settle(self) -> None:
        """Wait for what is under way; then engines follow the weights again. No error is raised."""
        if self._future is not None:
            self._future.exception()
        self._keep(False)

    def take(self) -> Played | None:
        """The rollout that was started last, once it is there; None where none was started.

        Raises:
            ConnectionError: A server does not answer; and whatever else playing raises.
        """
        self.settle()
        future, self._future = self._future, None
        return None if future is None else future.result()

    def sampler_state(self) -> dict[str, Any]:
        """Where the sampler stood before a rollout that was not taken: its problems come again."""
        return self._sampler.state_dict() if self._future is None else self._before

    def _keep(self, kept: bool) -> None:
        for engine in self._engines():
            engine.kept = kept

    def _engines(self) -> list[VLLMServerEngine]:
        engines = (player.engine for player in self._players)
        return [engine for engine in engines if isinstance(engine, VLLMServerEngine)]
