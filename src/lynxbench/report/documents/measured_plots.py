"""Plots of a run: peak against sustained, phases, and the samples themselves with what was read beside them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

from lynxbench.model.contract import SloMetric
from lynxbench.model.endurance import Endurance
from lynxbench.model.interval import Interval
from lynxbench.model.result import PrecisionResult, Result, Steady
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.report import findings, words
from lynxbench.report.doc import Block, Depth, Note, Plot, Section, Style
from lynxbench.report.documents.measured_charts import rates_chart, telemetry_chart
from lynxbench.report.drawn_series import (
    DrawnRate,
    counted_ms,
    first_share_of,
    histogram,
    process_spans,
    rate_series,
    throttle_tracks,
    tracks,
)
from lynxbench.report.svg.bar_plots import Dots, draw_counted, draw_peak_and_sustained
from lynxbench.report.svg.distribution_plot import draw_distribution
from lynxbench.report.svg.rate_plot import MOST_STRIPS, draw_rates
from lynxbench.report.svg.telemetry_plot import draw_panels, is_drawn, label_of, panels


def peak_plot(result: Result) -> Plot:
    """What was held, and the best window that was not."""
    rows = tuple(_dots(figures) for figures in findings.shown(result))
    held = (
        "the sustained rate" if all(row.steady for row in rows) else "the sustained rate, or the mean where not steady,"
    )
    caption = (
        f"Dot and whiskers: {held} with its interval. Ticks below: each fresh process. "
        f"Diamond: the best window, an envelope that the stack did not hold. At {words.load_text(result.conditions)}."
    )
    data = [(row.name, row.held.low, row.held.estimate, row.held.high, row.peak) for row in rows]
    head = ("precision", "low", "estimate", "high", "peak")
    drawing = partial(draw_peak_and_sustained, rows, findings.rate_unit(result))
    return Plot("peak-sustained", "Peak against sustained", caption, drawing, head, data)


def _dots(figures: PrecisionResult) -> Dots:
    held = figures.sustained or figures.throughput
    best = findings.best_window(figures)
    peak = math.nan if best is None or best.estimate is None else best.estimate
    interval = held.interval if held is not None else Interval(math.nan, math.nan, math.nan)
    return Dots(figures.precision.value, interval, peak, figures.run_means, figures.sustained is not None)


def phases_plot(result: Result) -> Plot | None:
    """Executed seconds by phase."""
    bars = tuple(
        (figures.precision.value, _phases(figures.steady))
        for figures in result.per_precision
        if figures.steady is not None
    )
    if not bars:
        return None
    data = [(name, phase, seconds) for name, phases in bars for phase, seconds in phases]
    caption = "Sum over all fresh processes of a precision. Only the solid part enters a figure."
    head = ("precision", "phase", "seconds")
    return Plot("phases", "Executed time by phase", caption, partial(draw_counted, bars), head, data)


def _phases(steady: Steady) -> tuple[tuple[str, float], ...]:
    excluded = tuple((words.clean(part.phase), part.seconds) for part in steady.excluded)
    return tuple((n, s) for n, s in (*excluded, ("counted", steady.counted_s)) if math.isfinite(s) and s >= 0)


def plots_section(
    result: Result, processes: Sequence[CountedProcess], telemetry: Telemetry | None, missing: str
) -> Section:
    """The samples themselves: rate over time, latency, and what was read beside the run."""
    blocks: list[Block | None] = []
    if missing:
        blocks.append(Note(f"No plot is drawn from samples: {words.clean(missing)}", Style.EMPTY))
    elif not processes:
        blocks.append(Note("The samples were not at hand when this report was written.", Style.EMPTY))
    for figures in result.per_precision:
        own = [process for process in processes if process.samples.precision == figures.precision.value]
        if own and figures.endurance is not None:
            blocks.append(_rates(figures, _stretches(own[0], figures.endurance), result))
        elif own:
            blocks += [_rates(figures, own, result), _latencies(figures, own, result)]
    blocks.append(None if missing else _telemetry(telemetry, processes))
    return Section("plots", "Plots", blocks, depth=Depth.WHOLE)


def _rates(figures: PrecisionResult, own: Sequence[CountedProcess], result: Result) -> Plot:
    series = tuple(rate_series(process, result.contract.protocol.steady.window_s) for process in own)
    usable = findings.is_shown(figures, result)
    unit = findings.rate_unit(result) if usable else "% of the process’s own middle"
    if not usable:
        series = tuple(_relative(each) for each in series)
    figure = (figures.sustained or figures.throughput) if usable else None
    window = words.seconds_text(max((each.window_s for each in series), default=0.0))
    last = (
        "dashed: the figure with its interval." if usable else "relative only, because no rate of this run may be used."
    )
    caption = f"{unit[:1].upper()}{unit[1:]}, means of {window}; shaded: executed, not counted; {last}"
    if len(own) > MOST_STRIPS:
        caption += f" The first {MOST_STRIPS} of {len(own)} processes are drawn; all are in the samples file."
    data = [
        (each.process, round(float(at), 3), float(rate))
        for each in series
        for at, rate in zip(each.at_s, each.per_s, strict=True)
    ]
    drawing, head = partial(draw_rates, series, figure, unit), ("process", "seconds", unit)
    chart, name = rates_chart(series, figure, unit, own, served=figures.load is not None), f"rate-{figures.precision}"
    return Plot(name, f"Rate over time, {figures.precision}", caption, drawing, head, data, chart=chart)


def _stretches(process: CountedProcess, endurance: Endurance) -> list[CountedProcess]:
    """A strip for every stretch that was measured without a break, each from its own first slice."""
    ends = list(accumulate(stretch.slices for stretch in endurance.stretches))
    strips = []
    for first, last in pairwise([0, *ends]):
        rows = process.samples.iterations.part(first, last)
        if len(rows):
            begun = int(rows.start_ns[0])
            samples = replace(process.samples, iterations=rows, setup_ns=(begun, begun), compile_ns=None)
            strips.append(CountedProcess(samples, process.phase[first:last]))
    return strips


def _relative(series: DrawnRate) -> DrawnRate:
    known = sorted(float(rate) for rate in series.per_s if math.isfinite(rate))
    middle = known[len(known) // 2] if known else 1.0
    return replace(series, per_s=series.per_s / (middle or 1.0) * 100)


def _latencies(figures: PrecisionResult, own: Sequence[CountedProcess], result: Result) -> Plot | None:
    if not findings.is_shown(figures, result):
        return None
    metric = findings.main_latency(result)
    if metric is SloMetric.TIME_PER_TOKEN and not any(len(process.samples.marks.at_ns) for process in own):
        metric = SloMetric.LATENCY
    share = first_share_of(figures)
    served = figures.load is not None
    bins = histogram([counted_ms(process, metric, served=served, first_share=share) for process in own], metric)
    if bins is None:
        return None
    marks = figures.latency_ms.get(metric, ())
    limit = next((slo.at_most_s * 1e3 for slo in result.contract.objective.slo if slo.metric == metric), None)
    name = findings.latency_name(metric, served=findings.is_served(result))
    unresolved = [words.percentile_name(mark.percentile) for mark in marks if not mark.resolved]
    caption = (
        f"{words.number(bins.total, 0)} counted samples; above how many, below the share at or under each value, "
        "with percentiles and their intervals."
    )
    if bins.beyond:
        caption += f" {words.count(bins.beyond, 'sample lies', 'samples lie')} beyond the axis."
    if limit is not None:
        caption += f" The objective’s limit is {words.digits(limit)} ms."
    if unresolved:
        caption += f" Unresolved, too few independent samples: {', '.join(unresolved)}."
    edges = bins.edges_ms
    data = [(float(a), float(b), int(many)) for a, b, many in zip(edges, edges[1:], bins.counts, strict=False)]
    title, drawing = (
        f"{name[:1].upper()}{name[1:]}, {figures.precision}",
        partial(draw_distribution, bins, marks, limit),
    )
    return Plot(f"latency-{figures.precision}", title, caption, drawing, ("from ms", "to ms", "samples"), data)


def _telemetry(telemetry: Telemetry | None, processes: Sequence[CountedProcess]) -> Block:
    read = tracks(telemetry) if telemetry is not None else ()
    drawn = panels(read)
    if telemetry is None or not drawn:
        return Note("No telemetry was read beside this run.", Style.EMPTY)
    throttles = throttle_tracks(telemetry)
    caption = "Read beside the run on the same clock; grey bands are the processes, one after the other. "
    if throttles:
        caption += f"Red bands: throttled ({', '.join(label_of(track.name) for track in throttles)})."
    else:
        caption += "No throttling was seen in what could be read."
    known = {track.name for track in read}
    silent = [label_of(name) for name in telemetry.columns if is_drawn(name) and name not in known]
    if silent:
        caption += f" Not readable here: {', '.join(silent)}."
    data = [
        (words.clean(track.name)[:60], round(float(at), 3), float(value))
        for track in read
        for at, value in zip(track.at_s, track.values, strict=True)
    ]
    spans = process_spans(processes, telemetry)
    drawing, chart = partial(draw_panels, drawn, throttles, spans), telemetry_chart(drawn, throttles, spans)
    return Plot("telemetry", "Telemetry", caption, drawing, ("column", "seconds", "value"), data, chart=chart)
