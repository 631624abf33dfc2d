"""A seed -> the two tiny models that training starts from: shipped, or made on this machine.

The weights of seed 0 (1.8 MB) come with the package, made by

    python -m learners.warm_models [SEED]

What they were taught is in `warmup_data.py`, how in `warmup.py`. A folder's name holds a hash of
the recipe, so weights of another recipe are never taken for these.
"""

from __future__ import annotations

import sys
from pathlib import Path

from learners.warmup import pair_folders, warm_up_pair

SHIPPED = Path(__file__).parent / "weights"


def warm_models(seed: int, folder: str | Path) -> tuple[str, str]:
    """Names of the Qwen 3 and the Gemma 3 model of a seed.

    Args:
        seed: Of weights, knowledge gaps and examples.
        folder: Where to make them when they are not shipped: about a minute on two cores.
    """
    shipped = list(pair_folders(SHIPPED, seed).values())
    ready = all(path.exists() for path in shipped)
    first, second = shipped if ready else warm_up_pair(folder, seed)
    return str(first), str(second)


if __name__ == "__main__":
    for made in warm_up_pair(SHIPPED, int(sys.argv[1]) if len(sys.argv) > 1 else 0):
        print(f"wrote {made}")
