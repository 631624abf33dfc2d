"""Agon: two language models attempt the same problem; one drafts, the other reads it and solves.

    import agon_env

    env = agon_env.parallel_env("arithmetic-easy")

The game needs no torch: whatever writes text can play. Training is in `learners`.
Importing this package registers every task with PettingZoo and Gymnasium as `agon/<task>-v0`.
"""

from agon_env import registration as registration
from agon_env.aec import env, raw_env
from agon_env.gym import single_agent_env
from agon_env.parallel import parallel_env
from agon_env.prompts import CODE_TEMPLATE, MATH_TEMPLATE, Reply, Template
from agon_env.records import EpisodeWriter, episode_from_json, episode_to_json, read_episodes
from agon_env.render import episode_text
from agon_env.rewards import Play, RewardScheme
from agon_env.tasks import load_problems, register_task, tasks
from agon_env.types import AGENTS, CodeTests, Episode, Outcome, Problem, Turn, Verdict
from agon_env.vector import vector_env
from agon_env.verifiers import VerifierPool, verify

__all__ = [
    "AGENTS",
    "CODE_TEMPLATE",
    "MATH_TEMPLATE",
    "CodeTests",
    "Episode",
    "EpisodeWriter",
    "Outcome",
    "Play",
    "Problem",
    "Reply",
    "RewardScheme",
    "Template",
    "Turn",
    "Verdict",
    "VerifierPool",
    "env",
    "episode_from_json",
    "episode_text",
    "episode_to_json",
    "load_problems",
    "parallel_env",
    "raw_env",
    "read_episodes",
    "register_task",
    "single_agent_env",
    "tasks",
    "vector_env",
    "verify",
]
