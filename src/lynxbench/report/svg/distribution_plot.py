"""Latencies: the histogram above, the cumulative share below with each percentile and its interval on it."""

import numpy as np

from lynxbench.model.result import Percentile
from lynxbench.report.drawn_series import Histogram
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, box, curve, hover, rule, svg, text, whisker
from lynxbench.report.words import digits, number, percent, percentile_name, percentile_text

TOP = 120
BELOW = 150
LETTER = 7.0
LINE = 15
HIGH_UP = 80
"""Percentiles above this lie along the top of the panel; their labels hang below the curve."""
LIMIT_IN_VIEW = 1.12
"""An objective's limit further out than this would squeeze the distribution; it is then named in the caption."""


def draw_distribution(
    bins: Histogram, marks: tuple[Percentile, ...], limit_ms: float | None, title: str, width: int
) -> Safe:
    """Both panels share one axis of milliseconds; an objective's limit stands as a line through both."""
    left, right = (58, 16) if width > NARROW else (44, 10)
    known = [mark for mark in marks if mark.resolved and mark.estimate is not None]
    ends = [mark.high or mark.estimate or 0.0 for mark in known]
    low, high = float(bins.edges_ms[0]), max(float(bins.edges_ms[-1]), *ends, 0.0)
    if limit_ms is not None and low < limit_ms < high * LIMIT_IN_VIEW:
        high = max(high, limit_ms * 1.02)
    x = Scale(low, high, left, width - right)
    parts = _bars(bins, x)
    base = TOP + 12 + BELOW
    parts += _shares(bins, known, x, base)
    parts += axis_x(x, base, base, "ms", 8 if width > NARROW else 4)
    if limit_ms is not None and low <= limit_ms <= high:
        parts.append(rule(x(limit_ms), 14, x(limit_ms), base, "limit"))
        parts.append(text(x(limit_ms) - 5, 12, f"limit {digits(limit_ms)} ms", css="tick bad", anchor="end"))
    described = f"{number(bins.total, 0)} counted samples; " + ", ".join(
        f"{percentile_name(mark.percentile)} {percentile_text(mark)}" for mark in marks
    )
    return svg(width, base + 30, title, described.replace("\u00a0", " "), parts)


def _bars(bins: Histogram, x: Scale) -> list[Safe]:
    most = float(bins.counts.max()) or 1.0
    y = Scale(0, most, TOP, 16)
    parts: list[Safe] = [rule(x.start, TOP, x.end, TOP, "axis")]
    parts.append(text(x.start - 7, TOP + 4, "0", anchor="end"))
    parts.append(text(x.start - 7, 20, number(most, 0), anchor="end"))
    for a, b, many in zip(bins.edges_ms[:-1], bins.edges_ms[1:], bins.counts, strict=True):
        left, size = x(float(a)), x(float(b)) - x(float(a))
        if many > 0:
            parts.append(box(left + 0.4, y(float(many)), max(0.6, size - 0.8), TOP - y(float(many)), "bar"))
        tip = f"{digits(float(a), 4)} to {digits(float(b), 4)} ms: {number(float(many), 0)} samples"
        parts.append(hover(left, 16, size, TOP - 16, tip))
    return parts


def _shares(bins: Histogram, known: list[Percentile], x: Scale, base: float) -> list[Safe]:
    y = Scale(0, 1, base, base - BELOW + 16)
    parts: list[Safe] = []
    for share in (0.0, 0.5, 1.0):
        parts.append(rule(x.start, y(share), x.end, y(share), "grid"))
        parts.append(text(x.start - 7, y(share) + 4, percent(share), anchor="end"))
    total = np.concatenate([[0.0], np.cumsum(bins.counts)]) / bins.total
    parts.append(curve([x(float(e)) for e in bins.edges_ms], [y(float(s)) for s in total], "curve thin"))
    taken: list[tuple[float, float, float]] = []
    for mark in known:
        estimate = mark.estimate or 0.0
        height = y(mark.percentile / 100)
        if mark.low is not None and mark.high is not None:
            parts += whisker(x, height, mark.low, mark.high, "whisker")
        tip = f"{percentile_name(mark.percentile)}: {percentile_text(mark)}"
        parts.append(tag("circle", tag("title", tip), cx=x.clamped(estimate), cy=height, r=4, class_="dot"))
        parts.append(_label(mark, x, height, taken))
    return parts


def _label(mark: Percentile, x: Scale, height: float, taken: list[tuple[float, float, float]]) -> Safe:
    """A percentile's label right of its whisker, moved down to where no other label stands."""
    words = f"{percentile_name(mark.percentile)} {percentile_text(mark, bounds=False)} ms"
    size = len(words) * LETTER
    at = min(x.clamped(mark.high or mark.estimate or 0.0) + 9, x.end - size)
    row = height + (17 if mark.percentile > HIGH_UP else 4)
    while any(abs(row - other) < LINE and at < end and start < at + size for start, end, other in taken):
        row += LINE
    taken.append((at, at + size, row))
    return text(at, row, words, css="tick strong")
