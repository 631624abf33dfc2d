"""Plays benchmarks of scripted agents in this process, for the tests of the benchmark."""

from __future__ import annotations

import math
import re
from pathlib import Path

import bench_agents

from agon_env.judging import Judging
from agon_env.types import Problem, Verdict
from learners.agents.scripted import ScriptedAgent
from learners.benchmark import Settings, make_plan, play, results_of
from learners.benchmark.methods import CONTROLS

STORE = "generations.jsonl"


def judge(problem: Problem, text: str) -> Verdict:
    """Reads `<answer>N</answer>`; in this process, so that tests start no workers."""
    found = re.search(r"<answer>(\d+)</answer>", text)
    if found is None:
        return Verdict(False, "no_answer")
    right = found[1] == problem.answer
    return Verdict(right, "match" if right else "mismatch", found[1])


class Counted(ScriptedAgent):
    """A scripted agent that knows how often it was asked."""

    def __init__(self, function, fail_after: float = math.inf) -> None:
        super().__init__(function.__name__, self._call)
        self.function, self.calls, self.fail_after = function, 0, fail_after
        self._takes_seed = function.__code__.co_argcount > 1

    def _call(self, *arguments):
        if self.calls >= self.fail_after:
            raise ConnectionError("gone")
        self.calls += 1
        return self.function(*arguments)


def played_by(out: Path, *agents, file: str | None = None, **settings):
    """Play a benchmark in this process; returns (plan, played, prompts)."""
    out.mkdir(exist_ok=True)
    file = file or bench_agents.write_problems(out / "problems.jsonl", 16)
    settings = {"n": 12, "seeds": 2, "k": 3, **settings}
    names = tuple(agent.name for agent in agents)
    plan = make_plan(Settings(agents=names, task=file, **settings), names)
    return plan, *play(plan, agents, out, judging=Judging(judge))


def bench(out: Path, *agents, file: str | None = None, **settings):
    """Play a benchmark and count; returns (results, plan, played)."""
    plan, played, prompts = played_by(out, *agents, file=file, **settings)
    conditions = {"commit": "c", "machine": "m", "command": "x y", "created": "now"}
    return results_of(plan, played, prompts, conditions), plan, played


def play_known(out: Path):
    """alpha and beta with every control."""
    agents = Counted(bench_agents.alpha), Counted(bench_agents.beta)
    return bench(out, *agents, controls=CONTROLS)


def method(results, name: str):
    (found,) = [m for m in results["methods"] if m["name"] == name]
    return found


def right(results, name: str) -> float:
    return method(results, name)["accuracy"]["value"]
