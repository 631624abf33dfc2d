"""The ways to answer a problem that a benchmark compares, as jobs and how they give an answer.

Single agents, the cascades in every direction, draft influence and the controls are all `Method`s:
a function from (problem, seed) to the generations that it costs, and a rule for the final answer.
So accuracy, tokens and seconds of every method are counted by the same code (`grids.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from learners.benchmark import jobs
from learners.benchmark.jobs import Job

Kind = Literal["solo", "cascade", "influence", "control"]
Rule = Literal["last", "majority", "any", "judged"]
"""last: the last job's reply. majority: the answer most jobs give. any: right if one of them is.
judged: jobs are candidate, judgement, candidate, ...; the first candidate judged right, else the
first."""

CONTROLS = (
    "self_refine",
    "self_cascade",
    "self_consistency",
    "best_of_k",
    "best_of_k_judged",
    "moa",
    "self_moa",
    "self_draft",
)


@dataclass(frozen=True)
class Method:
    """One way to answer problems."""

    name: str
    kind: Kind
    jobs: Callable[[str, int], tuple[Job, ...]]
    """(problem id, seed) -> the generations it costs, the answering one last."""
    rule: Rule = "last"
    uses_gold: bool = False
    """True: chooses by the right answer, so it is a bound and no method."""
    agents: tuple[str, ...] = ()
    """Labels of the agents in it, in the order in which they act."""


def all_methods(
    agents: Mapping[str, str], *, k: int, controls: Sequence[str], elsewhere: Mapping[str, str]
) -> list[Method]:
    """The methods that are compared on the test problems.

    Args:
        agents: Label -> name of each agent.
        k: Samples of the controls that need several.
        controls: Which of `CONTROLS`.
        elsewhere: Problem -> the problem whose draft is shown in its place; empty: none is.
    """
    singles = [_single(label, name) for label, name in agents.items()]
    cascades = [cascade(agents, d, s) for d in agents for s in agents if d != s]
    influence = [_unread(label, name) for label, name in agents.items()]
    if elsewhere:
        influence += [_other(agents, d, s, elsewhere) for d in agents for s in agents if d != s]
    wanted = [c for c in CONTROLS if c in controls]
    own = [
        _control(c, label, name, k) for label, name in agents.items() for c in wanted if c != "moa"
    ]
    mixed = [_moa(agents, p, a, k) for p in agents for a in agents if p != a and "moa" in wanted]
    return singles + cascades + influence + own + mixed


def cascade(agents: Mapping[str, str], drafter: str, solver: str) -> Method:
    """The drafter's draft, then the solver that reads it."""
    return Method(
        cascade_name(drafter, solver),
        "cascade",
        partial(_cascade_jobs, agents[drafter], agents[solver]),
        agents=(drafter, solver),
    )


def solo_name(label: str) -> str:
    """Name of an agent alone."""
    return f"solo {label}"


def cascade_name(drafter: str, solver: str) -> str:
    """Name of a direction."""
    return f"cascade {drafter}>{solver}"


def unread_name(solver: str) -> str:
    """Name of a solver that is shown nothing of a draft."""
    return f"{solver} shown no draft"


def other_name(drafter: str, solver: str) -> str:
    """Name of a solver that is shown a draft of another problem."""
    return f"{solver} shown {drafter}'s draft of another problem"


def _single(label: str, name: str) -> Method:
    return Method(solo_name(label), "solo", partial(_samples_jobs, name, 1), agents=(label,))


def _unread(label: str, name: str) -> Method:
    return Method(unread_name(label), "influence", partial(_unread_jobs, name), agents=(label,))


def _other(agents: Mapping[str, str], drafter: str, solver: str, to: Mapping[str, str]) -> Method:
    return Method(
        other_name(drafter, solver),
        "influence",
        partial(_other_jobs, agents[drafter], agents[solver], to),
        agents=(drafter, solver),
    )


def _control(control: str, label: str, name: str, k: int) -> Method:
    title = control.replace("_k", f"_{k}").replace("_", " ")
    if control in ("self_consistency", "self_moa", "self_draft"):
        title = f"{title} of {k}"
    maker, rule, gold = _CONTROLS[control]
    made = partial(maker, name, k)
    return Method(f"{title} {label}", "control", made, rule, gold, agents=(label,))


def _moa(agents: Mapping[str, str], proposer: str, aggregator: str, k: int) -> Method:
    names = (agents[aggregator], agents[proposer])
    return Method(
        f"moa of {k} {proposer}+{aggregator}, {aggregator} aggregates",
        "control",
        partial(_moa_jobs, names, k),
        agents=(proposer, aggregator),
    )


def _samples_jobs(name: str, k: int, problem: str, seed: int) -> tuple[Job, ...]:
    return jobs.samples(name, problem, seed, k)


def _cascade_jobs(drafter: str, solver: str, problem: str, seed: int) -> tuple[Job, ...]:
    return (jobs.solo(drafter, problem, seed), jobs.solve(drafter, solver, problem, seed))


def _self_cascade_jobs(name: str, k: int, problem: str, seed: int) -> tuple[Job, ...]:
    return _cascade_jobs(name, name, problem, seed)


def _unread_jobs(name: str, problem: str, seed: int) -> tuple[Job, ...]:
    return (Job(name, problem, "unread", seed),)


def _other_jobs(
    drafter: str, solver: str, to: Mapping[str, str], problem: str, seed: int
) -> tuple[Job, ...]:
    job = jobs.other(drafter, solver, problem, to[problem], seed)
    return (*job.reads, job)


def _refine_jobs(name: str, k: int, problem: str, seed: int) -> tuple[Job, ...]:
    first = jobs.solo(name, problem, seed)
    return (first, Job(name, problem, "refine", seed, reads=(first,)))


def _judged_jobs(name: str, k: int, problem: str, seed: int) -> tuple[Job, ...]:
    found: list[Job] = []
    for job in jobs.samples(name, problem, seed, k):
        found += [job, Job(name, problem, "judge", seed, job.sample, (job,))]
    return tuple(found)


def _self_moa_jobs(name: str, k: int, problem: str, seed: int) -> tuple[Job, ...]:
    reads = jobs.samples(name, problem, seed, k)
    return (*reads, Job(name, problem, "moa", seed, reads=reads))


def _self_draft_jobs(name: str, k: int, problem: str, seed: int) -> tuple[Job, ...]:
    reads = jobs.samples(name, problem, seed, k)
    return (*reads, Job(name, problem, "self_draft", seed, reads=reads))


def _moa_jobs(names: tuple[str, str], k: int, problem: str, seed: int) -> tuple[Job, ...]:
    reads = jobs.moa_proposals(names, problem, seed, k)
    return (*reads, Job(names[0], problem, "moa", seed, reads=reads))


_CONTROLS: Mapping[str, tuple[Callable[..., tuple[Job, ...]], Rule, bool]] = {
    "self_refine": (_refine_jobs, "last", False),
    "self_cascade": (_self_cascade_jobs, "last", False),
    "self_consistency": (_samples_jobs, "majority", False),
    "best_of_k": (_samples_jobs, "any", True),
    "best_of_k_judged": (_judged_jobs, "judged", False),
    "self_moa": (_self_moa_jobs, "last", False),
    "self_draft": (_self_draft_jobs, "last", True),
}
"""Control of one agent -> its jobs, its rule, and whether it uses the gold."""
