"""Bars: where the time goes, what was counted, how near the ceiling, peak against sustained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.model.attribution import Category
from lynxbench.model.interval import Interval
from lynxbench.report.markup import Safe, tag
from lynxbench.report.palette import category_class
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, box, padded, rule, svg, text, whisker
from lynxbench.report.words import category_name, digits, interval_text, percent, seconds_text, shortened

LABELLED = 0.07
"""A part of a bar narrower than this share carries no text of its own; the legend has the number."""


@dataclass(frozen=True, slots=True)
class Dots:
    """One precision's line in the peak-against-sustained plot."""

    name: str
    held: Interval
    peak: float
    runs: tuple[float, ...]
    steady: bool


def draw_shares(bars: Sequence[tuple[str, Mapping[Category, float]]], title: str, width: int) -> Safe:
    """One bar of 100 % a precision; every nanosecond belongs to exactly one part."""
    left = 58 if width > NARROW else 44
    x = Scale(0, 1, left, width - 10)
    parts: list[Safe] = []
    described = []
    for index, (name, shares) in enumerate(bars):
        top = 6 + index * 48
        parts.append(text(left - 8, top + 22, name, css="tick strong", anchor="end"))
        at = 0.0
        for category, share in sorted(shares.items(), key=lambda item: (item[0] is Category.UNATTRIBUTED, -item[1])):
            if not math.isfinite(share) or share <= 0:
                continue
            a, b = x(at), x(min(1.0, at + share))
            word = category_name(category)
            described.append(f"{name} {word} {percent(share)}")
            tip = tag("title", f"{word}: {percent(share)} of a step")
            parts.append(box(a, top, max(0.5, b - a - 1.5), 34, f"fill {category_class(category)}", tip))
            room = b - a
            if share >= LABELLED and room > 34:
                label = f"{word} {percent(share)}" if room > (len(word) + 6) * 7 else percent(share)
                parts.append(text((a + b) / 2 - 1, top + 22, label, css="on-fill", anchor="middle"))
            at += share
    bottom = 6 + len(bars) * 48 - 8
    parts += _percent_axis(x, bottom, 5 if width > NARROW else 2)
    return svg(width, bottom + 22, title, "; ".join(described).replace("\u00a0", " "), parts)


def draw_counted(bars: tuple[tuple[str, tuple[tuple[str, float], ...]], ...], title: str, width: int) -> Safe:
    """Executed seconds by phase: the excluded ones shaded as in the series, the counted one solid."""
    left = 58 if width > NARROW else 44
    longest = max((sum(seconds for _, seconds in parts) for _, parts in bars), default=1.0) or 1.0
    x = Scale(0, longest, left, width - 10)
    drawn: list[Safe] = []
    described = []
    for index, (name, phases) in enumerate(bars):
        top = 4 + index * 36
        drawn.append(text(left - 8, top + 18, name, css="tick strong", anchor="end"))
        at = 0.0
        for phase, seconds in phases:
            a, b = x(at), x(at + seconds)
            at += seconds
            if b - a < 0.3:
                continue
            label = f"{phase} {seconds_text(seconds)}"
            described.append(f"{name} {label}")
            kind = "counted" if phase == "counted" else f"phase phase-{phase.replace('-', '')}"
            drawn.append(box(a, top, max(0.5, b - a - 1.5), 26, kind, tag("title", label)))
            if b - a > len(label) * 6.4 + 8:
                css = "on-fill" if phase == "counted" else "tick"
                drawn.append(text((a + b) / 2 - 1, top + 17, label, css=css, anchor="middle"))
    bottom = 4 + len(bars) * 36 - 4
    drawn += axis_x(x, bottom, bottom, "s", 8 if width > NARROW else 4)
    return svg(width, bottom + 24, title, "; ".join(described).replace("\u00a0", " "), drawn)


