"""Jobs -> replies with verdicts: asks the agents, stores every reply, judges while others write.

Jobs run in waves: first those that read nothing, then those that read them. What the store holds
is not asked again; verdicts are made anew from the stored text, so a mended verifier counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from agon_env.judging import Judging
from agon_env.spaces import MAX_REPLY_CHARS
from agon_env.types import Verdict
from learners.agents import Agent, Decoding, Reply, Request
from learners.benchmark.jobs import Job
from learners.benchmark.prompts import Prompts
from learners.benchmark.store import Store, digest

Progress = Callable[[Job, Future[Verdict], bool], None]
"""Called with a job, its verdict to come, and whether its reply is new."""

FAILED = Verdict(None, "error")
"""Of a request that its server refused: our fault, so unscored and counted."""
UNJUDGED = Verdict(None, "unscorable")
"""Of a judge's reply, which answers another question."""


@dataclass(frozen=True)
class Played:
    """One reply and what the verifier says of it."""

    reply: Reply
    verdict: Verdict


class Runner:
    """Plays the jobs of one benchmark."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        prompts: Prompts,
        store: Store,
        *,
        task: str,
        decoding: Decoding,
        judging: Judging | None = None,
        progress: Progress | None = None,
    ) -> None:
        """See the module.

        Args:
            agents: Name -> agent.
            prompts: Asks the jobs.
            store: Open store.
            task: Part of the keys.
            decoding: The same for all agents.
            judging: Default: by each problem's verifier, in the shared pool.
            progress: Told of every reply.
        """
        self._agents, self._prompts, self._store = agents, prompts, store
        self._task, self._decoding = task, decoding
        self._judging = judging or Judging()
        self._progress = progress or (lambda job, verdict, new: None)
        self._texts: dict[Job, str] = {}
        self._replies: dict[Job, Reply] = {}
        self._verdicts: dict[Job, Future[Verdict]] = {}

    def run(self, wanted: Iterable[Job]) -> dict[Job, Played]:
        """Play all jobs.

        Raises:
            AgentError: An agent cannot go on; every reply so far is in the store.
        """
        jobs = list(dict.fromkeys(wanted))
        for depth in sorted({job.depth for job in jobs}):
            wave = [job for job in jobs if job.depth == depth]
            for name in dict.fromkeys(job.agent for job in wave):
                self._play(name, [job for job in wave if job.agent == name])
        return {job: Played(self._replies[job], self._verdicts[job].result()) for job in jobs}

    def _play(self, name: str, jobs: Sequence[Job]) -> None:
        requests = {job: self._request(job) for job in jobs}
        asked = {job: digest(request, self._decoding) for job, request in requests.items()}
        missing: list[Job] = []
        for job in jobs:
            reply = self._store.get(job.key(self._task), asked[job])
            if reply is None:
                missing.append(job)
            else:
                self._take(job, reply, new=False)
        if not missing:
            return
        replies = self._agents[name].replies([requests[job] for job in missing], self._decoding)
        for index, reply in replies:
            job = missing[index]
            self._store.add(job.key(self._task), asked[job], reply)
            self._take(job, reply, new=True)

    def _request(self, job: Job) -> Request:
        messages = self._prompts.messages(job, self._texts, self._is_right)
        return Request(tuple(messages), job.stream(self._task))

    def _is_right(self, job: Job) -> bool | None:
        return self._verdicts[job].result().correct

    def _take(self, job: Job, reply: Reply, *, new: bool) -> None:
        self._replies[job] = reply
        self._texts[job] = reply.text[:MAX_REPLY_CHARS]
        self._verdicts[job] = self._judge(job, reply)
        self._progress(job, self._verdicts[job], new)

    def _judge(self, job: Job, reply: Reply) -> Future[Verdict]:
        problem = self._prompts.problems[job.problem]
        if reply.error is None and job.stage != "judge":
            return self._judging.submit(problem, self._texts[job])
        future: Future[Verdict] = Future()
        future.set_result(FAILED if reply.error else UNJUDGED)
        return future
