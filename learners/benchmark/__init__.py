"""Any two agents on any task -> solo, cascades, controls, and what the differences are worth.

    plan = make_plan(settings, names)     what is asked, before anything is generated
    play(plan, agents, out)               replies, each stored as it comes, with verdicts
    results_of(plan, played, prompts, conditions())    numbers with intervals

`benchmarks/pairs.py` is the command line; `docs/benchmark.md` says what the numbers mean.
"""

from learners.benchmark.benchmark import Examples, Plan, Settings, estimate, make_plan, play
from learners.benchmark.compare import Compared, compare
from learners.benchmark.results import results_of

__all__ = [
    "Compared",
    "Examples",
    "Plan",
    "Settings",
    "compare",
    "estimate",
    "make_plan",
    "play",
    "results_of",
]
