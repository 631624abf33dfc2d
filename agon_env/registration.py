"""Tasks -> entries in PettingZoo's and Gymnasium's registries, as `agon/<task>-v0`.

Importing `agon_env` enters every task and listens for new ones. The ids of those registries hold
a single slash, so further ones in a task's name become dashes; a name that still makes no id (a
file, say) is left out and can be used with the constructors.
"""

from __future__ import annotations

import re

import gymnasium
import pettingzoo
from pettingzoo import aec_registry, parallel_registry

from agon_env.tasks.registry import Task, on_register

_LEGAL = re.compile(r"[\w:.-]+")


def env_id(task_name: str) -> str:
    """Id of a task's envs: `env_id("deepmath-hard") == "agon/deepmath-hard-v0"`."""
    return f"agon/{task_name.replace('/', '-')}-v0"


def register_envs(task: Task) -> None:
    """Enter one task; entering it again changes nothing, because the entry only holds its name."""
    name = env_id(task.name)
    if not _LEGAL.fullmatch(name.removeprefix("agon/")):
        return
    kwargs = {"task": task.name}
    if name not in aec_registry:
        pettingzoo.register("aec", name, entry_point="agon_env.aec:env", kwargs=kwargs)
    if name not in parallel_registry:
        entry_point = "agon_env.parallel:parallel_env"
        pettingzoo.register("parallel", name, entry_point=entry_point, kwargs=kwargs)
    if name not in gymnasium.registry:
        entry_point = "agon_env.gym:single_agent_env"
        gymnasium.register(name, entry_point=entry_point, kwargs=kwargs)


on_register(register_envs)
