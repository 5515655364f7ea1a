"""The load a server was under: every request accounted for, the curve to saturation, the instrument."""

from __future__ import annotations

from functools import partial

from lynxbench.model.load_figures import LoadFigures, SaturationRecord
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.report import doc, findings, words
from lynxbench.report.doc import Depth, Span, said
from lynxbench.report.load_words import budget_text, load_lines
from lynxbench.report.svg.load_curve_plot import draw_curve

MOST_ANSWERS = 10


def load_section(result: Result) -> doc.Section | None:
    """Nothing where no server was asked."""
    blocks = [block for one in result.per_precision if one.load is not None for block in _blocks(one, one.load, result)]
    return doc.Section("load", "Load", blocks) if blocks else None


def _blocks(one: PrecisionResult, load: LoadFigures, result: Result) -> list[doc.Block | None]:
    facts = [(name[:1].upper() + name[1:], Span(text, tone)) for name, text, tone in load_lines(one, result)]
    answers = [(said(text), words.number(many, 0)) for text, many in list(load.accounting.said.items())[:MOST_ANSWERS]]
    counters = [(said(name), words.digits(value, 4)) for name, value in load.server_counters.items()]
    curve = None if load.saturation is None or findings.is_void(result) else curve_plot(load.saturation, load)
    return [
        doc.Facts(facts),
        curve,
        _folded("What failing answers said", doc.Table(("Answer", "Times"), answers, right=(1,))),
        _folded(
            "What the server's own metrics counted during the run",
            doc.Table(("Metric", "Change"), counters, right=(1,)),
        ),
    ]


def _folded(title: str, table: doc.Table) -> doc.Group | None:
    return doc.Group(title, (table,), folded=True, depth=Depth.WHOLE) if table.rows else None


def curve_plot(search: SaturationRecord, load: LoadFigures) -> doc.Plot | None:
    """Latency over the offered rate, between the rate that held and the one that did not."""
    points = tuple(point for point in search.curve if point.p99_s is not None and point.p50_s is not None)
    if len(points) < 2:
        return None
    caption = (
        f"Open-loop Poisson probes; the bound is {budget_text(load)}. Upper line p99, lower line p50 of the first "
        "bounded latency, from the scheduled arrival; failed requests took for ever. Filled: passed; hollow: not."
    )
    data = [
        (p.rate_per_s, p.outcome, p.requests, (p.p50_s or 0) * 1e3, (p.p99_s or 0) * 1e3, p.goodput_per_s)
        for p in points
    ]
    head = ("requests/s", "outcome", "requests", "p50 ms", "p99 ms", "goodput /s")
    drawing = partial(draw_curve, points, search.passed_per_s, search.failed_per_s)
    return doc.Plot("saturation", "Latency over offered rate", caption, drawing, head, data)
