"""A trace's attribution as one self-contained page: verdict, steps, worst gap, roofline, operators, ranks, what-if."""

from __future__ import annotations

from collections.abc import Sequence

from lynxbench.model.attribution import Attribution, Category
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.page import render_page
from lynxbench.report.palette import category_class
from lynxbench.report.sections.section_parts import bullets, chip, fact, plot, section, table
from lynxbench.report.svg.bar_plots import draw_shares
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.trace_sections.plots import draw_gap, draw_roofline, draw_steps
from lynxbench.report.trace_view import TraceView


def render_trace_html(view: TraceView) -> str:
    """The page as one HTML text that opens without a network and runs nothing."""
    body = tag(
        "body",
        _header(view),
        tag(
            "main",
            _verdict(view.attribution),
            _shares(view),
            _steps(view),
            _gap(view),
            _roofline(view),
            _operators(view.attribution),
            _movements(view),
            _ranks(view),
            _swaps(view),
            _evidence(view.attribution),
        ),
        tag("footer", tag("p", f"lynxbench {words.clean(view.version)}. Shares are of time, never credit to a layer.")),
    )
    return render_page(f"{words.clean(view.source)} · lynxbench trace", body)


def _header(view: TraceView) -> Safe:
    found = view.attribution
    facts = tag(
        "dl",
        fact("Trace", said(view.source)),
        fact("Device", said(view.device)),
        fact("Steps", words.count(found.steps, "step"), f" of {words.digits(found.wall_ms_per_step)} ms"),
        class_="facts",
    )
    return tag("header", tag("p", "lynxbench trace report", class_="brand"), tag("h1", "Where the time goes"), facts)


def _verdict(found: Attribution) -> Safe:
    tone = f"layer-{found.layer}" if found.layer else "tone-warn"
    cause: Child = "not established: no owner is named"
    if found.layer is not None:
        cause = [chip(found.layer), " ", said(found.owner or "")]
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict-title", class_="eyebrow"),
        tag("p", said(found.sentence), class_="headline"),
        tag(
            "dl",
            fact("Cause owned by", cause),
            fact("Symptom seen in", chip(found.symptom_layer)) if found.symptom_layer is not None else None,
            fact("Next step", said(found.next_step)),
            fact("Expected gain", words.factor_text(found.gain_if_removed), " if the bottleneck were removed"),
            class_="facts owners",
        ),
        id="verdict",
        class_=f"verdict {tone}",
        aria_labelledby="verdict-title",
    )


def _legend(shares: dict[Category, float]) -> Safe:
    items = [
        tag(
            "li",
            tag("span", class_=f"swatch {category_class(category)}"),
            tag("span", category.value.replace("_", " ")),
            tag("span", words.percent(share), class_="num"),
        )
        for category, share in sorted(shares.items(), key=lambda item: -item[1])
        if share > 0
    ]
    return tag("ul", items, class_="legend")


def _key(categories: Sequence[Category]) -> Safe:
    """Colours in words, for pictures that stand far from the legend with the shares."""
    items = [
        tag("li", tag("span", class_=f"swatch {category_class(c)}"), tag("span", c.value.replace("_", " ")))
        for c in categories
    ]
    return tag("ul", items, class_="legend")


def _shares(view: TraceView) -> Safe:
    title = "Share of a step by category"
    shares = view.attribution.shares
    pictures: list[Safe] = [draw_shares((("step", shares),), title, width) for width in (WIDE, NARROW)]
    data: list[list[str | int | float]] = [[category.value, share] for category, share in shares.items()]
    caption = "Every nanosecond belongs to exactly one category. The profiler's cost is taken out where known."
    return section(
        "time", "Categories", plot("shares", title, caption, [*pictures, _legend(shares)], ("category", "share"), data)
    )


def _steps(view: TraceView) -> Safe | None:
    if len(view.steps) < 2:
        return None
    title = "Step by step"
    pictures = [draw_steps(view.steps, title, width) for width in (WIDE, NARROW)]
    present = [c for c in Category if any(step.spent_ms.get(c, 0.0) > 0 for step in view.steps)]
    pictures.append(_key(present))
    data: list[list[str | int | float]] = [
        [step.index, step.ms, *(step.spent_ms.get(c, 0.0) for c in present)] for step in view.steps
    ]
    head = ("step", "ms", *(c.value for c in present))
    caption = "As profiled. A step that differs from its neighbours is where to look first."
    return section("steps", "Steps", plot("step-bars", title, caption, pictures, head, data))


