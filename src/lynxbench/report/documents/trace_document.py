"""A trace's attribution: the verdict, steps, the worst gap, the roofline, operators, ranks, faster hardware."""

from dataclasses import dataclass, replace
from functools import partial

from lynxbench import __version__
from lynxbench.model.attribution import Attribution, Category
from lynxbench.model.interval import Interval
from lynxbench.model.trace_detail import Detail, TraceChange
from lynxbench.report import doc, words
from lynxbench.report.doc import Depth, Tone, code, said
from lynxbench.report.documents.attribution_blocks import (
    category_key,
    cause_facts,
    evidence_points,
    mark_of,
    operators_table,
    sentence_of,
    shares_plot,
    takes_work_as_needed,
)
from lynxbench.report.svg.trace_plots import draw_gap, draw_roofline, draw_steps

SHOWN_CHANGES = 12
CAPTION = "Every nanosecond belongs to exactly one category. The profiler's cost is taken out where known."


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank beside the others."""

    rank: int
    step_ms: float | None
    own_ms: float | None
    exposed_communication_ms: float | None
    bottleneck: str
    note: str


@dataclass(frozen=True, slots=True)
class TraceView:
    """Everything that is shown of a trace: plain values, already computed."""

    source: str
    attribution: Attribution
    detail: Detail
    version: str = __version__
    swaps: tuple[tuple[str, Interval], ...] = ()
    swap_sentence: str = ""
    ranks: tuple[RankRow, ...] = ()
    rank_lines: tuple[str, ...] = ()
    change: TraceChange | None = None
    unit: str = "step"


def compose_trace(view: TraceView) -> doc.Report:
    """Where the time of a step goes."""
    attribution = view.attribution
    step = f"{words.digits(attribution.wall_ms_per_step)} ms"
    if view.unit == "step":
        step += " under the profiler"
    if attribution.unprofiled_ms_per_step:
        step += f", {words.digits(attribution.unprofiled_ms_per_step)} ms without"
    return doc.Report(
        f"{words.clean(view.source)} · trace",
        (
            doc.Verdict(
                sentence_of(attribution),
                mark_of(attribution),
                attribution.layer or Tone.WARN,
                cause_facts(attribution),
            ),
            _change(view.change),
            doc.Section("time", "Categories", (replace(shares_plot([("step", attribution.shares)]), caption=CAPTION),)),
            _steps(view.detail),
            _gap(view.detail),
            _roofline(view),
            doc.Section("operators", "Operators and kernels", (operators_table(attribution),))
            if attribution.operators
            else None,
            _movements(view.detail),
            _ranks(view),
            _swaps(view),
            doc.Section("evidence", "Evidence", evidence_points(attribution)),
        ),
        title="Where the time goes",
        brand="lynxbench trace report",
        facts=(
            ("Trace", said(view.source)),
            ("Device", said(view.detail.device)),
            (f"{view.unit.capitalize()}s", f"{words.count(attribution.steps, view.unit)} of {step}"),
        ),
        version=view.version,
        motto="Shares are of time, never credit to a layer.",
    )


def _signed(ms: float) -> str:
    return words.number(ms, min(6, words.decimals_for_digits(ms, 3)), signed=True)


def _change(change: TraceChange | None) -> doc.Section | None:
    if change is None:
        return None
    whose = "not established: no owner is named"
    if change.layer is not None:
        whose = f"lies in layer {change.layer} ({change.owner})"
    elif change.suspects:
        whose = f"not established; {change.suspects[0][0]} ({change.suspects[0][1]}) is the first suspect"
    points = doc.Points(
        [
            said(change.sentence),
            said(f"whose: {whose}"),
            *(said(f"{_signed(ms)} ms: {what}") for what, ms in change.parts),
            *(said(f"layer {layer} ({owner}): {why}") for layer, owner, why in change.suspects),
        ],
        "What makes the difference",
    )
    rows = [
        (
            code(one.name),
            words.digits(one.before_ms) if one.before_ms is not None else "–",
            words.digits(one.after_ms) if one.after_ms is not None else "–",
            _signed(one.ms),
            f"{words.digits(one.before_calls)} → {words.digits(one.after_calls)}",
            one.note,
        )
        for one in change.operators
    ]
    head = ("Operator or kernel", "ms before", "ms now", "Change", "Calls a step", "")
    title = f"Operators and kernels against {words.clean(change.before)}"
    table = doc.Table(head, rows, title, (1, 2, 3, 4), most=SHOWN_CHANGES)
    return doc.Section("against", "Against the earlier trace", (points, table))


def _steps(detail: Detail) -> doc.Section | None:
    if len(detail.steps) < 2:
        return None
    present = [c for c in Category if any(step.spent_ms.get(c, 0.0) > 0 for step in detail.steps)]
    rows = [(step.index, step.ms, *(step.spent_ms.get(c, 0.0) for c in present)) for step in detail.steps]
    head = ("step", "ms", *(category.value for category in present))
    caption = "As profiled. A step that differs from its neighbours is where to look first."
    drawing, legend = partial(draw_steps, detail.steps), category_key(present)
    plot = doc.Plot("step-bars", "Step by step", caption, drawing, head, rows, legend=legend)
    return doc.Section("steps", "Steps", (plot,))


def _gap(detail: Detail) -> doc.Section | None:
    if detail.gap is None:
        return None
    rows = [(part.lane, words.clean(part.name), part.start_us, part.dur_us) for part in detail.gap.stretches]
    caption = "Between the dashed rules no kernel works: the longest such stretch, with what runs around it."
    head, drawing = ("lane", "name", "start µs", "µs"), partial(draw_gap, detail.gap)
    return doc.Section(
        "gap", "Worst gap", (doc.Plot("gap-timeline", "Around the worst gap", caption, drawing, head, rows),)
    )


def _roofline(view: TraceView) -> doc.Section | None:
    detail = view.detail
    if not detail.points or not detail.arithmetic_per_s or not detail.bytes_per_s:
        return None
    rows = [
        (words.clean(dot.name), dot.category.value, dot.intensity, dot.per_s, dot.attainable_per_s, dot.share)
        for dot in detail.points
    ]
    declared = any(ceiling.how.startswith("declared") for ceiling in view.attribution.ceilings)
    roof = "declared for bare kernels of such a device" if declared else "what bare kernels reached on this machine"
    caption = (
        f"Left of the ridge memory binds, right of it arithmetic. The roof is {roof}. The larger a dot, the larger its "
        "share of the step; one above the roof worked from a cache."
    )
    head = ("operator", "bound by", "operations a byte", "operations a second", "attainable", "share")
    drawing = partial(draw_roofline, detail.points, detail.arithmetic_per_s, detail.bytes_per_s)
    legend = category_key(c for c in Category if any(dot.category is c for dot in detail.points))
    plot = doc.Plot("roofline-plot", "Operators under the roof", caption, drawing, head, rows, legend=legend)
    return doc.Section("roofline", "Roofline", (plot,))


def _movements(detail: Detail) -> doc.Section | None:
    if not detail.movements:
        return None
    rows = [
        (
            said(row.name),
            words.digits(row.ms_per_step),
            words.digits(row.exposed_ms_per_step),
            words.scaled_text(row.bytes_per_s, "B/s") if row.bytes_per_s else "unknown",
        )
        for row in detail.movements
    ]
    lead = "Exposed: no kernel ran meanwhile. What is hidden behind kernels costs the step nothing."
    table = doc.Table(
        ("What", "ms a step", "of that exposed", "rate"), rows, "Copies and collectives by kind", (1, 2, 3)
    )
    return doc.Section("movement", "Copies and collectives", (table,), lead, depth=Depth.READ)


def _ranks(view: TraceView) -> doc.Section | None:
    if not view.ranks and not view.rank_lines:
        return None
    rows = [
        (
            str(row.rank),
            words.digits(row.step_ms),
            words.digits(row.own_ms),
            words.digits(row.exposed_communication_ms),
            said(row.bottleneck),
            said(row.note),
        )
        for row in view.ranks
    ]
    head = ("Rank", "Step ms", "Own work ms", "Exposed communication ms", "Bottleneck", "")
    lines = doc.Points([said(line) for line in view.rank_lines], "Ranks")
    return doc.Section(
        "ranks", "Ranks", (lines, doc.Table(head, rows, "Ranks side by side", (1, 2, 3), depth=Depth.READ))
    )


def _swaps(view: TraceView) -> doc.Section | None:
    if not view.swaps:
        return None
    fix = view.attribution
    rows = [(said(name), words.factor_text(gain)) for name, gain in view.swaps]
    change = f"the fix: {fix.next_step}" if not takes_work_as_needed(fix) else "the same work, better done"
    rows.append((said(change), words.factor_text(fix.gain_if_removed)))
    sentence = view.swap_sentence.removeprefix("estimate: ")
    note = f"Estimates by replaying the step under scaled ceilings, never measurements: {sentence}"
    return doc.Section(
        "whatif", "What if", (doc.Table(("Change", "Gain"), rows, "What if: expected gain", (1,), said(note)),)
    )
