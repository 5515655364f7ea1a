"""Plots of a run as charts: rates and latencies of its processes, telemetry, the curve to saturation."""

import math
from collections.abc import Sequence

import numpy as np

from lynxbench.model.contract import SloMetric
from lynxbench.model.figures import Figure
from lynxbench.model.load_figures import CurvePoint
from lynxbench.model.samples import CountedProcess, Float64
from lynxbench.report import findings
from lynxbench.report.chart import Chart, ChartBand, ChartPanel, ChartTrack
from lynxbench.report.drawn_series import DrawnRate, ProcessSpan, Track, latency_track
from lynxbench.report.svg.load_curve_plot import height_of
from lynxbench.report.svg.rate_plot import MOST_STRIPS, range_of
from lynxbench.report.svg.telemetry_plot import Panel, label_of, range_of_panel, throttled
from lynxbench.report.words import clean


def rates_chart(
    series: Sequence[DrawnRate], figure: Figure | None, unit: str, own: Sequence[CountedProcess], *, served: bool
) -> Chart:
    """The rate of each process in a panel of its own; below, where they may be shown, its latencies."""
    drawn = tuple(series[:MOST_STRIPS])
    known = figure is not None and figure.estimate is not None
    level = (figure.low, figure.estimate, figure.high) if figure is not None and figure.estimate is not None else None
    ends = range_of(drawn, figure)
    panels = [
        ChartPanel(
            f"Process {strip.process}",
            clean(unit),
            [ChartTrack(f"process {strip.process}", strip.at_s.tolist(), _values(strip.per_s))],
            bands=[
                ChartBand(span.start_s, span.end_s, f"phase phase-{span.phase.name.lower()}", span.phase.word)
                for span in strip.spans
                if not span.counted and span.end_s > span.start_s
            ],
            level=level,
            ends=ends,
        )
        for strip in drawn
    ]
    if known and drawn:
        panels += _latency_panels(own[:MOST_STRIPS], drawn[0].window_s, served=served)
    return Chart("s", panels)


def _latency_panels(own: Sequence[CountedProcess], window_s: float, *, served: bool) -> list[ChartPanel]:
    panels = []
    for metric in (SloMetric.LATENCY, SloMetric.TIME_TO_FIRST_TOKEN):
        tracks = [track for process in own if (track := latency_track(process, metric, window_s)) is not None]
        if tracks:
            name = findings.latency_name(metric, served=served)
            panels.append(ChartPanel(f"{name[:1].upper()}{name[1:]}, median", "ms", [_line(track) for track in tracks]))
    return panels


def telemetry_chart(shown: Sequence[Panel], throttles: Sequence[Track], runs: Sequence[ProcessSpan]) -> Chart:
    """What was read beside the run, panel by panel."""
    bands = [ChartBand(run.start_s, run.end_s, "phase", run.precision) for run in runs if run.end_s > run.start_s]
    bands += [ChartBand(a, b, "throttle", label_of(track.name)) for track in throttles for a, b in throttled(track)]
    return Chart(
        "s",
        [
            ChartPanel(
                panel.title,
                panel.unit,
                [_line(track, label_of(track.name)) for track in panel.tracks],
                bands,
                ends=range_of_panel(panel),
            )
            for panel in shown
        ],
    )


def curve_chart(points: Sequence[CurvePoint], passed_per_s: float | None, failed_per_s: float | None) -> Chart:
    """Milliseconds over requests a second; the band lies between the rate that passed and the one that did not."""
    ordered = sorted(points, key=lambda point: point.rate_per_s)
    rates = [point.rate_per_s for point in ordered]
    failed = [place for place, point in enumerate(ordered) if point.outcome != "pass"]
    tracks = [
        ChartTrack(
            name, rates, [None if s is None else s * 1e3 for s in seconds], hollow=failed, hollow_word="not passed"
        )
        for name, seconds in (("p50", [p.p50_s for p in ordered]), ("p99", [p.p99_s for p in ordered]))
    ]
    bands = []
    if passed_per_s is not None and failed_per_s is not None:
        bands = [ChartBand(passed_per_s, failed_per_s, "interval", "saturation")]
    ends = (0.0, height_of(tuple(ordered), passed_per_s))
    return Chart("/s", [ChartPanel("Latency", "ms", tracks, bands, ends=ends)])


def _line(track: Track, name: str = "") -> ChartTrack:
    known = np.isfinite(track.at_s)
    return ChartTrack(name or track.name, track.at_s[known].tolist(), _values(track.values[known]))


def _values(values: Float64) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
