"""A history as a picture: points with their intervals, the level or drift of each segment, and where it changed."""

from itertools import pairwise

from lynxbench.model.history import History, HistoryPoint, Motion
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, box, curve, hover, padded, rule, svg, text
from lynxbench.report.words import digits, moment_text

HEIGHT = 260
MOST_POINTS = 400
"""More would only make the file larger; change points are always drawn."""
MOST_WHISKERS = 120


def draw_levels(history: History, title: str, width: int) -> Safe:
    """Throughput over the order of results."""
    left, right, top = (62, 12, 24) if width > NARROW else (50, 6, 24)
    bottom = HEIGHT - 34
    points = history.points
    every = max(1, -(-len(points) // MOST_POINTS))
    shown = list(range(0, len(points), every))
    bounds = [value for i in shown for value in (points[i].low, points[i].estimate, points[i].high)]
    ends = [value for value in bounds if value is not None]
    x = Scale(-0.5, max(len(points) - 0.5, 0.5), left, width - right)
    y = Scale(*padded(min(ends), max(ends)), bottom, top)
    parts: list[Safe] = [*axis_x(x, bottom, top, "results", 8 if width > NARROW else 4)]
    parts += axis_y(y, left, width - right, 5)
    for change in history.changes:
        at = x(change.index - 0.5)
        parts.append(rule(at, top, at, bottom if change.found else top + 14, "axis"))
        for place, layer in enumerate(change.layers_changed):
            tip = f"{layer} changed in the record: {change.cause.sentence}"
            parts.append(box(at - 3, top + 16 + 9 * place, 7, 7, f"fill layer-{layer}", tag("title", tip)))
        if change.found:
            sign = f"{(change.effect.estimate - 1) * 100:+.1f} %"
            parts.append(text(at + 4, top + 10, sign, css="tick strong"))
    edges = [0, *(change.index for change in history.changes if change.found), len(points)]
    drifts, trend = history.motion is Motion.DRIFT, history.trend
    drift = (trend.estimate - 1) / (trend.estimate + 1) if drifts and trend is not None else 0.0
    for start, end in pairwise(edges) if history.motion is not Motion.WANDERING else ():  # what wanders has no level
        segment = points[start:end]
        level = sum(point.estimate for point in segment) / max(1, len(segment))
        half = level * drift * len(segment) / len(points)
        parts.append(curve([x(start - 0.5), x(end - 0.5)], [y(level - half), y(level + half)], "curve"))
    for i in shown:
        point = points[i]
        if len(shown) <= MOST_WHISKERS and point.low is not None and point.high is not None:
            parts.append(rule(x(i), y(point.low), x(i), y(point.high), "grid"))
        css = "point open" if point.doubtful else "point"
        parts.append(tag("circle", cx=x(i), cy=y(point.estimate), r=2.6, class_=css))
        if len(shown) <= MOST_WHISKERS:
            parts.append(hover(x(i) - 4, top, 8, bottom - top, _tip(point)))
    return svg(width, HEIGHT, title, f"{history.note}.", parts)


def _tip(point: HistoryPoint) -> str:
    return f"{point.result_id[:12]}, {moment_text(point.started_at)}: {digits(point.estimate, 4)} {point.unit}"
