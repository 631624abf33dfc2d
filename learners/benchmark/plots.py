"""results.json -> inline SVG: accuracy against tokens, overlap of errors, conversion by direction.

Written by hand, so that a report is one small file that needs nothing.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from learners.benchmark.tables import percent

Results = Mapping[str, Any]

COLOURS = {"solo": "#1f77b4", "cascade": "#d62728", "influence": "#7f7f7f", "control": "#2ca02c"}
OVERLAP = (("both right", "#2ca02c"), ("only first", "#1f77b4"), ("only second", "#ff7f0e"))
BOTH_WRONG = ("both wrong", "#d62728")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 820, 420, 50, 50, 20


def accuracy_plot(results: Results) -> str:
    """Share right against tokens per problem, both with the axes from 0; lines are votes."""
    methods = [m for m in results["methods"] if m["accuracy"]["value"] is not None]
    curves = {label: _votes(results, label) for label in results["agents"]}
    reach = [m["tokens"] for m in methods] + [x for line in curves.values() for x, _ in line]
    most = max([*reach, 1.0]) * 1.08

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = _WIDTH - _LEFT - 250, _HEIGHT - _BOTTOM - _TOP
        return _LEFT + across * x / most, _TOP + up * (1 - y)

    parts = [_axes(at, most)]
    for line in curves.values():
        if len(line) > 1:
            corners = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in line)
            parts.append(f'<polyline points="{corners}" fill="none" stroke="#999"/>')
    for number, method in enumerate(methods, 1):
        parts.append(_point(method, number, at))
        y = _TOP + 14 * (number - 1)
        text = f"{number} {method['name']}"
        colour = COLOURS[method["kind"]]
        parts.append(_text(_WIDTH - 235, y + 4, text[:44], size=11, colour=colour))
    height = max(_HEIGHT, _TOP + 14 * len(methods) + 10)
    return _svg(_WIDTH, height, parts, "share right against tokens per problem")


def overlap_plot(results: Results) -> str:
    """Per pair of agents alone: who is right where, as shares of the scored attempts."""
    rows = []
    for pair in results["pairs"]:
        first, second = (results["outcomes"][f"solo {label}"] for label in pair["agents"])
        counts = _cells(first, second)
        rows.append((" and ".join(pair["agents"]), counts))
    parts = []
    for i, (name, counts) in enumerate(rows):
        y, x, total = 30 + 30 * i, 90.0, max(sum(counts), 1)
        parts.append(_text(5, y + 14, name))
        for (label, colour), count in zip((*OVERLAP, BOTH_WRONG), counts, strict=True):
            width = 600 * count / total
            title = f"<title>{label}: {100 * count / total:.1f}%</title>"
            box = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="20" fill="{colour}"'
            parts.append(f"<rect {box}>{title}</rect>")
            if width > 40:
                parts.append(_text(x + 4, y + 14, f"{100 * count / total:.0f}%", colour="#fff"))
            x += width
    for i, (label, colour) in enumerate((*OVERLAP, BOTH_WRONG)):
        parts.append(_text(90 + 120 * i, 16, label, colour=colour))
    return _svg(720, 40 + 30 * len(rows), parts, "overlap of errors")


def matrix_plot(results: Results, measure: str) -> str:
    """Drafters down, solvers across: conversion or corruption of each direction.

    Args:
        results: Contents of results.json.
        measure: "conversion" or "corruption".
    """
    labels = list(results["agents"])
    found = {(d["drafter"], d["solver"]): d[measure] for d in results["directions"]}
    size, parts = 90, [_text(5, 16, f"{measure}: drafter down, solver across")]
    for row, drafter in enumerate(labels):
        parts.append(_text(10, 75 + size * row, drafter))
        parts.append(_text(65 + size * row, 34, drafter))
        for column, solver in enumerate(labels):
            x, y = 30 + size * column, 40 + size * row
            cell = found.get((drafter, solver))
            value = cell["value"] if cell else None
            shade = "#eee" if value is None else f"hsl(210,80%,{95 - 50 * value:.0f}%)"
            parts.append(
                f'<rect x="{x}" y="{y}" width="{size - 4}" height="{size - 4}" fill="{shade}"/>'
            )
            if cell is not None and value is not None:
                parts.append(_text(x + 8, y + 38, f"{100 * value:.1f}"))
                span = percent(cell).partition(" ")[2]
                parts.append(_text(x + 8, y + 56, span, size=11))
    side = 40 + size * len(labels)
    return _svg(max(side, 280), side + 10, parts, measure)


def _votes(results: Results, label: str) -> list[tuple[float, float]]:
    """(tokens, maj@k) of an agent."""
    tokens = next(m["tokens"] for m in results["methods"] if m["name"] == f"solo {label}")
    return [
        (tokens * entry["k"], entry["maj"]["value"])
        for entry in results["curves"][label]
        if entry["maj"]["value"] is not None and entry["k"] != 2  # a vote of two is a lot
    ]


def _cells(first: Results, second: Results) -> list[int]:
    """Attempts that both, only the first, only the second, or none has right."""
    counts = [0, 0, 0, 0]
    for problem, row in first.items():
        for a, b in zip(row, second[problem], strict=True):
            if a is not None and b is not None:
                counts[2 * (a == 0) + (b == 0)] += 1
    return counts


def _point(method: Results, number: int, at: Any) -> str:
    estimate, colour = method["accuracy"], COLOURS[method["kind"]]
    x, y = at(method["tokens"], estimate["value"])
    bar = ""
    if estimate["low"] is not None and estimate["high"] is not None:
        (_, low), (_, high) = at(0, estimate["low"]), at(0, estimate["high"])
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
        bar = f'<line {ends} stroke="{colour}"/>'
    title = f"<title>{html.escape(method['name'])}: {100 * estimate['value']:.1f}%</title>"
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}">{title}</circle>'
    return bar + dot + _text(x + 7, y - 5, str(number), size=11)


def _axes(at: Any, most: float) -> str:
    parts = []
    for i in range(5):
        x, y = at(most * i / 4, 0)
        parts.append(_text(x - 14, y + 18, f"{most * i / 4:.0f}", size=11))
        left, height = at(0, i / 4)
        right, _ = at(most, i / 4)
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{height}" y2="{height}" stroke="#ccc"/>'
            + _text(5, height + 4, f"{25 * i}%", size=11)
        )
    x, y = at(most * 0.35, -0.11)
    parts.append(_text(x, y, "tokens per problem (prompts and replies)", size=12))
    return "".join(parts)


def _text(x: float, y: float, text: str, *, size: int = 13, colour: str = "currentColor") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">'
        f"{html.escape(text)}</text>"
    )


def _svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(parts)}</svg>'
    )
