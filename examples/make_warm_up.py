"""Make the two tiny models that `train_pair.py tiny` starts from: about a minute on two cores.

    python examples/make_warm_up.py [SEED]

What they are taught is in `learners/warmup_data.py`, how in `learners/warmup.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from learners.warmup import warm_up_pair

if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for folder in warm_up_pair(Path(__file__).parent / "warm_up", seed):
        print(f"wrote {folder}")
