"""A run folder -> files to look at: learning curves and transcripts.

Reads only what the run wrote, so a report can be made at any time, of any run:

    python -m learners.report runs/tiny
"""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from agon_env.records import episode_from_json
from agon_env.types import AGENTS, Episode
from learners.evaluate import Evaluation
from learners.run_folder import EPISODES, EVALUATIONS, METRICS, RunFolder

_PANELS = (
    ("share right (training)", ("drafter/solve_rate", "solver/solve_rate", "solver/conversion")),
    ("share of replies", ("well_formed", "unfinished", "no_answer")),
    ("entropy (nats per token)", tuple(f"{agent}/entropy" for agent in AGENTS)),
    ("gradient norm", tuple(f"{agent}/grad_norm" for agent in AGENTS)),
    ("tokens per reply", ("tokens_per_reply",)),
)


def write_report(run: str | Path) -> list[Path]:
    """Write `curves.png` and `transcripts.html` into the run's folder; returns their paths.

    Raises:
        FileNotFoundError: The folder holds no run.
    """
    folder = RunFolder(run)
    title = f"{Path(run).name}: {folder.config()['task']}"
    curves = folder.path / "curves.png"
    _draw_curves(curves, title, folder.lines(METRICS), folder.lines(EVALUATIONS))
    transcripts = folder.path / "transcripts.html"
    transcripts.write_text(transcripts_page(title, folder.lines(EPISODES)))
    return [curves, transcripts]


def _draw_curves(
    file: Path, title: str, metrics: list[dict[str, Any]], evaluations: list[dict[str, Any]]
) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(15, 8), layout="constrained")
    figure.suptitle(title)
    held_out, *others = axes.flat
    _draw_evaluations(held_out, [e for e in evaluations if e["split"] == "validation"])
    for axis, (name, keys) in zip(others, _PANELS, strict=True):
        for key in keys:
            points = [(m["step"], m[key]) for m in metrics if key in m]
            if points:
                axis.plot(*zip(*points, strict=True), label=key, linewidth=1)
        axis.set_title(name)
        axis.set_xlabel("step")
        if axis.lines:
            axis.legend(fontsize="small")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw_evaluations(axis: Axes, lines: list[dict[str, Any]]) -> None:
    """Pass@1 on validation problems with its 95% intervals."""
    steps = [line["step"] for line in lines]
    found = [Evaluation.from_dict(line["evaluation"]) for line in lines]
    series = {f"{agent} alone": [e.alone[agent].correct for e in found] for agent in AGENTS}
    for agent in AGENTS:
        series[f"{agent} drafts (cascade)"] = [e.cascade(agent).solution.correct for e in found]
    for name, values in series.items():
        line = axis.plot(steps, [v.value for v in values], marker="o", markersize=3, label=name)
        low, high = zip(*(v.interval for v in values), strict=True) if values else ((), ())
        axis.fill_between(steps, low, high, alpha=0.12, color=line[0].get_color())
    axis.set_title("pass@1 on validation problems, 95% intervals")
    axis.set_xlabel("step")
    axis.legend(fontsize="small")


def transcripts_page(title: str, lines: list[dict[str, Any]]) -> str:
    """A self-contained HTML page of the stored episodes, newest first, with filters.

    All text of the models is escaped: it is data, never markup.
    """
    cards = "\n".join(
        _card(line["extra"]["step"], episode_from_json(json.dumps(line)))
        for line in reversed(lines)
    )
    return _PAGE.replace("{title}", html.escape(title)).replace("{cards}", cards)


def _card(step: int, episode: Episode) -> str:
    turns = "".join(
        f"<h3>{turn.agent} as {turn.role}: {_mark(outcome.verdict.correct)} "
        f"<small>{outcome.verdict.reason}, reward {outcome.reward}, {dict(outcome.parts)}</small>"
        f"</h3><pre>{html.escape(turn.reply)}</pre>"
        for turn, outcome in zip(episode.turns, episode.outcomes, strict=True)
    )
    problem = html.escape(episode.problem.question)
    gold = html.escape(episode.problem.answer)
    return (
        f'<article data-kind="{_kind(episode)}"><h2>step {step} '
        f"<small>{html.escape(episode.problem.id)} &middot; {_kind(episode)}</small></h2>"
        f"<pre>{problem}</pre><p>gold: <code>{gold}</code></p>{turns}</article>"
    )


def _kind(episode: Episode) -> str:
    """What the (last) solver made of its draft."""
    last = episode.outcomes[-1]
    draft, solution = last.rival_verdict.correct, last.verdict.correct
    if draft is None or solution is None:
        return "unscored"
    if draft:
        return "kept" if solution else "corrupted"
    return "converted" if solution else "both wrong"


def _mark(correct: bool | None) -> str:
    return {True: "right", False: "wrong", None: "unscored"}[correct]


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
article { border: 1px solid #ccc; border-radius: 6px; padding: .2rem 1rem; margin: 1rem 0 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f5f5f5; padding: .5rem }
small { font-weight: normal; color: #555 }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #ddd } pre { background: #222 } small { color: #aaa } }
</style></head><body><h1>{title}</h1>
<label>show <select id="kind"><option value="">all</option><option>converted</option>
<option>kept</option><option>corrupted</option><option>both wrong</option><option>unscored</option>
</select></label> <span id="count"></span>
{cards}
<script>
const kind = document.getElementById("kind"), count = document.getElementById("count");
function show() {
  let n = 0;
  for (const a of document.querySelectorAll("article")) {
    a.hidden = kind.value && a.dataset.kind !== kind.value;
    n += !a.hidden;
  }
  count.textContent = n + " episodes";
}
kind.addEventListener("change", show); show();
</script></body></html>
"""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m learners.report RUN_FOLDER")
    try:
        written = write_report(sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print("\n".join(f"wrote {file}" for file in written))
