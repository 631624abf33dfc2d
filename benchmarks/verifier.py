"""Verdicts per second, latency, and what one hostile reply costs: this verifier against others.

The same replies are judged by our pool with 1 and 2 workers, by our judge in a loop, by math-verify
in a loop and by TRL's `accuracy_reward`, one after the other in one process. Half of the replies
are right. Golds and replies come from the generated tasks, so nothing is downloaded.

    python benchmarks/verifier.py                       # all, about a minute on two cores
    python benchmarks/verifier.py --replies 200 --json results.json

Not measured: agreement with the right verdicts, which the tests do on the table of cases.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from agon_env.tasks import load_problems
from agon_env.types import CodeTests, Problem, Verdict
from agon_env.verifiers import VerifierPool, isolation
from agon_env.verifiers.math import judge_math
from learners.conditions import conditions

TASKS = ("arithmetic-medium", "arithmetic-hard", "algebra-easy", "algebra-medium", "algebra-hard")
HOSTILE = r"\boxed{\int_0^1 \left(\sum_{k=1}^{10^{9}} \frac{\sin(x^{k})}{k^{x}}\right) dx}"
WORDS = "We write it out, check both sides again and collect the terms. " * 20
Pairs = Sequence[tuple[Problem, str]]


@dataclass(frozen=True)
class Args:
    """What to measure."""

    replies: int = 2000
    """Different math replies."""
    batch: int = 256
    """Replies of the batch with one hostile one."""
    programs: int = 60
    """Programs for the code judge; 0: none."""
    repeats: int = 3
    """Runs of each way; the fastest counts, as other work on the machine only slows down."""
    seed: int = 0
    """Seed of the generated problems."""
    json: Path | None = None
    """Write the numbers there."""


def math_pairs(count: int, seed: int) -> list[tuple[Problem, str]]:
    """Distinct replies of 1 300 characters to generated problems; every second one is wrong."""
    share = -(-count // len(TASKS))
    problems = [p for task in TASKS for p in load_problems(task, limit=share, seed=seed)][:count]
    order = np.random.default_rng(seed).permutation(len(problems))
    pairs = []
    for place, index in enumerate(order):
        problem = problems[index]
        answer = problem.answer if place % 2 else f"{problem.answer}+{place + 2}"
        pairs.append((problem, f"{WORDS}Step {place}. The answer is $\\boxed{{{answer}}}$."))
    return pairs


def with_pool(workers: int) -> Callable[[Pairs], list[Verdict]]:
    """Judge with a warm pool, as in training, where it lives for the whole run."""
    pool = VerifierPool(workers=workers)
    warm = Problem("warm", "", r"\int_0^1 x dx")
    futures = [pool.submit(warm, rf"\boxed{{\int_0^{{{i + 2}}} x dx}}") for i in range(workers * 8)]
    for future in futures:
        future.result()
    return pool.verify_many


def with_math_verify(pairs: Pairs) -> list[bool]:
    """math-verify as its README calls it, with the gold in a box (bare golds often parse to [])."""
    from math_verify import parse, verify

    return [
        bool(verify(parse(f"\\boxed{{{problem.answer}}}"), parse(text))) for problem, text in pairs
    ]


def with_trl(pairs: Pairs) -> list[float | None]:
    """TRL's reward function on the whole batch."""
    from trl.rewards.accuracy_rewards import accuracy_reward

    completions = [[{"role": "assistant", "content": text}] for _, text in pairs]
    return accuracy_reward(completions, [f"\\boxed{{{p.answer}}}" for p, _ in pairs])


def rates(args: Args) -> dict[str, dict[str, float]]:
    """Verdicts per second of each way, and the share that it calls right (half of them are)."""
    pairs = math_pairs(args.replies, args.seed)
    ways: dict[str, Callable[[Pairs], Sequence[object]]] = {
        "ours, in a loop": lambda p: [judge_math(problem, text) for problem, text in p],
        "ours, pool of 1": with_pool(1),
        "ours, pool of 2": with_pool(2),
        "math-verify, in a loop": with_math_verify,
        "TRL accuracy_reward": with_trl,
    }
    results = {}
    for name, way in ways.items():
        way(pairs[:20])  # imports and grammars
        best, verdicts = float("inf"), []
        for _ in range(args.repeats):
            start = time.perf_counter()
            verdicts = way(pairs)
            best = min(best, time.perf_counter() - start)
        right = np.mean([getattr(v, "correct", v) in (True, 1.0) for v in verdicts])
        results[name] = {"per_second": len(pairs) / best, "called_right": float(right)}
    base = results["math-verify, in a loop"]["per_second"]
    return {name: {**r, "times_math_verify": r["per_second"] / base} for name, r in results.items()}


