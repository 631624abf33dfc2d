"""Results and transcripts -> one HTML file that needs nothing else.

All text of models, problems and names is escaped, and the page's own policy lets no script run but
the one below, by its hash: what a model wrote is data, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from learners.benchmark.plots import accuracy_plot, matrix_plot, overlap_plot
from learners.benchmark.runner import Played
from learners.benchmark.tables import markdown
from learners.benchmark.transcripts import KINDS, Transcript

LONGEST = 8000
"""Characters of a text that the page shows; the store has all."""


def page(results: Mapping[str, Any], transcripts: Sequence[Transcript]) -> str:
    """The whole report."""
    plots = {
        "Share right against tokens per problem, with 95% intervals. Grey lines: votes of 1, 3, 4, "
        "... samples of one agent.": accuracy_plot(results),
        "Who is right alone, as shares of the attempts that both have scored.": overlap_plot(
            results
        ),
        "P(solution right | draft wrong).": matrix_plot(results, "conversion"),
        "P(solution wrong | draft right).": matrix_plot(results, "corruption"),
    }
    options = "".join(f"<option>{kind}</option>" for kind in KINDS)
    directions = dict.fromkeys(t.direction for t in transcripts)
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    parts = {
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "title": html.escape(f"pairs on {results['settings']['task']}"),
        "plots": "".join(
            f"<figure><figcaption>{html.escape(caption)}</figcaption>{plot}</figure>"
            for caption, plot in plots.items()
        ),
        "tables": _tables(markdown(results)),
        "kinds": options,
        "directions": "".join(f"<option>{html.escape(d)}</option>" for d in directions),
        "cards": "\n".join(_card(transcript) for transcript in transcripts),
        "script": _SCRIPT,
    }
    # One pass: what is put in is not looked through again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _PAGE)


def _card(transcript: Transcript) -> str:
    head = f"{transcript.direction} · {transcript.problem} · seed {transcript.seed}"
    return (
        f'<details data-kind="{transcript.kind}" data-direction="'
        f'{html.escape(transcript.direction)}"><summary>{html.escape(head)} '
        f"<b>{transcript.kind}</b></summary>{_pre(transcript.question)}"
        f"<p>gold: <code>{html.escape(transcript.gold)}</code></p>"
        f"{_reply('draft', transcript.draft)}{_reply('solution', transcript.solution)}</details>"
    )


def _reply(name: str, played: Played) -> str:
    reply, verdict = played.reply, played.verdict
    mark = {True: "right", False: "wrong", None: "unscored"}[verdict.correct]
    notes = [mark, verdict.reason, f"{reply.completion_tokens} tokens"]
    notes += [] if reply.finished else ["cut"]
    notes += [reply.error] if reply.error else []
    return f"<h3>{name} <small>{html.escape(', '.join(notes))}</small></h3>{_pre(reply.text)}"


def _pre(text: str) -> str:
    cut = f"\n[{len(text) - LONGEST} more characters]" if len(text) > LONGEST else ""
    shown = (text[:LONGEST] + cut).encode("utf-8", "replace").decode()  # lone surrogates
    return f"<pre>{html.escape(shown)}</pre>"


def _tables(text: str) -> str:
    """The Markdown that `tables.py` writes, and no other, as HTML."""
    parts: list[str] = []
    rows: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            rows.append(line)
            continue
        if rows:
            parts.append(_table(rows))
            rows = []
        level = len(line) - len(line.lstrip("#"))
        said = html.escape(re.sub(r"\*\*|`", "", line.lstrip("# ")).replace("\\*", "*"))
        if level:
            parts.append(f"<h{level}>{said}</h{level}>")
        elif said:
            parts.append(f"<p>{said}</p>")
    return "".join(parts)


def _table(rows: Sequence[str]) -> str:
    cells = [[_cell(c) for c in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    head = "".join(f"<th>{cell}</th>" for cell in cells[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells[2:]
    )
    return f"<div><table><tr>{head}</tr>{body}</table></div>"


def _cell(text: str) -> str:
    return html.escape(text.strip().replace("\\|", "|").replace("\\*", "*"))


_SCRIPT = """
const kind = document.getElementById("kind"), direction = document.getElementById("direction");
const cards = [...document.querySelectorAll("details")];
function show() {
  let n = 0;
  for (const card of cards) {
    card.hidden = (kind.value && card.dataset.kind !== kind.value) ||
      (direction.value && card.dataset.direction !== direction.value);
    n += !card.hidden;
  }
  document.getElementById("count").textContent = n + " transcripts";
}
kind.addEventListener("change", show);
direction.addEventListener("change", show);
show();
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{policy}}">
<title>{{title}}</title><style>
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
div { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px }
td, th { border: 1px solid #ccc; padding: 2px 6px }
figure { margin: 1rem 0 } svg { max-width: 100% }
details { border: 1px solid #ccc; border-radius: 6px; padding: .3rem 1rem; margin: .4rem 0 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f5f5f5; padding: .5rem }
small { font-weight: normal; color: #555 }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #ddd } pre { background: #222 } small { color: #aaa } }
</style></head><body>
{{tables}}
{{plots}}
<h2>Transcripts</h2>
<label>show <select id="kind"><option value="">all</option>{{kinds}}</select></label>
<label>of <select id="direction"><option value="">all directions</option>{{directions}}
</select></label>
<span id="count"></span>
{{cards}}
<script>{{script}}</script></body></html>
"""
