"""Training of a pair of language models on the game of `agon_env`.

from learners import Pair, PairConfig, PairTrainer
"""

from learners.cascade import Pair
from learners.config import PairConfig
from learners.pair import PairTrainer

__all__ = ["Pair", "PairConfig", "PairTrainer"]