def _gap(view: TraceView) -> Safe | None:
    if view.gap is None:
        return None
    title = "Around the worst gap"
    pictures = [draw_gap(view.gap, title, width) for width in (WIDE, NARROW)]
    data: list[list[str | int | float]] = [
        [s.lane, words.clean(s.name), s.start_us, s.dur_us] for s in view.gap.stretches
    ]
    caption = "Between the dashed rules no kernel works: the longest such stretch, with what runs around it."
    return section(
        "gap", "Worst gap", plot("gap-timeline", title, caption, pictures, ("lane", "name", "start µs", "µs"), data)
    )


def _roofline(view: TraceView) -> Safe | None:
    if not view.dots or not view.arithmetic_per_s or not view.bytes_per_s:
        return None
    title = "Operators under the roof"
    pictures = [draw_roofline(view.dots, view.arithmetic_per_s, view.bytes_per_s, title, w) for w in (WIDE, NARROW)]
    data: list[list[str | int | float]] = [
        [words.clean(d.name), d.category.value, d.intensity, d.per_s, d.attainable_per_s, d.share] for d in view.dots
    ]
    head = ("operator", "bound by", "operations a byte", "operations a second", "attainable", "share")
    declared = any(ceiling.how.startswith("declared") for ceiling in view.attribution.ceilings)
    roof = "declared for bare kernels of such a device" if declared else "what bare kernels reached on this machine"
    caption = (
        f"Left of the ridge memory binds, right of it arithmetic. The roof is {roof}. The larger a dot, the larger its "
        "share of the step; one above the roof worked from a cache."
    )
    present = [c for c in Category if any(dot.category is c for dot in view.dots)]
    pictures.append(_key(present))
    return section("roofline", "Roofline", plot("roofline-plot", title, caption, pictures, head, data))


def _operators(found: Attribution) -> Safe | None:
    if not found.operators:
        return None
    rows: list[list[Child]] = [
        [
            tag("code", words.clean(op.name)),
            [tag("span", class_=f"swatch {category_class(op.category)}"), " ", op.category.value.replace("_", " ")],
            words.digits(op.calls_per_step),
            words.digits(op.ms_per_step),
            words.percent(op.share),
            words.percent(op.efficiency) if op.efficiency is not None else "unknown",
        ]
        for op in found.operators
    ]
    head = ("Operator or kernel", "Bound by", "Calls a step", "ms a step", "Share", "Of its ceiling")
    return section(
        "operators", "Operators and kernels", table("Those with the most exclusive time", head, rows, (2, 3, 4, 5))
    )


def _movements(view: TraceView) -> Safe | None:
    if not view.movements:
        return None
    rows: list[list[Child]] = [
        [
            said(row.name),
            words.digits(row.ms_per_step),
            words.digits(row.exposed_ms_per_step),
            words.scaled_text(row.bytes_per_s, "B/s") if row.bytes_per_s else "unknown",
        ]
        for row in view.movements
    ]
    head = ("What", "ms a step", "of that exposed", "rate")
    lead = "Exposed: no kernel ran meanwhile. What is hidden behind kernels costs the step nothing."
    return section("movement", "Copies and collectives", table("By kind", head, rows, (1, 2, 3)), lead=lead)


def _ranks(view: TraceView) -> Safe | None:
    if not view.ranks:
        return None
    rows: list[list[Child]] = [
        [
            str(row.number),
            words.digits(row.step_ms),
            words.digits(row.own_ms),
            words.digits(row.exposed_ms),
            said(row.bottleneck),
            said(row.note),
        ]
        for row in view.ranks
    ]
    head = ("Rank", "Step ms", "Own work ms", "Exposed communication ms", "Bottleneck", "")
    body = table("Ranks side by side", head, rows, (1, 2, 3))
    return section("ranks", "Ranks", bullets([said(line) for line in view.rank_lines]), body)


def _swaps(view: TraceView) -> Safe | None:
    if not view.swaps:
        return None
    fix = view.attribution
    rows: list[list[Child]] = [[said(name), words.factor_text(gain)] for name, gain in view.swaps]
    rows.append([said(f"the fix: {fix.next_step}"), words.factor_text(fix.gain_if_removed)])
    body = table("Expected gain", ("Change", "Gain"), rows, (1,))
    said_so = view.swap_sentence.removeprefix("estimate: ")
    lead = f"Estimates by replaying the step under scaled ceilings, never measurements: {said_so}"
    return section("whatif", "What if", body, lead=lead)


def _evidence(found: Attribution) -> Safe:
    others = [[chip(c.layer), " ", said(c.owner), ": ", said(c.reason)] for c in found.candidates]
    body: list[Child] = [bullets([said(line) for line in found.evidence])]
    if others:
        body += [tag("h3", "Candidate layers"), bullets(others)]
    return section("evidence", "Evidence", tag("div", body, class_="prose"))
