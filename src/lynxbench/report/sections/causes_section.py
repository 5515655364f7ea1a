"""Where the time goes: exclusive categories, operators against their ceilings, the evidence for the verdict."""

from __future__ import annotations

import math

from lynxbench.model.attribution import Attribution, Category
from lynxbench.model.result import Result
from lynxbench.report import findings, words
from lynxbench.report.four_answers import category_name
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.palette import category_class
from lynxbench.report.sections.section_parts import bullets, chip, plot, section, table
from lynxbench.report.svg.bar_plots import draw_efficiency, draw_shares
from lynxbench.report.svg.canvas import NARROW, WIDE

MOST_OPERATORS = 12


def render_causes(result: Result) -> Safe:
    """Shares are of time, never credit to a layer; the remainder is shown."""
    heading = "Where the time goes"
    if findings.is_void(result):
        return section("time", heading, tag("p", "Not shown: the run is void.", class_="empty"), _ceilings(result))
    named = _attributions(result)
    if not named:
        return section(
            "time", heading, tag("p", "Not measured: no profile was read.", class_="empty"), _ceilings(result)
        )
    found = result.attribution or named[0][1]
    basis = f"A pass of its own over {words.count(found.steps, 'step')}; it supplies no timing figure. "
    overhead = ""
    if found.unprofiled_ms_per_step:
        slower = found.wall_ms_per_step / found.unprofiled_ms_per_step - 1
        overhead = (
            f"A step took {words.digits(found.wall_ms_per_step)} ms under the profiler, "
            f"{words.digits(found.unprofiled_ms_per_step)} ms without it ({words.percent(slower, signed=True)})."
        )
    body: list[Child] = [_shares(named), _evidence(found), _efficiency(found), _operators(found), _ceilings(result)]
    return section("time", heading, body, lead=basis + overhead)


def _attributions(result: Result) -> list[tuple[str, Attribution]]:
    named = [(one.precision.value, one.attribution) for one in findings.shown(result) if one.attribution is not None]
    if not named and result.attribution is not None:
        named = [(findings.attributed_precision(result) or "step", result.attribution)]
    return named


def _shares(named: list[tuple[str, Attribution]]) -> Safe:
    title = "Share of a step by category"
    bars = tuple((name, found.shares) for name, found in named)
    pictures = [draw_shares(bars, title, width) for width in (WIDE, NARROW)]
    present = [c for c in Category if any(found.shares.get(c, 0.0) > 0 for _, found in named)]
    legend = tag(
        "ul",
        [
            tag(
                "li",
                tag("span", class_=f"swatch {category_class(category)}"),
                tag("span", category_name(category)),
                [
                    tag("span", f"{words.percent(f.shares.get(category, 0.0))}", class_="num")
                    if len(named) == 1
                    else tag("span", f"{name} {words.percent(f.shares.get(category, 0.0))}", class_="num")
                    for name, f in named
                ],
            )
            for category in present
        ],
        class_="legend",
    )
    data: list[list[str | int | float]] = [
        [name, category_name(category), found.shares.get(category, 0.0)]
        for name, found in named
        for category in present
    ]
    caption = "Every nanosecond belongs to exactly one category. Shares are of time, not credit to a layer."
    return plot("shares", title, caption, [*pictures, legend], ("precision", "category", "share"), data)


def _evidence(found: Attribution) -> Safe | None:
    if not found.evidence and not found.candidates:
        return None
    others = [[chip(c.layer), " ", said(c.owner), ": ", said(c.reason)] for c in found.candidates]
    return tag(
        "div",
        tag("h3", "Evidence for the verdict"),
        bullets([said(item) for item in found.evidence]),
        [tag("h3", "Other candidates"), bullets(others)] if others else None,
        class_="prose",
    )


def _efficiency(found: Attribution) -> Safe | None:
    rows = tuple(
        (words.clean(op.name), op.category, op.share, op.efficiency)
        for op in sorted(found.operators, key=lambda op: -op.share)
        if op.efficiency is not None and math.isfinite(op.efficiency)
    )[:MOST_OPERATORS]
    if not rows:
        return None
    title = "Achieved against the ceiling"
    pictures = [draw_efficiency(rows, title, width) for width in (WIDE, NARROW)]
    caption = (
        "Filled: the share of its roofline that an operator reached, by ceilings measured here in this run. "
        "The outline is the envelope of a bare kernel, not a promise for the workload."
    )
    data: list[list[str | int | float]] = [[name, str(c), share, efficiency] for name, c, share, efficiency in rows]
    head = ("operator", "category", "share of a step", "share of the ceiling")
    return plot("roofline", title, caption, pictures, head, data)


def _operators(found: Attribution) -> Safe | None:
    if not found.operators:
        return None
    chosen = sorted(found.operators, key=lambda op: -op.share)[:MOST_OPERATORS]
    rows: list[list[Child]] = [
        [
            tag("code", words.clean(op.name)),
            [tag("span", class_=f"swatch {category_class(op.category)}"), " ", category_name(op.category)],
            words.digits(op.calls_per_step),
            words.digits(op.ms_per_step),
            words.percent(op.share),
            words.percent(op.efficiency) if op.efficiency is not None else "unknown",
        ]
        for op in chosen
    ]
    head = ("Operator", "Category", "Calls a step", "ms a step", "Share", "Of its ceiling")
    inner = table("Operators with the most exclusive time", head, rows, (2, 3, 4, 5))
    return tag("details", tag("summary", f"Operators ({len(chosen)} of {len(found.operators)})"), inner)


def _ceilings(result: Result) -> Safe | None:
    if not result.ceilings:
        return None
    rows: list[list[Child]] = [
        [
            said(ceiling.name),
            ceiling.precision.value if ceiling.precision else "–",
            words.scaled_text(ceiling.per_s, ceiling.unit),
            said(ceiling.how),
        ]
        for ceiling in result.ceilings
    ]
    inner = table(
        "Measured envelope: bare kernels, not the workload", ("Kernel", "Precision", "Rate", "How"), rows, (2,)
    )
    return tag("details", tag("summary", "Measured ceilings of this executor"), inner)