def latencies(args: Args) -> dict[str, float]:
    """Running time of one verdict in a pool worker, milliseconds."""
    verdicts = with_pool(2)(math_pairs(args.replies, args.seed + 1))
    p50, p99, top = np.percentile([v.seconds for v in verdicts], [50, 99, 100]) * 1000
    return {"p50_ms": p50, "p99_ms": p99, "max_ms": top}


def one_hostile(args: Args, hostile: str = HOSTILE) -> dict[str, float | str]:
    """A batch with and without a reply that runs into the limit: when the others are done."""
    pairs = math_pairs(args.batch, args.seed + 2)
    with VerifierPool(workers=2) as pool:
        pool.verify_many(pairs[:50])
        calm = _arrivals(pool, pairs)
        place = args.batch // 4
        mixed = [
            *pairs[:place],
            (Problem("hostile", "", r"\int_0^1 x dx"), hostile),
            *pairs[place:],
        ]
        arrivals = _arrivals(pool, mixed)
    verdict, late = arrivals[place]
    others = max(seconds for i, (_, seconds) in arrivals.items() if i != place)
    return {
        "hostile_reason": verdict.reason,
        "hostile_s": late,
        "others_alone_s": max(seconds for _, seconds in calm.values()),
        "others_beside_hostile_s": others,
    }


def _arrivals(pool: VerifierPool, pairs: Pairs) -> dict[int, tuple[Verdict, float]]:
    start = time.perf_counter()
    futures: dict[Future[Verdict], int] = {
        pool.submit(problem, text): i for i, (problem, text) in enumerate(pairs)
    }
    return {
        futures[future]: (future.result(), time.perf_counter() - start)
        for future in as_completed(futures)
    }


def code_rates(args: Args) -> dict[str, float]:
    """Programs with five tests each per second; a sandbox serves one program."""
    tests = CodeTests(tuple({"input": f"{i} 1\n", "output": f"{i + 1}\n"} for i in range(5)))
    problem = Problem("sum", "Add.", "", verifier="code", tests=tests)
    text = "```python\nprint(sum(map(int, input().split())))  # {}\n```"
    pairs = [(problem, text.format(i)) for i in range(args.programs)]
    result = {}
    for workers in (1, 2):
        with VerifierPool(workers=workers) as pool:
            pool.verify_many([(problem, text.format(f"warm {i}")) for i in range(4)])
            start = time.perf_counter()
            verdicts = pool.verify_many(pairs)
            result[f"per_second_{workers}"] = len(pairs) / (time.perf_counter() - start)
    result["p50_ms"], result["p99_ms"] = (
        np.percentile([v.seconds for v in verdicts], [50, 99]) * 1e3
    )
    return {name: float(value) for name, value in result.items()}


def show(console: Console, results: dict[str, dict]) -> None:
    """Print every part of the results as a table."""
    table = Table("way", "verdicts/s", "times math-verify", "called right", title="math replies")
    for name, r in results["rates"].items():
        row = (
            f"{r['per_second']:.0f}",
            f"{r['times_math_verify']:.2f}",
            f"{r['called_right']:.1%}",
        )
        table.add_row(name, *row)
    console.print(table)
    for part in ("latencies", "one_hostile", "code", "conditions"):
        if part in results:
            cells = (
                f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}"
                for k, v in results[part].items()
            )
            console.print(f"[bold]{part}[/]  " + ", ".join(cells))


def main(args: Args) -> None:
    """Measure, print, and write."""
    results: dict[str, dict] = {
        "rates": rates(args),
        "latencies": latencies(args),
        "one_hostile": one_hostile(args),
        "conditions": conditions()
        | {
            "load_1min": os.getloadavg()[0],
            "isolation": isolation(),
            "args": str(dataclasses.asdict(args)),
        },
    }
    if args.programs:
        results["code"] = code_rates(args)
    show(Console(), results)
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
