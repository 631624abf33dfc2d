"""Training of a pair of language models on the game of `agon_env`.

from learners import Pair, PairConfig, PairTrainer

The names load torch when they are asked for: parts without a model (statistics, agents behind a
server, the benchmark) start without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from learners.cascade import Pair
    from learners.config import PairConfig
    from learners.pair import PairTrainer

__all__ = ["Pair", "PairConfig", "PairTrainer"]

_HOMES = {"Pair": "cascade", "PairConfig": "config", "PairTrainer": "pair"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'learners' has no attribute {name!r}")
    return getattr(importlib.import_module(f"learners.{_HOMES[name]}"), name)
