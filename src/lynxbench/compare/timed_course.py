"""How a history moves in real time: its seasons first, then its course beside them, and a drift across gaps. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from lynxbench.model.history import HistoryPoint, Motion, Season, SeasonKind
from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats
from lynxbench.stats.changepoints import MEDIAN_WIDTH, MIN_SEGMENT, OUTLIER_SIGMAS, Course, read_course
from lynxbench.stats.robust import tame_outliers
from lynxbench.stats.seasons import MOST_RESULTS, FoundSeason, find_seasons, line_in_time

LONG_GAPS = 0.1
"""The longest tenth of the gaps between results …"""
UNEQUAL = 0.5
"""… takes this share of the time where results come in bursts; a third where they come at random."""
PRICE = 1.5
"""× ln n a parameter, as a line costs among equally spaced results."""
WIDE_GAP = 5.0
"""Typical spacings between two results, from which on a change between them has no moment."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class TimedCourse:
    """The course of a history beside its seasons."""

    course: Course
    seasons: tuple[Season, ...] = ()


def read_timed_course(points: Sequence[HistoryPoint]) -> TimedCourse:
    """Steps and motion with the seasons taken out; as if equally spaced where the moments are not known."""
    values = np.array([point.estimate for point in points], dtype=np.float64)
    plain = read_course(values)
    at_s = moments_of(points)
    if at_s is None or len(values) < 2 * MIN_SEGMENT or (values <= 0).any():
        return TimedCourse(plain)
    logs = tame_outliers(np.log(values), width=MEDIAN_WIDTH, limit_sigmas=OUTLIER_SIGMAS).values
    newest = slice(max(len(values) - MOST_RESULTS, 0), None)
    within = [change.index - newest.start for change in plain.changes if change.index - newest.start > 0]
    found = find_seasons(at_s[newest], logs[newest])
    if within and not found:
        found = find_seasons(at_s[newest], logs[newest], within)
    course = plain
    if found:
        curve = np.zeros(len(values))
        curve[newest] = np.sum([season.curve for season in found], axis=0)
        logs = logs - curve
        course = read_course(values * np.exp(-curve))
    return TimedCourse(_across_gaps(at_s, logs, course), tuple(map(_season, found)))


def moments_of(points: Sequence[HistoryPoint]) -> Floats | None:
    """When results began, in seconds since 1970; None where one of them does not say."""
    moments = []
    for point in points:
        try:
            moment = datetime.fromisoformat(point.started_at)
        except (TypeError, ValueError):
            return None
        moments.append((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
    return np.array(moments, dtype=np.float64)


def gap_before(points: Sequence[HistoryPoint], index: int) -> str:
    """When the result before a place began, where the two are so far apart that a change has no moment; or nothing."""
    at_s = moments_of(points)
    if at_s is None or not 0 < index < len(points):
        return ""
    typical = float(np.median(np.diff(at_s)))
    return points[index - 1].started_at if at_s[index] - at_s[index - 1] > WIDE_GAP * max(typical, 1.0) else ""


def _across_gaps(at_s: Floats, logs: Floats, course: Course) -> Course:
    """Where results come in bursts: a drift in time, if that accounts for what looks like steps or curves by number."""
    gaps = np.sort([later - earlier for earlier, later in pairwise(at_s)])[::-1]
    longest = gaps[: max(1, round(LONG_GAPS * len(gaps)))]
    if not gaps.sum() > 0 or longest.sum() < UNEQUAL * gaps.sum():
        return course
    change = line_in_time(at_s, logs, [point.index for point in course.changes], PRICE)
    if change is None or change.low <= 0 <= change.high:
        return course
    trend = Interval(*np.exp([change.low, change.estimate, change.high]).tolist())
    return replace(course, changes=(), motion=Motion.DRIFT, trend=trend)


def _season(found: FoundSeason) -> Season:
    daily = found.kind is SeasonKind.HOUR_OF_DAY
    highest, lowest = (f"{place:02d}:00 UTC" if daily else WEEKDAYS[place] for place in (found.highest, found.lowest))
    ratio = Interval(*np.exp([found.swing.low, found.swing.estimate, found.swing.high]).tolist())
    return Season(kind=found.kind, ratio=ratio, highest=highest, lowest=lowest, p=found.p)
