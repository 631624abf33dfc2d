"""`python -m agon_env.audit TASK|FILE`: are these problems fit to teach?

Each gold answer is judged against itself; golds that cannot be read, that can be guessed, or that
stand in their own question are listed, as are duplicates and the time a verdict takes.
`--rejudge run/episodes.jsonl` judges the replies of stored episodes again, without a model, and
says which verdicts differ. Nothing is repaired: the finding is the product.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from agon_env.records import read_episodes
from agon_env.tasks import find_task, load_report
from agon_env.tasks.duplicates import Candidate, repeats
from agon_env.types import Episode, Problem, Verdict
from agon_env.verifiers import VerifierPool

LIMIT = 1000
"""Problems of one audit unless told otherwise."""
EXAMPLES = 5
WINDOW = 64
"""Replies in the pool at a time; code problems carry megabytes of tests."""
GUESSABLE = 0.2
"""Share of one answer among all from which always giving it is worth a note."""
BINARY = frozenset({"yes", "no", "true", "false"})
OPTION = re.compile(r"\(?[A-J]\)?\.?")
EMPTY_PROGRAM = "```python\npass\n```"

Key = TypeVar("Key")


@dataclass
class Findings:
    """What an audit found: kind -> ids of the problems, and the latencies behind it."""

    problems: int
    rejected: dict[str, int]
    """Reason -> rows that the loader left out before the audit."""
    ids: dict[str, list[str]] = field(default_factory=dict)
    latencies_s: list[float] = field(default_factory=list)
    commonest: tuple[str, float] = ("", 0.0)
    """The most frequent gold and its share."""

    def note(self, kind: str, problem: Problem) -> None:
        """Add a problem to a finding."""
        self.ids.setdefault(kind, []).append(problem.id)

    def summary(self) -> dict[str, object]:
        """Plain data for `--json`."""
        return {
            "problems": self.problems,
            "rejected_at_load": self.rejected,
            "findings": {kind: {"count": len(ids), "ids": ids} for kind, ids in self.ids.items()},
            "commonest_answer": {"answer": self.commonest[0], "share": self.commonest[1]},
            "latency_ms": latency_ms(self.latencies_s),
        }


@dataclass(frozen=True)
class Change:
    """A reply whose verdict is another one now."""

    problem_id: str
    agent: str
    role: str
    before: Verdict
    now: Verdict


def audit(
    problems: Sequence[Problem],
    pool: VerifierPool,
    *,
    watch: Callable[[Sequence[Problem]], Iterable[Problem]] = iter,
) -> Findings:
    """Look through problems; every finding names its problems.

    Args:
        watch: Wraps the problems as they are judged, such as with a progress bar.
    """
    findings = Findings(len(problems), {})
    for problem, verdict in judged(pool, ((p, (p, gold_reply(p))) for p in watch(problems))):
        findings.latencies_s.append(verdict.seconds)
        kind = gold_fault(problem, verdict)
        if kind is not None:
            findings.note(kind, problem)
    for problem in problems:
        if is_guessable(problem.answer):
            findings.note("guessable answer", problem)
        if leaks(problem):
            findings.note("gold stands in the question", problem)
    texts = [Candidate(p.question, p.answer) for p in problems]
    for index, kind in repeats(texts).items():
        findings.note(kind, problems[index])
    answers = Counter(p.answer.strip() for p in problems if p.answer.strip())
    if answers:
        answer, count = answers.most_common(1)[0]
        findings.commonest = (answer, count / len(problems))
    return findings


def gold_reply(problem: Problem) -> str:
    """A reply that says the gold: in a box; for code, where the gold is tests, an empty program."""
    if problem.verifier == "code":
        return EMPTY_PROGRAM
    return problem.answer if "\\boxed" in problem.answer else f"\\boxed{{{problem.answer}}}"


def gold_fault(problem: Problem, verdict: Verdict) -> str | None:
    """What the verdict on `gold_reply` says against the problem; None: nothing."""
    if verdict.correct is None:
        return "tests cannot be used" if problem.verifier == "code" else "gold cannot be used"
    if problem.verifier == "code":
        return "tests accept an empty program" if verdict.correct else None
    if verdict.reason in ("timeout", "error"):
        return f"gold ends in {verdict.reason}"
    if verdict.correct:
        return None
    if problem.verifier not in ("math", "math-final"):
        return "gold not checked: its verifier wants more than the answer"
    return "gold does not verify against itself"


def is_guessable(answer: str) -> bool:
    """True for a gold that a blind guess often meets: yes or no, true or false, an option."""
    plain = re.sub(r"\\text\w*|\\boxed|[{}$\s.]", "", answer)
    return plain.lower() in BINARY or OPTION.fullmatch(plain) is not None


def leaks(problem: Problem) -> bool:
    """True when a gold of three characters or more stands in the question as a whole token."""
    gold = "".join(problem.answer.split())
    if len(gold) < 3:
        return False
    spelled = r"\s*".join(map(re.escape, gold))
    return re.search(rf"(?<![\w.]){spelled}(?!\w|\.\d)", problem.question) is not None


def rejudge(episodes: Iterable[Episode], pool: VerifierPool) -> tuple[int, list[Change]]:
    """Judge every reply of stored episodes again.

    Returns:
        The number of replies, and those whose `correct`, `reason` or score changed.
    """
    replies = (
        ((episode.problem.id, turn, outcome.verdict), (episode.problem, turn.reply))
        for episode in episodes
        for turn, outcome in zip(episode.turns, episode.outcomes, strict=True)
    )
    count, changes = 0, []
    for (problem_id, turn, before), now in judged(pool, replies):
        count += 1
        if (now.correct, now.reason, now.score) != (before.correct, before.reason, before.score):
            changes.append(Change(problem_id, turn.agent, turn.role, before, now))
    return count, changes


def judged(
    pool: VerifierPool, replies: Iterable[tuple[Key, tuple[Problem, str]]]
) -> Iterator[tuple[Key, Verdict]]:
    """Verdicts in order, with a bounded number of replies on their way."""
    waiting: deque[tuple[Key, Future[Verdict]]] = deque()
    for key, (problem, text) in replies:
        waiting.append((key, pool.submit(problem, text)))
        if len(waiting) >= WINDOW:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()


def latency_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum, milliseconds; empty without a verdict."""
    if not seconds:
        return {}
    p50, p99, top = np.percentile(seconds, [50, 99, 100]) * 1000
    return {"p50": round(p50, 2), "p99": round(p99, 2), "max": round(top, 2)}


