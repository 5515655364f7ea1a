"""The rate over time, one strip a process: excluded phases shaded, the sustained figure with its interval across."""

import math

import numpy as np

from lynxbench.model.figures import Figure
from lynxbench.model.samples import Float64, Phase
from lynxbench.report.drawn_series import DrawnRate
from lynxbench.report.markup import Safe
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, box, curve, hover_columns, rule, svg, text
from lynxbench.report.words import digits, seconds_text

STRIP = 92
MOST_STRIPS = 8
EXCLUDED_ROOM = 0.5
"""Excluded stretches may be ten times slower; the axis leaves them this share of the counted range, then its edge."""
NARROWEST_RANGE = 0.04
"""The counted range is never drawn narrower than this share of its middle, so that noise does not look like drift."""


def draw_rates(series: tuple[DrawnRate, ...], figure: Figure | None, unit: str, title: str, width: int) -> Safe:
    """Strips under one another on one scale, so that processes can be compared by eye."""
    drawn = series[:MOST_STRIPS]
    left, right = (58, 12) if width > NARROW else (44, 6)
    top, foot = 6, 30
    domain = range_of(drawn, figure)
    longest = max((strip.length_s for strip in drawn), default=1.0) or 1.0
    x = Scale(0, longest, left, width - right)
    parts: list[Safe] = []
    for index, strip in enumerate(drawn):
        above = top + index * STRIP
        y = Scale(*domain, above + STRIP - 14, above + 16)
        parts += _strip(strip, figure, unit, x, y, above)
    bottom = top + len(drawn) * STRIP - 14
    parts += axis_x(x, bottom, bottom, "s", 8 if width > NARROW else 4)
    described = (
        f"{len(drawn)} processes over up to {seconds_text(longest)}; shaded phases were executed and excluded; "
        "the line across is the figure of the result with its interval."
    )
    return svg(width, bottom + foot, title, described, parts)


def range_of(series: tuple[DrawnRate, ...], figure: Figure | None) -> tuple[float, float]:
    """The axis: the counted range and the figure, with some room for what was excluded."""
    values = np.concatenate([strip.per_s for strip in series]) if series else np.zeros(0)
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    counted = np.concatenate([_counted(strip) for strip in series])
    counted = counted if len(counted) else known
    low, high = float(counted.min()), float(counted.max())
    if figure is not None and figure.estimate is not None:
        low, high = min(low, figure.low or figure.estimate), max(high, figure.high or figure.estimate)
    lacking = max(0.0, NARROWEST_RANGE * abs(low + high) / 2 - (high - low)) / 2
    low, high = low - lacking, high + lacking
    room = (high - low) * EXCLUDED_ROOM or 1.0
    low = max(min(low, float(known.min())), low - room)
    high = min(max(high, float(known.max())), high + room)
    air = (high - low) * 0.05
    return low - air, high + air


def _counted(strip: DrawnRate) -> Float64:
    """The windows that lie wholly inside a counted stretch."""
    inside = np.zeros(len(strip.at_s), dtype=bool)
    half = strip.window_s / 2
    for span in strip.spans:
        if span.counted:
            inside |= (strip.at_s - half >= span.start_s) & (strip.at_s + half <= span.end_s)
    return strip.per_s[inside & np.isfinite(strip.per_s)]


def _strip(strip: DrawnRate, figure: Figure | None, unit: str, x: Scale, y: Scale, above: float) -> list[Safe]:
    parts: list[Safe] = []
    floor, ceiling = y.start, y.end
    for span in strip.spans:
        a, b = x(span.start_s), x(span.end_s)
        if not span.counted and b > a:
            parts.append(box(a, ceiling, b - a, floor - ceiling, f"phase phase-{span.phase.name.lower()}"))
            if b - a > len(span.phase.word) * 6.2 + 6:
                parts.append(text((a + b) / 2, ceiling - 4, span.phase.word, anchor="middle"))
        elif span.phase is not Phase.STEADY and b - a > len("counted, not steady") * 6.2 + 6:
            parts.append(text((a + b) / 2, ceiling - 4, "counted, not steady", anchor="middle"))
    parts += axis_y(y, x.start, x.end, 4)
    parts.append(text(x.end, ceiling - 4, f"process {strip.process}", css="tick strong", anchor="end"))
    if figure is not None and figure.estimate is not None:
        for span in (span for span in strip.spans if span.counted):
            a, b = x(span.start_s), x(span.end_s)
            if figure.low is not None and figure.high is not None:
                parts.append(box(a, y(figure.high), b - a, y(figure.low) - y(figure.high), "interval"))
            parts.append(rule(a, y(figure.estimate), b, y(figure.estimate), "mean"))
    ys = [y.clamped(float(v)) if math.isfinite(v) else math.nan for v in strip.per_s]
    parts.append(curve([x(float(v)) for v in strip.at_s], ys, "curve"))
    tips = [
        f"process {strip.process}, {seconds_text(float(at))}: {digits(float(v), 4)} {unit}"
        for at, v in zip(strip.at_s, strip.per_s, strict=True)
    ]
    parts += hover_columns(x, ceiling, floor - ceiling, strip.at_s, tips)
    return parts
