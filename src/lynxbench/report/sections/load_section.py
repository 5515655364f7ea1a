"""The load a server was under: every request accounted for, the curve to saturation, the instrument, in HTML."""

from __future__ import annotations

from lynxbench.model.load_figures import LoadFigures, SaturationRecord
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.report import findings, words
from lynxbench.report.load_words import budget_text, load_lines
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.section_parts import plot, section, table
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.load_curve_plot import draw_curve

MOST_SAYINGS = 10


def render_load(result: Result) -> Safe | None:
    """Nothing where no server was asked."""
    asked = [one for one in result.per_precision if one.load is not None]
    if not asked:
        return None
    return section("load", "Load", [_one(one, result) for one in asked])


def _one(one: PrecisionResult, result: Result) -> list[Child]:
    load = one.load
    assert load is not None
    rows = [
        [name[:1].upper() + name[1:], tag("span", said(text), class_=f"tone-{tone}")]
        for name, text, tone in load_lines(one, result)
    ]
    parts: list[Child] = [table(f"At {words.load_text(result.conditions)}", ("", "What was seen"), rows)]
    if load.saturation is not None and not findings.is_void(result):
        parts.append(_curve(load.saturation, load))
    parts.append(_failures(load))
    parts.append(_told(load))
    return parts


def _curve(found: SaturationRecord, load: LoadFigures) -> Safe | None:
    points = [p for p in found.curve if p.p99_s is not None and p.p50_s is not None]
    if len(points) < 2:
        return None
    title = "Latency over offered rate"
    pictures = [
        draw_curve(tuple(points), found.passed_per_s, found.failed_per_s, title, width) for width in (WIDE, NARROW)
    ]
    caption = (
        f"Open-loop Poisson probes; the bound is {budget_text(load)}. Upper line p99, lower line p50 of the first "
        "bounded latency, from the scheduled arrival; failed requests took for ever. Filled: passed; hollow: not."
    )
    data: list[list[str | int | float]] = [
        [p.rate_per_s, p.outcome, p.requests, (p.p50_s or 0) * 1e3, (p.p99_s or 0) * 1e3, p.goodput_per_s]
        for p in points
    ]
    head = ("requests/s", "outcome", "requests", "p50 ms", "p99 ms", "goodput /s")
    return plot("saturation", title, caption, pictures, head, data)


def _failures(load: LoadFigures) -> Safe | None:
    if not load.accounting.said:
        return None
    rows = [[said(text), words.number(many, 0)] for text, many in list(load.accounting.said.items())[:MOST_SAYINGS]]
    summary = tag("summary", "What failing answers said")
    return tag("details", summary, table("What failing answers said", ("Answer", "Times"), rows, (1,)))


def _told(load: LoadFigures) -> Safe | None:
    if not load.server_counters:
        return None
    rows = [[said(name), words.digits(value, 4)] for name, value in load.server_counters.items()]
    summary = tag("summary", "What the server's own metrics counted during the run")
    return tag("details", summary, table("Server metrics over the run", ("Metric", "Change"), rows, (1,)))
