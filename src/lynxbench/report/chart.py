"""A plot as data that the page's script draws anew at every zoom: panels of tracks over one axis."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TIME = "time"
"""An axis of moments: seconds since 1970, shown as dates in UTC."""
DIGITS = 6
"""Significant digits of what is drawn; the data beside the plot has its own."""


@dataclass(frozen=True, slots=True)
class ChartTrack:
    """Points of one name, in the order of x; a missing value breaks the line."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    joined: bool = True
    ids: Sequence[str] = ()
    """The result behind each point."""
    hollow: Sequence[int] = ()
    """Places of points that are drawn hollow: they are `hollow_word`."""
    hollow_word: str = "doubtful"
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By overlay: the group that each point is in."""
    hidden: bool = False
    """Until somebody asks for it."""


@dataclass(frozen=True, slots=True)
class ChartBand:
    """A stretch of the axis that is shaded."""

    start: float
    end: float
    css: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A moment where something changed: what, and in which layers."""

    x: float
    label: str = ""
    tip: str = ""
    layers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """Tracks on one axis of values."""

    title: str
    unit: str
    tracks: Sequence[ChartTrack]
    bands: Sequence[ChartBand] = ()
    marks: Sequence[ChartMark] = ()
    level: tuple[float | None, float, float | None] | None = None
    """A figure with its interval, drawn across."""
    segments: Sequence[tuple[float, float, float, float]] = ()
    """Levels: from x to x, from y to y."""
    ends: tuple[float, float] | None = None
    """Of the axis while nothing is zoomed; without them what is drawn decides."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that a plot needs to be touched."""

    axis: str
    """TIME, or the unit of x."""
    panels: Sequence[ChartPanel]
    overlays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What points can be coloured by, with the names of its groups."""
    even: bool = False
    """Whether moments stand evenly at first, whatever lies between them."""
    more: str = ""
    """A place of the server that has the same with other precisions and further panels."""


def chart_text(chart: Chart) -> str:
    """The chart as compact JSON; keys are as short as the script reads them."""
    overlays = [[name, list(groups)] for name, groups in chart.overlays.items()]
    panels = [_panel(panel) for panel in chart.panels]
    document = {"axis": chart.axis, "even": chart.even, "panels": panels, "overlays": overlays}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _panel(panel: ChartPanel) -> dict[str, Any]:
    return _present(
        {
            "title": panel.title,
            "unit": panel.unit,
            "tracks": [_track(track) for track in panel.tracks],
            "bands": [[_rounded(b.start, 9), _rounded(b.end, 9), b.css, b.label] for b in panel.bands],
            "marks": [[_rounded(m.x, 12), m.label, m.tip, list(m.layers)] for m in panel.marks],
            "level": None if panel.level is None else [_rounded(value) for value in panel.level],
            "segments": [[*(_rounded(x, 12) for x in s[:2]), *(_rounded(y) for y in s[2:])] for s in panel.segments],
            "ends": None if panel.ends is None else [_rounded(value) for value in panel.ends],
        }
    )


def _track(track: ChartTrack) -> dict[str, Any]:
    known = any(value is not None and math.isfinite(value) for value in (*track.low, *track.high))
    return _present(
        {
            "name": track.name,
            "x": [_rounded(value, 12) for value in track.x],
            "y": [_rounded(value) for value in track.y],
            "low": [_rounded(value) for value in track.low] if known else None,
            "high": [_rounded(value) for value in track.high] if known else None,
            "ids": " ".join(track.ids),
            "open": list(track.hollow),
            "word": track.hollow_word if track.hollow else None,
            "groups": {name: list(groups) for name, groups in track.groups.items()},
            "dots": not track.joined,
            "hidden": track.hidden,
        }
    )


def _present(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value or name in ("x", "y", "tracks", "unit", "title")}


def _rounded(value: float | None, digits: int = DIGITS) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded
