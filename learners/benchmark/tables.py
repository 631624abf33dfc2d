"""results.json -> Markdown tables. Every number has its interval; controls have their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Results = Mapping[str, Any]


def markdown(results: Results) -> str:
    """All tables of a benchmark."""
    agents = [f"- **{label}**: `{_cell(name)}`" for label, name in results["agents"].items()]
    test, validation = (results["splits"][name] for name in ("test", "validation"))
    settings = results["settings"]
    decoding = settings["decoding"]
    return "\n".join(
        [
            f"# {_cell(settings['task'])}",
            "",
            *agents,
            "",
            f"{test['problems']} test problems ({test['name']}), {validation['problems']} for the "
            f"choice of direction ({validation['name']}), {settings['seeds']} seeds, temperature "
            f"{decoding['temperature']}, top-p {decoding['top_p']}, at most "
            f"{decoding['max_new_tokens']} tokens per reply, reveal {settings['reveal']}. "
            "Percent with 95% intervals.",
            "",
            "## Accuracy and cost",
            "",
            *_methods(results["methods"]),
            "",
            "\\* chooses by the right answer: a bound, not a method.",
            "",
            "## Reading",
            "",
            *_directions(results["directions"]),
            "",
            "## Pairs",
            "",
            *_pairs(results["pairs"]),
            "",
            *_matrix(results),
            "## Replies",
            "",
            *_stages(results["methods"]),
            "",
            f"Commit `{results['commit']}`, {results['machine']}, {results['created']}. Command:",
            "",
            f"    {results['command']}",
            "",
        ]
    )


def percent(estimate: Mapping[str, Any]) -> str:
    """`51.2 [48.0, 54.4]`, or n/a."""
    if estimate["value"] is None:
        return "n/a"
    low, high = (
        "?" if estimate[end] is None else f"{100 * estimate[end]:.1f}" for end in ("low", "high")
    )
    return f"{100 * estimate['value']:.1f} [{low}, {high}]"


def points(found: Mapping[str, Any] | None) -> str:
    """A difference in percentage points with its p-value; "-" where it was not measured."""
    if found is None:
        return "-"
    sign = "+" if (found["difference"]["value"] or 0) > 0 else ""
    return f"{sign}{percent(found['difference'])}, p={found['p']:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, line by line."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]


def _cell(text: object) -> str:
    """Text that stays in its cell, on one line."""
    return " ".join(str(text).replace("|", "\\|").split())


def _methods(methods: Sequence[Results]) -> list[str]:
    rows = [
        [
            m["name"] + ("\\*" if m["uses_gold"] else ""),
            percent(m["accuracy"]),
            f"{m['tokens']:.0f}",
            f"{m['completion_tokens']:.0f}",
            f"{m['seconds']:.2f}",
            str(m["unscored"]),
        ]
        for m in methods
    ]
    header = ["method", "right", "tokens per problem", "of them written", "seconds", "unscored"]
    return table(header, rows)


def _directions(directions: Sequence[Results]) -> list[str]:
    rows = [
        [
            f"{d['drafter']}>{d['solver']}",
            percent(d["conversion"]),
            percent(d["corruption"]),
            points(d["vs_drafter_alone"]),
            points(d["vs_solver_alone"]),
            points(d.get("vs_no_draft")),
            points(d.get("vs_draft_of_another_problem")),
            percent(d["copying"]["same_answer"]),
            percent(d["copying"]["same_answer_alone"]),
            percent(d["copying"]["text"]),
        ]
        for d in directions
    ]
    header = [
        "direction",
        "conversion",
        "corruption",
        "minus drafter alone",
        "minus solver alone",
        "minus no draft",
        "minus draft of another problem",
        "gives the draft's answer",
        "the same without reading",
        "text copied",
    ]
    return table(header, rows)


def _pairs(pairs: Sequence[Results]) -> list[str]:
    rows = [
        [
            "+".join(p["agents"]),
            percent(p["overlap"]["agreement"]),
            _bare(p["overlap"]["kappa"]),
            percent(p["overlap"]["jaccard"]),
            percent(p["overlap"]["oracle"]),
            p["chosen"] or f"none; {p['reported']} shown",
            percent(p["accuracy"]),
            f"{points(p['vs_best_single'])} ({p['best_single']})",
        ]
        for p in pairs
    ]
    header = [
        "pair",
        "agreement",
        "kappa",
        "Jaccard of errors",
        "oracle",
        "direction chosen on validation",
        "right on test",
        "minus the single chosen on validation",
    ]
    return table(header, rows)


def _bare(estimate: Mapping[str, Any]) -> str:
    """An estimate that is no share."""
    if estimate["value"] is None:
        return "n/a"
    ends = ["?" if estimate[e] is None else f"{estimate[e]:.2f}" for e in ("low", "high")]
    return f"{estimate['value']:.2f} [{', '.join(ends)}]"


def _matrix(results: Results) -> list[str]:
    """Drafters down, solvers across, for more than two agents; the diagonal is each alone."""
    labels = list(results["agents"])
    if len(labels) < 3:
        return []
    right = {m["name"]: percent(m["accuracy"]) for m in results["methods"]}
    rows = [
        [f"{d} drafts", *(right[f"solo {d}" if d == s else f"cascade {d}>{s}"] for s in labels)]
        for d in labels
    ]
    header = ["right", *(f"{s} solves" for s in labels)]
    return ["## Matrix (diagonal: alone)", "", *table(header, rows), ""]


def _stages(methods: Sequence[Results]) -> list[str]:
    rows = [
        [
            m["name"],
            stage,
            str(s["replies"]),
            f"{s['prompt_tokens']:.0f} + {s['completion_tokens']:.0f}",
            f"{s['seconds']:.2f}",
            percent(s["unparsed"]),
            percent(s["truncated"]),
            percent(s["empty"]),
            str(s["unscored"]),
            str(s["failed"]),
        ]
        for m in methods
        for stage, s in m["stages"].items()
        if stage != "solo" or m["kind"] == "solo"
    ]
    header = [
        "method",
        "stage",
        "replies",
        "tokens",
        "seconds",
        "unparsed",
        "truncated",
        "empty",
        "unscored",
        "refused",
    ]
    return table(header, rows)
