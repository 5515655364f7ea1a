"""A history as a picture: points with their intervals, the level or drift of each segment, and where it changed."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from lynxbench.model.history import History, HistoryPoint, Motion
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, box, curve, hover, padded, rule, svg, text
from lynxbench.report.svg.date_axis import axis_dates, date_ticks, rank_dates
from lynxbench.report.words import digits, interval_of, interval_text, moment_text

HEIGHT = 260
MOST_POINTS = 400
"""More would only make the file larger; change points are always drawn."""
MOST_WHISKERS = 120
CAP = 3.0
CLUSTERED = 0.2
"""Half of the gaps being that much shorter than the mean one: sittings with months between them."""


class LevelLine(NamedTuple):
    """The level of one segment, from one place of the axis to another; a drift is inclined."""

    start: float
    end: float
    first: float
    last: float


def moments_of(points: Sequence[HistoryPoint]) -> list[float] | None:
    """When each result was measured, in seconds since 1970; None where one of them does not say it as a date."""
    try:
        stamps = [datetime.fromisoformat(point.started_at) for point in points]
    except ValueError:
        return None
    return [(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp() for stamp in stamps]


def is_clustered(moments: Sequence[float]) -> bool:
    """Whether most results would lie on top of one another on an axis of time: they are shown evenly spaced then."""
    gaps = sorted(b - a for a, b in pairwise(sorted(moments)))
    return bool(gaps) and gaps[len(gaps) // 2] * len(gaps) < CLUSTERED * sum(gaps)


def edge_before(index: int, places: Sequence[float]) -> float:
    """Where a change stands: midway between the last point before it and the first after."""
    if 0 < index < len(places):
        return (places[index - 1] + places[index]) / 2
    return places[0] if index <= 0 else places[-1]


def level_lines(history: History, places: Sequence[float]) -> list[LevelLine]:
    """The level of each segment; what wanders has none."""
    if history.motion is Motion.WANDERING:
        return []
    points, trend = history.points, history.trend
    drifts = history.motion is Motion.DRIFT and trend is not None
    drift = (trend.estimate - 1) / (trend.estimate + 1) if drifts and trend is not None else 0.0
    lines = []
    for start, end in pairwise([0, *(c.index for c in history.changes if c.found), len(points)]):
        segment = points[start:end]
        level = sum(point.estimate for point in segment) / max(1, len(segment))
        half = level * drift * len(segment) / len(points)
        lines.append(LevelLine(edge_before(start, places), edge_before(end, places), level - half, level + half))
    return lines


def draw_levels(history: History, title: str, width: int) -> Safe:
    """Throughput over time, or evenly spaced with its dates; over the order of results where no moment is told."""
    left, right, top = (62, 12, 24) if width > NARROW else (50, 6, 24)
    bottom = HEIGHT - 34
    points = history.points
    moments = moments_of(points)
    even = moments is None or is_clustered(moments)
    ranks = sorted(set(moments or ()))  # results of one moment stand together, as the script has them
    places = moments or [float(index) for index in range(len(points))]
    if moments is not None and even:
        places = [float(bisect_left(ranks, moment)) for moment in moments]
    every = max(1, -(-len(points) // MOST_POINTS))
    shown = list(range(0, len(points), every))
    bounds = [value for i in shown for value in (points[i].low, points[i].estimate, points[i].high)]
    ends = [value for value in bounds if value is not None]
    x = Scale(*padded(min(places), max(places), 0.02), left, width - right)
    y = Scale(*padded(min(ends), max(ends)), bottom, top)
    about = 7 if width > NARROW else 3
    parts: list[Safe] = []
    if moments is None:
        parts += axis_x(x, bottom, top, "results", about)
    else:
        marks = rank_dates(ranks, about) if even else date_ticks(x.low, x.high, about)
        parts += axis_dates(x, bottom, top, marks)
    parts += axis_y(y, left, width - right, 5)
    for change in history.changes:
        at = x(edge_before(change.index, places))
        parts.append(rule(at, top, at, bottom if change.found else top + 14, "axis"))
        for place, layer in enumerate(change.layers_changed):
            tip = f"{layer} changed in the record: {change.cause.sentence}"
            parts.append(box(at - 3, top + 16 + 9 * place, 7, 7, f"fill layer-{layer}", tag("title", tip)))
        if change.found:
            sign = f"{(change.effect.estimate - 1) * 100:+.1f} %"
            last = at > width - right - 50
            anchor = "end" if last else "start"
            parts.append(text(at - 4 if last else at + 4, top + 10, sign, css="tick strong", anchor=anchor))
    for line in level_lines(history, places):
        parts.append(curve([x(line.start), x(line.end)], [y(line.first), y(line.last)], "curve level"))
    for i in shown:
        point, at = points[i], x(places[i])
        if len(shown) <= MOST_WHISKERS and point.low is not None and point.high is not None:
            parts.append(_error_bar(at, y(point.low), y(point.high)))
        css = "point open" if point.doubtful else "point"
        parts.append(tag("circle", cx=at, cy=y(point.estimate), r=2.6, class_=css))
        if len(shown) <= MOST_WHISKERS:
            parts.append(hover(at - 4, top, 8, bottom - top, _tip(point)))
    return svg(width, HEIGHT, title, f"{history.note}.", parts)


def _error_bar(x: float, low: float, high: float) -> Safe:
    caps = "".join(f"M{x - CAP:.1f} {end:.1f}h{2 * CAP:g}" for end in (low, high))
    return tag("path", d=f"M{x:.1f} {low:.1f}V{high:.1f}{caps}", class_="bars")


def _tip(point: HistoryPoint) -> str:
    figure = digits(point.estimate, 4)
    if point.low is not None and point.high is not None:
        figure = interval_text(interval_of(point.low, point.estimate, point.high))
    return f"{point.result_id[:12]}, {moment_text(point.started_at)}: {figure} {point.unit}"
