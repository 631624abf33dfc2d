"""Problems -> batches of problems, in an order that can be saved and continued.

The order is a function of (seed, epoch) alone, so the saved position is two small numbers and a
resumed run sees the very problems the uninterrupted one would have seen. A batch that reaches the
end of an epoch goes on in the next one: nothing is dropped and no batch is short.
Leaves out: grouping, epochs as an end, and anything of the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agon_env.types import Problem


def ids_digest(problems: Sequence[Problem]) -> str:
    """A digest of the ids in order: what a saved position is a position in."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(problem.id.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]


class ProblemSampler:
    """Endless seeded batches over a list of problems; its position is saved with `state_dict`.

    A batch larger than the list repeats problems, as it must; otherwise a batch repeats one only
    where it crosses the end of an epoch.
    """

    def __init__(self, problems: Sequence[Problem], batch_size: int, seed: int = 0) -> None:
        """Start at the beginning of epoch 0.

        Args:
            problems: At least one. Kept by reference; must not change afterwards.
            batch_size: Problems of one `next_batch`.
            seed: >= 0. Same seed and problems, same batches.
        """
        if not problems:
            raise ValueError("ProblemSampler needs at least one problem, got none")
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {batch_size}")
        if seed < 0:
            raise ValueError(f"seed must be >= 0, got {seed}")
        self.problems = problems
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.position = 0
        """Problems of this epoch that were handed out."""
        self._digest = ids_digest(problems)
        self._order = self._shuffled(0)

    def next_batch(self, size: int | None = None) -> list[Problem]:
        """The next `batch_size` problems, or the next `size`."""
        return [self._next() for _ in range(self.batch_size if size is None else size)]

    def state_dict(self) -> dict[str, Any]:
        """The position as plain values, for a checkpoint."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "problems": len(self.problems),
            "digest": self._digest,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            ValueError: The state belongs to other problems or is no position in them; going on
                would train on an order that nobody asked for (pitfall 66).
        """
        mine = self.state_dict()
        missing = [key for key in mine if key not in state]
        if missing:
            raise ValueError(f"a sampler state must have {list(mine)}, got none of {missing}")
        if (state["problems"], state["digest"]) != (mine["problems"], mine["digest"]):
            raise ValueError(
                f"the saved position is one in {state['problems']} problems (digest "
                f"{state['digest']}), the sampler has {mine['problems']} ({mine['digest']}); "
                "resume with the same task, split, limit and seed"
            )
        if not (state["epoch"] >= 0 and 0 <= state["position"] <= len(self.problems)):
            raise ValueError(f"no position in {len(self.problems)} problems: {dict(state)}")
        self.seed, self.epoch = int(state["seed"]), int(state["epoch"])
        self.position = int(state["position"])
        self._order = self._shuffled(self.epoch)

    def _next(self) -> Problem:
        if self.position == len(self.problems):
            self.epoch += 1
            self.position = 0
            self._order = self._shuffled(self.epoch)
        index = self._order[self.position]
        self.position += 1
        return self.problems[index]

    def _shuffled(self, epoch: int) -> np.ndarray:
        """(len(problems),) indices: the order of one epoch, from (seed, epoch) alone."""
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.problems))
