"""What was read beside the run, panel by panel, with throttled stretches as bands."""

import math
import re
from dataclasses import dataclass

import numpy as np

from lynxbench.report.drawn_series import ProcessSpan, Track
from lynxbench.report.markup import Safe
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, box, curve, hover_columns, svg, text
from lynxbench.report.words import clean, digits, seconds_text

PANEL = 104
LETTER = 7.0


@dataclass(frozen=True, slots=True)
class TelemetryPanel:
    """One panel: which columns belong to it, in which unit."""

    title: str
    pattern: str
    unit: str
    scale: float = 1.0
    from_zero: bool = False


KINDS = (
    TelemetryPanel("GPU busy", r"^gpu.*(utili[sz]ation|busy)$", "%", 100.0, True),
    TelemetryPanel("GPU memory", r"^gpu.*(used|resident)_bytes$", "GiB", 1 / 2**30, True),
    TelemetryPanel("CPU busy", r"^cpu_(busy_)?(own|foreign|harness|steal)$|^cpu_.*percent$", "%", 100.0, True),
    TelemetryPanel("Clocks", r"_[mg]hz$", "MHz"),
    TelemetryPanel("Temperature", r"_c$", "°C"),
    TelemetryPanel("Power", r"_w$", "W", 1.0, True),
    TelemetryPanel("Memory", r"(used|resident)_bytes$", "GiB", 1 / 2**30, True),
)
"""Matched in this order by name; a column that none matches gets a panel of its own."""
_NOT_DRAWN = re.compile(
    r"^cpu_busy$|^load_|(available|total)_bytes$|_(us|ns|j|pages|faults)$|throttle_reasons$|_untested$", re.IGNORECASE
)
"""Totals of what is drawn already, counters that only grow, and bit masks: they are in the CSV."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Columns drawn on one axis."""

    title: str
    unit: str
    tracks: tuple[Track, ...]


def is_drawn(name: str) -> bool:
    """Whether a column is a quantity that gets a line."""
    return _NOT_DRAWN.search(name) is None


def panels(tracks: tuple[Track, ...]) -> tuple[Panel, ...]:
    """Columns sorted into panels by what their names say."""
    chosen: dict[str, list[Track]] = {}
    kinds = {kind.title: kind for kind in KINDS}
    for track in tracks:
        if not is_drawn(track.name):
            continue
        kind = next((kind for kind in KINDS if re.search(kind.pattern, track.name, re.IGNORECASE)), None)
        title = kind.title if kind else clean(track.name)[:60]
        factor = _factor(kind, track)
        chosen.setdefault(title, []).append(Track(track.name, track.at_s, track.values * factor))
    ordered = sorted(chosen, key=lambda title: _ORDER.index(title) if title in _ORDER else len(_ORDER))
    return tuple(Panel(title, kinds[title].unit if title in kinds else "", tuple(chosen[title])) for title in ordered)


_ORDER = ("CPU busy", "GPU busy", "Clocks", "Temperature", "Power", "Memory", "GPU memory")


def _factor(kind: TelemetryPanel | None, track: Track) -> float:
    if kind is None:
        return 1.0
    # Shares come as fractions; a column that says percent, or exceeds what a share can be, already is one.
    if kind.unit == "%" and ("percent" in track.name or float(np.nanmax(track.values)) > 1.5):
        return 1.0
    if kind.unit == "MHz" and "ghz" in track.name.lower():
        return 1e3
    return kind.scale


def draw_panels(
    shown: tuple[Panel, ...], throttles: tuple[Track, ...], runs: tuple[ProcessSpan, ...], title: str, width: int
) -> Safe:
    """Panels under one another on one axis of time."""
    left, right, top = (58, 12, 20) if width > NARROW else (44, 6, 20)
    longest = max((float(track.at_s[-1]) for panel in shown for track in panel.tracks), default=1.0) or 1.0
    x = Scale(0, longest, left, width - right)
    bottom = top + len(shown) * PANEL - 16
    parts: list[Safe] = []
    for run in runs:
        a, b = x.clamped(run.start_s), x.clamped(run.end_s)
        tops = [top + index * PANEL + 20 for index in range(len(shown))]
        parts += [box(a, above, b - a, PANEL - 36, "phase") for above in tops if b > a]
        if b - a > len(run.precision) * 6.4 + 4:
            parts.append(text((a + b) / 2, 12, run.precision, anchor="middle"))
    for index, panel in enumerate(shown):
        parts += _panel(panel, throttles, x, top + index * PANEL)
    parts += axis_x(x, bottom, bottom, "s", 8 if width > NARROW else 4)
    names = ", ".join(panel.title for panel in shown)
    held = f" Throttling was seen: {', '.join(label_of(t.name) for t in throttles)}." if throttles else ""
    return svg(width, bottom + 30, title, f"{names} over {seconds_text(longest)}.{held}".replace("\u00a0", " "), parts)