def findings_table(name: str, findings: Findings) -> Table:
    """The findings for a terminal."""
    table = Table(title=f"{escape(name)}: {findings.problems} problems", title_justify="left")
    table.add_column("finding")
    table.add_column("problems", justify="right")
    table.add_column("examples")
    for kind, ids in sorted(findings.ids.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(ids[:EXAMPLES]) + (", ..." if len(ids) > EXAMPLES else "")
        table.add_row(kind, str(len(ids)), escape(shown))
    for reason, count in findings.rejected.items():
        table.add_row(f"rejected at load: {escape(reason)}", str(count), "")
    answer, share = findings.commonest
    if share >= GUESSABLE:
        table.add_row("one answer is frequent", f"{share:.0%}", escape(answer[:60]))
    table.add_section()
    latencies = latency_ms(findings.latencies_s)
    table.add_row("ms per verdict", "", ", ".join(f"{k} {v:g}" for k, v in latencies.items()))
    return table


def changes_table(name: str, count: int, changes: Sequence[Change]) -> Table:
    """The verdicts that changed, by kind of change."""
    table = Table(
        title=f"{escape(name)}: {count} replies judged again, {len(changes)} verdicts changed",
        title_justify="left",
    )
    for column in ("before", "now", "replies", "examples"):
        table.add_column(column, justify="right" if column == "replies" else "left")
    kinds: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        place = f"{change.problem_id} {change.agent} {change.role}"
        kinds.setdefault((change.before.reason, change.now.reason), []).append(place)
    for (before, now), places in sorted(kinds.items(), key=lambda item: -len(item[1])):
        table.add_row(before, now, str(len(places)), escape("; ".join(places[:EXAMPLES])))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m agon_env.audit", description=__doc__)
    parser.add_argument("name", nargs="?", help="a task, a file of problems, or hf:org/name?...")
    parser.add_argument("--split", default=None, help="default: the task's first split")
    parser.add_argument("--limit", type=int, default=LIMIT, help="0: all (default %(default)s)")
    parser.add_argument("--rejudge", metavar="FILE", help="episodes to judge again")
    parser.add_argument("--workers", type=int, default=2, help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if (options.name is None) == (options.rejudge is None):
        parser.error("give either a task (or file), or --rejudge FILE")
    run = _audit_command if options.rejudge is None else _rejudge_command
    try:
        with VerifierPool(workers=options.workers) as pool:
            run(options, pool, Console())
    except (ValueError, OSError, RuntimeError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _audit_command(options: argparse.Namespace, pool: VerifierPool, console: Console) -> None:
    split = options.split or next(iter(find_task(options.name).sizes))
    loaded = load_report(options.name, split, options.limit or None)
    progress = Console(stderr=True)
    title = f"auditing {options.name}/{split}"
    findings = audit(
        loaded.problems, pool, watch=lambda items: track(items, title, console=progress)
    )
    findings.rejected = dict(loaded.rejected)
    if options.json:
        print(json.dumps({"task": options.name, "split": split, **findings.summary()}))
    else:
        console.print(findings_table(f"{options.name}/{split}", findings))


def _rejudge_command(options: argparse.Namespace, pool: VerifierPool, console: Console) -> None:
    progress = Console(stderr=True)
    episodes = track(list(read_episodes(options.rejudge)), "judging again", console=progress)
    count, changes = rejudge(episodes, pool)
    if options.json:
        print(json.dumps({"replies": count, "changes": [asdict(change) for change in changes]}))
    else:
        console.print(changes_table(options.rejudge, count, changes))


if __name__ == "__main__":
    sys.exit(main())
