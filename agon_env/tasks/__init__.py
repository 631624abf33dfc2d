"""A name, a file or a hub id -> problems.

`load_problems` is the door; `register_task` adds a task. One file per source; importing this
package registers every built-in task and reads no data: pyarrow, sympy, datasets and the net are
touched when problems are loaded.
"""

from agon_env.tasks import (
    algebra,
    arithmetic,
    carry,
    chains,
    codesets,
    deepmath,
    hf_url,
    livecodebench,
    local,
    modchain,
    reasoning,
    transfer,
)
from agon_env.tasks.registry import (
    SPLITS,
    Loaded,
    Rejected,
    Task,
    families,
    find_task,
    load_problems,
    load_report,
    on_register,
    register_family,
    register_task,
    tasks,
)
from agon_env.tasks.sampler import ProblemSampler

__all__ = [
    "SPLITS",
    "Loaded",
    "ProblemSampler",
    "Rejected",
    "Task",
    "algebra",
    "arithmetic",
    "carry",
    "chains",
    "codesets",
    "deepmath",
    "families",
    "find_task",
    "hf_url",
    "livecodebench",
    "load_problems",
    "load_report",
    "local",
    "modchain",
    "on_register",
    "reasoning",
    "register_family",
    "register_task",
    "tasks",
    "transfer",
]
