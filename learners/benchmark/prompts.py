"""A job and the replies it reads -> the chat messages that the agent gets.

Drafting and solving go through the rules of the game, so an agent sees exactly what it would see
in training and in the deployed cascade. The prompts of the controls, which are no part of the
game, are here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from agon_env.extract import visible_text
from agon_env.prompts import Messages, Template, template_for
from agon_env.rules import Match
from agon_env.tasks.shots import with_examples
from agon_env.types import AGENTS, Problem, Reveal
from learners.benchmark.jobs import Job

DRAFTER, SOLVER = AGENTS

REFINE = (
    "Check your solution step by step. If you find a mistake, mend it; else confirm the solution. "
    "Then give the whole solution again, in the same form as before."
)
"""Self-refinement (arXiv:2303.17651), one round."""
JUDGE = (
    "Problem:\n{problem}\n\nProposed solution:\n{reply}\n\nIs the final answer of the proposed "
    "solution right? Check it, then write <answer>yes</answer> or <answer>no</answer>."
)
"""The agent as its own verifier."""
AGGREGATE = (
    "{plain}\n\nOther solvers wrote the replies below. Each may be right or wrong: judge them, and "
    "write one reply of your own, in the form asked for above.\n\n{replies}"
)
"""The aggregator of a Mixture of Agents (arXiv:2406.04692), one layer, untrained."""


@dataclass(frozen=True)
class Prompts:
    """Builds the messages of every job of a benchmark."""

    problems: Mapping[str, Problem]
    template: Template | None
    """None: by the problem's verifier."""
    reveal: Reveal
    """What of a draft a solver sees."""
    shown_examples: Collection[str] = ()
    """Names of the agents that see worked examples where others read how to reply."""

    def messages(
        self, job: Job, texts: Mapping[Job, str], is_right: Callable[[Job], bool | None]
    ) -> Messages:
        """The chat of a job.

        Args:
            job: What is asked.
            texts: The replies that it reads.
            is_right: Verdict of a reply; only `self_draft` asks for it.
        """
        match job.stage:
            case "solo":
                return self._plain(job)
            case "solve":
                return self._reading(job, texts[job.reads[0]], self.reveal)
            case "unread":
                return self._reading(job, "", "none")
            case "other":
                return self._reading_another(job, texts[job.reads[0]])
            case "self_draft":
                best = next((j for j in job.reads if is_right(j)), job.reads[0])
                return self._reading(job, texts[best], "full")
            case "refine":
                own = {"role": "assistant", "content": texts[job.reads[0]]}
                return [*self._plain(job), own, {"role": "user", "content": REFINE}]
            case "judge":
                return self._one_message(job, JUDGE, reply=_visible(texts[job.reads[0]]))
            case "moa":
                replies = "\n\n".join(
                    f"Reply {i}:\n{_visible(texts[read])}" for i, read in enumerate(job.reads, 1)
                )
                plain = self._plain(job)[-1]["content"]
                return self._one_message(job, AGGREGATE, plain=plain, replies=replies)

    def template_of(self, problem: Problem) -> Template:
        """Reads the replies to a problem."""
        return self.template or template_for(problem)

    def shown(self, job: Job, texts: Mapping[Job, str]) -> str:
        """What of its draft a solver was shown."""
        return self._drafted(job.problem, texts[job.reads[0]], self.reveal).observe(SOLVER)["draft"]

    def _match(self, problem: str, reveal: Reveal) -> Match:
        asked = self.problems[problem]
        return Match(asked, (DRAFTER,), self.template_of(asked), reveal)

    def _drafted(self, problem: str, draft: str, reveal: Reveal) -> Match:
        return self._match(problem, reveal).play(DRAFTER, draft)

    def _plain(self, job: Job) -> Messages:
        return self._chat(job, self._match(job.problem, self.reveal), DRAFTER)

    def _reading(self, job: Job, draft: str, reveal: Reveal) -> Messages:
        return self._chat(job, self._drafted(job.problem, draft, reveal), SOLVER)

    def _reading_another(self, job: Job, draft: str) -> Messages:
        lender = self._drafted(job.reads[0].problem, draft, self.reveal)
        return self._chat(job, self._drafted(job.problem, "", self.reveal).borrow(lender), SOLVER)

    def _chat(self, job: Job, match: Match, role: str) -> Messages:
        shows = job.agent in self.shown_examples
        template = with_examples(match.template) if shows else match.template
        return template.messages(match.observe(role))

    def _one_message(self, job: Job, text: str, **parts: str) -> Messages:
        problem = self.problems[job.problem].question
        return [{"role": "user", "content": text.format(problem=problem, **parts)}]


def accepts(text: str) -> bool:
    """Whether a judge's reply says yes; anything unclear is a no."""
    visible = _visible(text).casefold()
    start, end = visible.rfind("<answer>"), visible.rfind("</answer>")
    said = visible[start + len("<answer>") : end] if 0 <= start < end else ""
    return said.strip(" .!\n") == "yes"


def _visible(text: str) -> str:
    """A reply without its thinking; an unfinished thought is shown as it is."""
    visible = visible_text(text)
    return text if visible is None else visible.strip()
