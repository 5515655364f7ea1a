"""Instances side by side: each one's figure with its interval, and the median of all."""

from lynxbench.model.fleet import FleetComparison, InstanceRow, InstanceStanding
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, hover, padded, rule, svg, text
from lynxbench.report.words import digits, shortened

ROW = 18
MOST_NAMED = 80
"""Beyond this the rows are drawn without names: the table has them."""


def draw_instances(comparison: FleetComparison, title: str, width: int) -> Safe:
    """One row an instance, slowest first."""
    rows = comparison.instances
    step = ROW if len(rows) <= MOST_NAMED else 6
    named = len(rows) <= MOST_NAMED
    left, right, top = (170, 16, 10) if width > NARROW else (92, 8, 10)
    left = left if named else 16
    bottom = top + step * len(rows) + 8
    ends = [value for row in rows for value in (row.low, row.estimate, row.high) if value is not None]
    x = Scale(*padded(min(ends), max(ends)), left, width - right)
    parts: list[Safe] = [*axis_x(x, bottom, top, comparison.unit, 6 if width > NARROW else 3)]
    if comparison.median is not None:
        parts.append(rule(x(comparison.median), top, x(comparison.median), bottom, "axis"))
    longest = 22 if width > NARROW else 12
    for place, row in enumerate(rows):
        y = top + step * (place + 0.5)
        if named:
            name = shortened(row.unit, longest)
            css = "tick strong" if row.standing is InstanceStanding.OUTLIER else "tick"
            parts.append(text(left - 8, y + 4, name, css=css, anchor="end"))
        if row.low is not None and row.high is not None:
            parts.append(rule(x(row.low), y, x(row.high), y, "axis"))
        css = "point" if row.standing is InstanceStanding.OUTLIER else "point open"
        parts.append(tag("circle", cx=x(row.estimate), cy=y, r=3.2, class_=css))
        parts.append(hover(left, y - step / 2, width - right - left, step, _tip(row, comparison.unit)))
    apart = sum(row.standing is InstanceStanding.OUTLIER for row in rows)
    return svg(width, bottom + 24, title, f"{len(rows)} instances, {apart} stand apart.", parts)


def _tip(row: InstanceRow, unit: str) -> str:
    return f"{row.unit}: {digits(row.estimate, 4)} {unit}, {row.standing}"