def _panel(panel: Panel, throttles: tuple[Track, ...], x: Scale, above: float) -> list[Safe]:
    floor, ceiling = above + PANEL - 16, above + 20
    y = Scale(*range_of_panel(panel), floor, ceiling)
    parts = [box(a, ceiling, b - a, floor - ceiling, "throttle") for t in throttles for a, b in _bands(t, x)]
    parts += axis_y(y, x.start, x.end, 3)
    heading = f"{panel.title}, {panel.unit}" if panel.unit else panel.title
    parts.append(text(x.start, above + 12, heading, css="tick strong"))
    at = x.start + len(heading) * 6.8 + 18
    for index, track in enumerate(panel.tracks):
        slot = f"slot-{index % 6}"
        label = label_of(track.name).removeprefix("cpu busy ") if panel.title == "CPU busy" else label_of(track.name)
        if len(panel.tracks) > 1 and at + len(label) * LETTER + 16 < x.end:
            parts.append(box(at, above + 4, 10, 8, f"swatch {slot}"))
            parts.append(text(at + 14, above + 12, label))
            at += len(label) * LETTER + 30
        heights = [y.clamped(float(v)) if math.isfinite(v) else math.nan for v in track.values]
        parts.append(curve([x(float(v)) for v in track.at_s], heights, f"curve {slot}"))
    tips = [_tip(panel, index) for index in range(len(panel.tracks[0].at_s))]
    parts += hover_columns(x, ceiling, floor - ceiling, panel.tracks[0].at_s, tips, most=60)
    return parts


def _tip(panel: Panel, index: int) -> str:
    parts = [
        f"{label_of(t.name)} {digits(float(t.values[index]))} {panel.unit}"
        for t in panel.tracks
        if index < len(t.values)
    ]
    return f"{seconds_text(float(panel.tracks[0].at_s[index]))}: {', '.join(parts)}"


def range_of_panel(panel: Panel) -> tuple[float, float]:
    """The axis of a panel: from zero where that means something, and never so narrow that noise looks like motion."""
    values = np.concatenate([track.values for track in panel.tracks])
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    kind = next((kind for kind in KINDS if kind.title == panel.title), None)
    if kind is not None and kind.unit == "%":
        return 0.0, max(100.0, high)
    if kind is not None and kind.from_zero:
        return 0.0, high * 1.08 or 1.0
    # A clock that wavers by a thousandth must look flat: never less than ±5 % of the middle.
    middle, air = (low + high) / 2, max((high - low) * 0.58, abs(low + high) / 2 * 0.05, 1e-9)
    return middle - air, middle + air


def _bands(track: Track, x: Scale) -> list[tuple[float, float]]:
    return [(x(start), max(x(end), x(start) + 1)) for start, end in throttled(track)]


def throttled(track: Track) -> list[tuple[float, float]]:
    """Stretches in which a throttle column was above zero, in seconds."""
    on = np.nan_to_num(track.values) > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]]).astype(np.int8)))
    last = len(track.at_s) - 1
    return [
        (float(track.at_s[a]), float(track.at_s[min(b, last)])) for a, b in zip(edges[0::2], edges[1::2], strict=True)
    ]


def label_of(name: str) -> str:
    """A column's name as people read it: the unit is on the axis already."""
    plain = re.sub(r"_(mhz|ghz|w|c|bytes|percent|fraction)$", "", clean(name)[:40], flags=re.IGNORECASE)
    return plain.replace("_", " ")
