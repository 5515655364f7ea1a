"""An axis of moments: round ones of the calendar, in UTC."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lynxbench.report.markup import Safe
from lynxbench.report.svg.canvas import Scale, rule, text

_STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800)
_STEPS_MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_MONTH_S = 2_629_746
_DAY_S, _WEEK_S = 86400, 604800
_FIRST_MONDAY_S = 345_600
LETTER = 6.8


def date_ticks(low_s: float, high_s: float, about: int) -> list[tuple[float, str]]:
    """Round moments inside a range, each with its label: a time of day below a day, else a date, month or year."""
    rough = (high_s - low_s) / max(1, about)
    if not math.isfinite(rough) or rough <= 0:
        return []
    step = next((step for step in _STEPS_S if step >= rough), None)
    if step is None:
        return _month_ticks(low_s, high_s, rough)
    origin = _FIRST_MONDAY_S if step == _WEEK_S else 0
    marks: list[tuple[float, str]] = []
    before = ""
    for index in range(math.ceil((low_s - origin) / step), math.floor((high_s - origin) / step) + 1):
        at = index * step + origin
        if not low_s <= at <= high_s:  # a quotient is rounded
            continue
        moment = _moment(at)
        day = f"{moment:%Y-%m-%d}"
        clock = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
        marks.append((at, day if step >= _DAY_S else clock if day == before else f"{day[5:]} {clock}"))
        before = day
    return marks


def _month_ticks(low_s: float, high_s: float, rough_s: float) -> list[tuple[float, str]]:
    months = next((each for each in _STEPS_MONTHS if each * _MONTH_S >= rough_s), _STEPS_MONTHS[-1])
    first, last = _moment(low_s), _moment(high_s)
    marks = []
    for at in range(-(-(first.year * 12 + first.month - 1) // months) * months, last.year * 12 + last.month, months):
        year, month = divmod(at, 12)
        second = datetime(year, month + 1, 1, tzinfo=UTC).timestamp()
        if low_s <= second <= high_s:
            marks.append((second, str(year) if months >= 12 else f"{year}-{month + 1:02}"))
    return marks


def _moment(second: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def rank_dates(moments: Sequence[float], about: int) -> list[tuple[float, str]]:
    """Dates of results that stand evenly, whatever lies between them; the time of day where the date is the same."""
    marks: list[tuple[float, str]] = []
    before = ""
    for index in range(0, len(moments), max(1, -(-len(moments) // max(1, about)))):
        moment = _moment(moments[index])
        day = f"{moment:%Y-%m-%d}"
        marks.append((index, f"{moment:%H:%M}" if day == before else day[2:]))
        before = day
    return marks


def axis_dates(scale: Scale, y: float, top: float, marks: Sequence[tuple[float, str]]) -> list[Safe]:
    """Dates below, faint grid lines above; a label that has no room is left out."""
    drawn: list[Safe] = []
    free = -math.inf
    for place, label in marks:
        half = len(label) * LETTER / 2
        at = min(max(scale(place), scale.start - 30 + half), scale.end - half)
        drawn.append(rule(scale(place), top, scale(place), y, "grid"))
        if at - half >= free:
            drawn.append(text(at, y + 15, label, anchor="middle"))
            free = at + half + 8
    return [*drawn, rule(scale.start, y, scale.end, y, "axis")]