def draw_efficiency(rows: tuple[tuple[str, Category, float, float], ...], title: str, width: int) -> Safe:
    """Each operator against its roofline: the filled part was achieved, the outline is what the ceilings allow."""
    narrow = width <= NARROW
    left = 10 if narrow else 250
    x = Scale(0, 1, left, width - 56)
    step = 40 if narrow else 30
    parts: list[Safe] = []
    described = []
    for index, (name, category, share, efficiency) in enumerate(rows):
        top = 4 + index * step
        bar_top = top + (16 if narrow else 0)
        short = shortened(name, 38)
        label = f"{short} · {percent(share)} of a step" if narrow else short
        anchor = "start" if narrow else "end"
        parts.append(
            text(left if narrow else left - 10, top + (11 if narrow else 14), label, css="tick ink", anchor=anchor)
        )
        parts.append(box(x.start, bar_top, x.end - x.start, 18, "outline"))
        tip = tag("title", f"{name}: {percent(efficiency)} of its ceiling, {percent(share)} of a step")
        parts.append(
            box(x.start, bar_top, x.clamped(efficiency) - x.start, 18, f"fill {category_class(category)}", tip)
        )
        parts.append(text(x.end + 6, bar_top + 13, percent(efficiency), css="tick strong"))
        described.append(f"{short} {percent(efficiency)}")
    bottom = 4 + len(rows) * step
    parts += _percent_axis(x, bottom, 5 if not narrow else 2)
    return svg(width, bottom + 22, title, "; ".join(described).replace("\u00a0", " "), parts)


def draw_peak_and_sustained(rows: tuple[Dots, ...], unit: str, title: str, width: int) -> Safe:
    """The interval drawn, each run as a tick, the best window as a hollow diamond."""
    left = 58 if width > NARROW else 44
    values = [v for row in rows for v in (row.held.low, row.held.estimate, row.held.high, row.peak, *row.runs)]
    known = [v for v in values if math.isfinite(v)]
    low, high = padded(min(known), max(known), 0.08) if known else (0.0, 1.0)
    x = Scale(low, high, left, width - 20)
    parts: list[Safe] = []
    bottom = 6 + len(rows) * 46
    axis = axis_x(x, bottom, 6, unit, 8 if width > NARROW else 3)
    described = []
    for index, row in enumerate(rows):
        middle = 6 + index * 46 + 24
        parts.append(text(left - 8, middle + 4, row.name, css="tick strong", anchor="end"))
        parts += [rule(x(run), middle + 6, x(run), middle + 12, "run") for run in row.runs if math.isfinite(run)]
        if row.held.known:
            parts += whisker(x, middle, row.held.low, row.held.high, "whisker", 6)
        if math.isfinite(row.held.estimate):
            word = "sustained" if row.steady else "mean, not steady"
            tip = f"{row.name} {word}: {interval_text(row.held)} {unit}"
            parts.append(tag("circle", tag("title", tip), cx=x(row.held.estimate), cy=middle, r=5, class_="dot"))
            parts.append(
                text(x(row.held.estimate), middle - 11, digits(row.held.estimate), css="tick strong", anchor="middle")
            )
            described.append(tip)
        if math.isfinite(row.peak):
            at = x(row.peak)
            points = f"{at - 6:.1f},{middle} {at:.1f},{middle - 6} {at + 6:.1f},{middle} {at:.1f},{middle + 6}"
            tip = f"{row.name} best window: {digits(row.peak)} {unit}"
            parts.append(tag("polygon", tag("title", tip), points=points, class_="peak"))
            described.append(tip)
    return svg(width, bottom + 24, title, "; ".join(described).replace("\u00a0", " "), axis, parts)


def draw_interval(held: Interval, peak: float, title: str, width: int) -> Safe:
    """A figure's interval as a small bar, the best window beside it; from zero, so that its width is honest."""
    values = [v for v in (held.high, held.estimate, peak) if math.isfinite(v)]
    x = Scale(0, max(values, default=1.0) * 1.04 or 1.0, 2, 238)
    parts = [rule(2, 13, 238, 13, "axis")]
    if held.known:
        parts.append(box(x(held.low), 7, max(2.0, x(held.high) - x(held.low)), 12, "interval strong"))
    if math.isfinite(held.estimate):
        parts.append(rule(x(held.estimate), 3, x(held.estimate), 23, "mean"))
    if math.isfinite(peak):
        at = x(peak)
        parts.append(tag("polygon", points=f"{at - 5:.1f},13 {at:.1f},8 {at + 5:.1f},13 {at:.1f},18", class_="peak"))
    return tag("svg", tag("title", title), parts, viewBox="0 0 240 26", class_="spark", role="img", aria_label=title)


def _percent_axis(x: Scale, y: float, parts: int) -> list[Safe]:
    marks = [index / parts for index in range(parts + 1)]
    labels = [text(x(v), y + 15, percent(v), anchor="middle" if 0 < v < 1 else "end" if v else "start") for v in marks]
    return [rule(x.start, y, x.end, y, "axis"), *labels]
