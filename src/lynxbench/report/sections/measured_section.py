"""What was measured: the precision table, what was counted and excluded, and the plots of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lynxbench.model.contract import SloMetric
from lynxbench.model.interval import Interval
from lynxbench.model.result import PrecisionResult, Result, Steady
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.report import accuracy_words, findings, words
from lynxbench.report.drawn_series import (
    DrawnRate,
    counted_ms,
    histogram,
    process_spans,
    rate_series,
    throttle_tracks,
    tracks,
)
from lynxbench.report.economics import HEAD, TITLE, economics_rows
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.section_parts import plot, section, table, wide_cell_row
from lynxbench.report.svg.bar_plots import Dots, draw_counted, draw_peak_and_sustained
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.distribution_plot import draw_distribution
from lynxbench.report.svg.rate_plot import MOST_STRIPS, draw_rates
from lynxbench.report.svg.telemetry_plot import draw_panels, is_drawn, label_of, panels

Cells = list[list[str | int | float]]


def render_precisions(result: Result) -> Safe:
    """All precisions side by side: no speed without the accuracy beside it."""
    metric, accuracy = findings.main_latency(result), accuracy_words.accuracy_metric(result)
    unit = findings.rate_unit(result)
    head = (
        "Precision",
        f"Sustained, {unit}",
        f"Best window, {unit}",
        f"{findings.latency_name(metric, served=findings.is_served(result)).capitalize()}, p50 / p99",
        f"Accuracy ({accuracy})",
        "Memory",
        "Executed as",
    )
    right = {1, 2, 3, 4, 5}
    body: list[Safe] = []
    for one, row in zip(result.per_precision, findings.table_rows(result), strict=True):
        if row.note:
            body.append(wide_cell_row(row.precision.value, said(row.note), len(head) - 1))
            continue
        toned = tag("span", row.accuracy, class_=f"tone-{row.accuracy_tone}")
        memory = words.bytes_text(one.device_memory_bytes or one.memory_bytes)
        cells: list[Child] = [row.sustained, row.peak, row.latency, toned, memory, said(row.executed)]
        body.append(
            tag(
                "tr",
                tag("th", row.precision.value, scope="row"),
                [tag("td", cell, class_="num" if i in right else None) for i, cell in enumerate(cells, start=1)],
            )
        )
    top = tag("tr", [tag("th", n, scope="col", class_="num" if i in right else None) for i, n in enumerate(head)])
    caption = tag("caption", f"At {words.load_text(result.conditions)}", class_="quiet")
    inner = tag("table", caption, tag("thead", top), tag("tbody", body))
    box = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label="Precisions")
    return section("precisions", "Precisions", box, _takes(result), _peaks(result), _fidelity(result))


def _takes(result: Result) -> Safe | None:
    rows = economics_rows(result)
    return table(TITLE, HEAD, rows, (1, 2, 3, 5)) if rows else None


def _fidelity(result: Result) -> Safe | None:
    measured = [one for one in findings.shown(result) if one.accuracy is not None]
    names = sorted({name for one in measured if one.accuracy for name in one.accuracy.metrics})
    if not names:
        return None
    rows = [
        [
            one.precision.value,
            *(
                accuracy_words.metric_text(n, one.accuracy.metrics.get(n)) if n in one.accuracy.metrics else "–"
                for n in names
            ),
            one.accuracy.verdict,
        ]
        for one in measured
        if one.accuracy is not None
    ]
    inputs = "; ".join(dict.fromkeys(words.clean(one.accuracy.inputs) for one in measured if one.accuracy))
    head = ["Precision", *(name.replace("-", " ").capitalize() for name in names), "Verdict"]
    shown = table("Accuracy against the reference precision", head, rows, range(1, len(names) + 1))
    summary = tag("summary", "All accuracy metrics")
    return tag("details", summary, shown, tag("p", "Inputs: ", said(inputs), class_="quiet"))


def _peaks(result: Result) -> Safe | None:
    rows = tuple(_dots(one) for one in findings.shown(result))
    if not rows:
        return None
    unit = findings.rate_unit(result)
    title = "Peak against sustained"
    pictures = [draw_peak_and_sustained(rows, unit, title, width) for width in (WIDE, NARROW)]
    held = (
        "the sustained rate" if all(row.steady for row in rows) else "the sustained rate, or the mean where not steady,"
    )
    caption = (
        f"Dot and whiskers: {held} with its interval. Ticks below: each fresh process. "
        f"Diamond: the best window, an envelope that the stack did not hold. At {words.load_text(result.conditions)}."
    )
    data: Cells = [[row.name, row.held.low, row.held.estimate, row.held.high, row.peak] for row in rows]
    return plot("peak-sustained", title, caption, pictures, ("precision", "low", "estimate", "high", "peak"), data)


def _dots(one: PrecisionResult) -> Dots:
    held = one.sustained or one.throughput
    peak = one.peak.estimate if one.peak is not None and one.peak.estimate is not None else math.nan
    interval = held.interval if held is not None else Interval(math.nan, math.nan, math.nan)
    return Dots(one.precision.value, interval, peak, one.run_means, one.sustained is not None)


def render_counted(result: Result) -> Safe:
    """What was executed, what of it was counted, what was excluded and why."""
    bars, rows = [], []
    for one in result.per_precision:
        if one.steady is None:
            continue
        bars.append((one.precision.value, _phases(one.steady)))
        drift, governed, tone = findings.stability_line(one)
        counted, excluded = findings.counted_line(one)
        iterations = words.number(one.steady.counted_iterations, 0)
        verdict = tag("span", drift, class_=f"tone-{tone}")
        rows.append([one.precision.value, counted, iterations, excluded, verdict, said(governed)])
    if not bars:
        return section("counted", "Counted and excluded", tag("p", "Nothing was executed to the end.", class_="empty"))
    title = "Executed time by phase"
    pictures = [draw_counted(tuple(bars), title, width) for width in (WIDE, NARROW)]
    data: Cells = [[name, phase, seconds] for name, phases in bars for phase, seconds in phases]
    caption = "Sum over all fresh processes of a precision. Only the solid part enters a figure."
    head = ("Precision", "Counted", "Iterations", "Excluded", "Stability", "Governed by")
    return section(
        "counted",
        "Counted and excluded",
        plot("phases", title, caption, pictures, ("precision", "phase", "seconds"), data),
        table("Counted, excluded and stability by precision", head, rows, (2,)),
    )


def _phases(steady: Steady) -> tuple[tuple[str, float], ...]:
    excluded = tuple((words.clean(part.phase), part.seconds) for part in steady.excluded)
    return tuple((n, s) for n, s in (*excluded, ("counted", steady.counted_s)) if math.isfinite(s) and s >= 0)


# --- plots ----------------------------------------------------------------------------------------------------------


def render_plots(result: Result, processes: Sequence[CountedProcess], telemetry: Telemetry | None) -> Safe:
    """The samples themselves: rate over time, latency, and what was read beside the run."""
    figures: list[Child] = []
    for one in result.per_precision:
        own = [p for p in processes if p.samples.precision == one.precision.value]
        if own:
            figures.append(_rates(one, own, result))
            figures.append(_latencies(one, own, result))
    figures.append(_telemetry(telemetry, processes))
    if not processes:
        figures.insert(0, tag("p", "The samples were not at hand when this report was written.", class_="empty"))
    return section("plots", "Plots", figures)


def _rates(one: PrecisionResult, own: Sequence[CountedProcess], result: Result) -> Safe:
    series = tuple(rate_series(process, result.contract.protocol.steady.window_s) for process in own)
    usable = findings.is_shown(one, result)
    unit = findings.rate_unit(result) if usable else "% of the process’s own middle"
    if not usable:
        series = tuple(_relative(each) for each in series)
    figure = (one.sustained or one.throughput) if usable else None
    title = f"Rate over time, {one.precision}"
    pictures = [draw_rates(series, figure, unit, title, width) for width in (WIDE, NARROW)]
    window = max((each.window_s for each in series), default=0.0)
    caption = f"{unit[:1].upper()}{unit[1:]}, means of {words.seconds_text(window)}; shaded: executed, not counted; "
    caption += (
        "dashed: the figure with its interval." if usable else "relative only, because no rate of this run may be used."
    )
    if len(own) > MOST_STRIPS:
        caption += f" The first {MOST_STRIPS} of {len(own)} processes are drawn; all are in the samples file."
    data: Cells = [
        [each.process, round(float(at), 3), float(v)]
        for each in series
        for at, v in zip(each.at_s, each.per_s, strict=True)
    ]
    return plot(f"rate-{one.precision}", title, caption, pictures, ("process", "seconds", unit), data)


def _relative(series: DrawnRate) -> DrawnRate:
    known = sorted(float(v) for v in series.per_s if math.isfinite(v))
    middle = known[len(known) // 2] if known else 1.0
    scaled = series.per_s / (middle or 1.0) * 100
    return DrawnRate(
        series.process, series.precision, series.at_s, scaled, series.spans, series.window_s, series.length_s
    )


def _latencies(one: PrecisionResult, own: Sequence[CountedProcess], result: Result) -> Safe | None:
    if not findings.is_shown(one, result):
        return None
    metric = findings.main_latency(result)
    if metric is SloMetric.TIME_PER_TOKEN and not any(len(p.samples.marks.at_ns) for p in own):
        metric = SloMetric.LATENCY
    found = histogram([counted_ms(process, metric, served=one.load is not None) for process in own], metric)
    if found is None:
        return None
    marks = one.latency_ms.get(metric, ())
    limit = next((s.at_most_s * 1e3 for s in result.contract.objective.slo if s.metric == metric), None)
    name = findings.latency_name(metric, served=findings.is_served(result))
    title = f"{name[:1].upper()}{name[1:]}, {one.precision}"
    pictures = [draw_distribution(found, marks, limit, title, width) for width in (WIDE, NARROW)]
    open_ones = [words.percentile_name(m.percentile) for m in marks if not m.resolved]
    caption = (
        f"{words.number(found.total, 0)} counted samples; above how many, below the share at or under each value, "
    )
    caption += "with percentiles and their intervals."
    if found.beyond:
        caption += f" {words.count(found.beyond, 'sample lies', 'samples lie')} beyond the axis."
    if limit is not None:
        caption += f" The objective’s limit is {words.digits(limit)} ms."
    if open_ones:
        caption += f" Unresolved, too few independent samples: {', '.join(open_ones)}."
    data: Cells = [
        [float(a), float(b), int(n)] for a, b, n in zip(found.edges_ms, found.edges_ms[1:], found.counts, strict=False)
    ]
    return plot(f"latency-{one.precision}", title, caption, pictures, ("from ms", "to ms", "samples"), data)


def _telemetry(telemetry: Telemetry | None, processes: Sequence[CountedProcess]) -> Safe:
    read = tracks(telemetry) if telemetry is not None else ()
    shown = panels(read)
    if not shown:
        return tag("p", "No telemetry was read beside this run.", class_="empty")
    throttles = throttle_tracks(telemetry) if telemetry is not None else ()
    runs = process_spans(processes, telemetry)
    title = "Telemetry"
    pictures = [draw_panels(shown, throttles, runs, title, width) for width in (WIDE, NARROW)]
    caption = "Read beside the run on the same clock; grey bands are the processes, one after the other. "
    if throttles:
        caption += f"Red bands: throttled ({', '.join(label_of(t.name) for t in throttles)})."
    else:
        caption += "No throttling was seen in what could be read."
    silent = (
        [] if telemetry is None else [n for n in telemetry.columns if is_drawn(n) and n not in {t.name for t in read}]
    )
    if silent:
        caption += f" Not readable here: {', '.join(label_of(name) for name in silent)}."
    data: Cells = [
        [words.clean(t.name)[:60], round(float(at), 3), float(v)]
        for t in read
        for at, v in zip(t.at_s, t.values, strict=True)
    ]
    return plot("telemetry", title, caption, pictures, ("column", "seconds", "value"), data)
