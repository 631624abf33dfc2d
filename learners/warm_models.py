"""Task of chains, seed -> the two tiny models that training starts from: shipped, or made here.

The weights of modchain's seed 0 (1.8 MB) come with the package, made by

    python -m learners.warm_models modchain-hard 0

What they were taught is in `warmup_data.py`, how in `warmup.py`. A folder's name holds a hash of
the recipe, so weights of another recipe are never taken for these.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agon_env.tasks.chains import rules_of
from learners.warmup import WarmUp, pair_folders, warm_up_pair

SHIPPED = Path(__file__).parent / "weights"


def warm_models(
    task: str, seed: int, folder: str | Path, recipe: WarmUp | None = None
) -> tuple[str, str]:
    """Names of the Qwen 3 and the Gemma 3 model of a seed.

    Args:
        task: Any task of a family of chains ("modchain-hard"); the models are the family's.
        seed: Of weights, knowledge gaps and examples.
        folder: Where to make them when they are not shipped: about a minute on two cores.
        recipe: Of the warm-up; None for the default.
    """
    rules = rules_of(task)
    shipped = list(pair_folders(rules, SHIPPED, seed, recipe).values())
    ready = all(path.exists() for path in shipped)
    first, second = shipped if ready else warm_up_pair(rules, folder, seed, recipe)
    return str(first), str(second)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdecimal():
        sys.exit("usage: python -m learners.warm_models TASK SEED, such as modchain-hard 0")
    for made in warm_up_pair(rules_of(sys.argv[1]), SHIPPED, int(sys.argv[2])):
        print(f"wrote {made}")
