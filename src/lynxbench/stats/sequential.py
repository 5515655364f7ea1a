"""Whether the level of a stream of sessions has fallen: one look a session, with a stated rate of false alarms a year.

The reference is a window of the first sessions of a level and stays where it is: nothing that comes later moves it.
For every span of newest sessions the mean loss against it is a Student's t, and each look at each span pays its share
of the year's false alarms (Bonferroni: nothing is assumed of how looks depend on one another). Days of the week are
learned from the window as far as it shows them, neighbours that remember one another widen the error, sessions that
scatter more than the window did count with their own scatter, and a single session counts no further than its clip.

How far a window of a few sessions that remember one another may be off is hardly known, and a t that allows for it is
reached by no loss at all. So a span also tells where most of its sessions lie beyond everything that the window saw, by
several times all that it saw.

Every array has a leading axis of streams: a simulated year is judged by the same code as a real night.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats
from lynxbench.stats.robust import MAD_TO_SIGMA

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FEWEST = 14
"""Sessions of a reference window: two of each day of the week, where there is one a day."""
MOST = 56
"""And at most: eight weeks, which know the level to an eighth of a session's noise."""
SPANS = (3, 5, 8, 14)
"""Newest sessions that are tested together: one outlier makes no three, and two weeks show what three days do not."""
SPENT = (0.46, 0.18, 0.18, 0.18)
"""How the false alarms of a look are shared among them: what is to be told soon has the least room for evidence."""
RECENT = 28
"""Sessions before the tested ones whose scatter counts where it has grown."""
FEWEST_RECENT = 10
CLIP_P = 3e-5
"""A session counts no further than the deviation that so few have: four standard deviations of a normal law."""
GROWN_P = 0.05
"""Chance that sessions which scatter as before are taken to scatter more."""
SMALLEST = 1e-4
"""Standard deviation of a session that is believed at least: nothing repeats to better than 0.01 %."""
DAYS = 7
MOST_MEMORY = 0.9
NEARLY = 0.99
"""As strong as a span is called that does not persist."""
TAME = 3.0
"""Robust standard deviations to which sessions are pulled in for the level: a bad day moves it little. In the scatter
it counts whole."""
PERSISTS = 0.7
"""Share of a span's sessions that must lie off: an alarm is no matter of one or two outliers."""
FAR = (2.0, 1.0, 1.0, 1.0)
"""By how many standard deviations, span by span: of three sessions two may be outliers several times a year."""
BEYOND = 3.0
"""Widths of the window, from its lowest session to its highest, by which most of a span lie below the lowest, or above
the highest: then it tells, whatever its t. Of 14 sessions of a normal law that is twelve standard deviations."""
YEAR = 365.0


@dataclass(frozen=True, slots=True)
class SpanJudgement:
    """The span of newest sessions that speaks the loudest for a change in one direction, stream by stream."""

    strength: Floats
    """Its t over what it must reach: 1 and more is an alarm; NaN where nothing can be told yet."""
    span: Ints
    """Sessions of that span."""
    change: Floats
    """Mean of the span over the window's level, in logarithms."""
    error: Floats
    """Standard error of the change."""
    degrees: Floats


@dataclass(frozen=True, slots=True)
class LevelJudgement:
    """What the newest session says of each stream, with those before it; NaN where nothing can be told yet."""

    loss: SpanJudgement
    gain: SpanJudgement
    """Of the longest span alone: a gain has time, and is to be sure."""
    newest: Floats
    """The newest session over the window's level, in logarithms."""
    sigma: Floats
    """Standard deviation of a single session about that level."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """What a window says: its level, its days, its scatter and how much neighbours remember."""

    count: Floats
    level: Floats
    days: Floats
    groups: Floats
    kept: Floats
    """How much of the days' differences is believed, 0 to 1."""
    memory: Floats
    variance: Floats
    degrees: Floats
    share: Floats
    """Mean share that its sessions have of the variance between restarts."""
    rest: Floats
    """What is left of its sessions beside level and days; 0 outside."""
    lowest: Floats
    """Of its sessions over the level."""
    highest: Floats


@dataclass(frozen=True, slots=True)
class SessionStreams:
    """Sessions in the order of time, one row a stream."""

    values: Floats
    """Logarithm of the figure, turned so that higher is better."""
    shares: Floats
    """What a session has of the variance between restarts: one over their number."""
    firsts: Floats
    """The same figure of what was measured first. Only low sessions are measured again: with what that gave, a window
    would scatter less than sessions do."""
    first_shares: Floats
    weekdays: Ints
    between_restarts: Floats
    """That variance, of each stream; 0 where it is not known: then all sessions count as having equally many."""
    starts: Ints
    """Where the window of the level in force begins."""
    ends: Ints
    """Where it ends at the latest: sessions from there on are of another executor."""


def judge_level(streams: SessionStreams, false_alarms: float, looks: float = YEAR) -> LevelJudgement:
    """The newest sessions of each stream against its window.

    `false_alarms` is the share of unchanged streams that may alarm within a year of `looks` sessions.
    """
    many = streams.values.shape[0]
    loss, gain = _nothing(many), _nothing(many)
    newest, sigma = np.full(many, np.nan), np.full(many, np.nan)
    made: tuple[Ints, _Reference] | None = None
    for span, spent, far in zip(SPANS, SPENT, FAR, strict=True):
        ends, known = _window(streams, span)
        if not np.any(known):
            continue
        if made is None or not np.array_equal(made[0], ends):
            made = ends, _reference(streams, ends)
        scatter = _scatter(made[1], *_recent(streams, made[1], ends, streams.values.shape[1] - span))
        risen, single, own = _judge_span(streams, made[1], scatter, span, spent * false_alarms / looks, far)
        if span == SPANS[-1]:
            gain = _louder(gain, risen, known)
        loss = _louder(loss, replace(risen, strength=-risen.strength), known)
        first = known & np.isnan(sigma)  # the shortest span leaves the most sessions to the window
        newest, sigma = np.where(first, own, newest), np.where(first, single, sigma)
    return LevelJudgement(loss, gain, newest, sigma)


def measure_span(streams: SessionStreams, span: int) -> SpanJudgement:
    """The mean of the newest sessions of each stream over its window's level; NaN where the window is too small.

    The scatter is the window's own: what lies between may be a loss.
    """
    ends, known = _window(streams, span)
    window = _reference(streams, ends)
    risen, _, _ = _judge_span(streams, window, (window.variance, window.degrees), span, 0.5, 1.0)
    change, error, degrees = (np.where(known, part, np.nan) for part in (risen.change, risen.error, risen.degrees))
    return SpanJudgement(np.full(len(known), np.nan), risen.span, change, error, degrees)


def measure_return(streams: SessionStreams, span: int) -> tuple[Flags, Floats]:
    """Whether as many of the newest sessions as must for an alarm lie where its window's own sessions lay, stream by
    stream; and how far from the level the lowest of those was."""
    ends, known = _window(streams, span)
    window = _reference(streams, ends)
    _, risen = _shared(_changes(streams, window, streams.values.shape[1] - span))
    return known & (risen >= window.lowest), window.lowest


def bound_of(judged: SpanJudgement, beyond: float) -> Floats:
    """How far the change may lie from its estimate, with so much beyond it on one side."""
    return judged.error * _quantile(judged.degrees, beyond)


def _window(streams: SessionStreams, span: int) -> tuple[Ints, Flags]:
    """Where each window ends, the tested sessions left out; and whether it holds enough."""
    ends = np.minimum(np.minimum(streams.starts + MOST, streams.ends), streams.values.shape[1] - span)
    return ends, ends - streams.starts >= FEWEST


def _nothing(many: int) -> SpanJudgement:
    unknown = np.full(many, np.nan)
    return SpanJudgement(unknown, np.zeros(many, dtype=np.int64), unknown, unknown, unknown)


def _louder(before: SpanJudgement, after: SpanJudgement, known: Flags) -> SpanJudgement:
    better = known & (np.isnan(before.strength) | (after.strength > before.strength))
    chosen = (np.where(better, getattr(after, name), getattr(before, name)) for name in SpanJudgement.__slots__)
    return SpanJudgement(*chosen)


def _judge_span(
    streams: SessionStreams, window: _Reference, scatter: tuple[Floats, Floats], span: int, share: float, far: float
) -> tuple[SpanJudgement, Floats, Floats]:
    """The rise over one span; the newest session's standard deviation; and its own change."""
    first = streams.values.shape[1] - span
    variance, degrees = scatter
    memory = window.memory
    degrees = np.maximum(degrees * (1 - memory**2) / (1 + memory**2), 1.0)
    changes = _changes(streams, window, first)
    restarts = streams.between_restarts[:, None]
    each = np.maximum(variance[:, None] - restarts * window.share[:, None], 0.0) + restarts * streams.shares[:, first:]
    single = np.sqrt(each + (variance / window.count)[:, None])
    clip = _quantile(degrees, CLIP_P)[:, None] * single
    of_days = window.kept * np.maximum(window.groups / min(span, DAYS) - 1, 0) / window.count
    of_level = (1 + memory) / (1 - memory) / window.count
    together = np.maximum(_inflation(memory, span) / span, _moving(window, span) / window.variance)
    error = np.sqrt(each.mean(axis=1) * together + variance * (of_level + of_days))
    with np.errstate(invalid="ignore", divide="ignore"):
        strength = np.clip(changes, -clip, clip).mean(axis=1) / error / _quantile(degrees, share)
    off = np.sign(strength)[:, None] * changes > far * single
    strength = np.where(off.mean(axis=1) >= PERSISTS, strength, np.clip(strength, -NEARLY, NEARLY))
    fallen, risen = _shared(changes)
    width = window.highest - window.lowest
    strength = np.where(fallen < window.lowest - BEYOND * width, np.minimum(strength, -1.0), strength)
    strength = np.where(risen > window.highest + BEYOND * width, np.maximum(strength, 1.0), strength)
    judged = SpanJudgement(strength, np.full(len(strength), span), changes.mean(axis=1), error, degrees)
    return judged, single[:, -1], changes[:, -1]


def _changes(streams: SessionStreams, window: _Reference, first: int) -> Floats:
    """Sessions from a place on over the window's level, each less what its day of the week has shown."""
    days = np.take_along_axis(window.days, streams.weekdays[:, first:], axis=1)
    return np.asarray(streams.values[:, first:] - window.level[:, None] - days, dtype=np.float64)


def _shared(changes: Floats) -> tuple[Floats, Floats]:
    """How far down, and how far up, as many sessions of a span lie as must for an alarm: no matter of outliers."""
    ordered, most = np.sort(changes, axis=1), math.ceil(PERSISTS * changes.shape[1])
    return ordered[:, most - 1], ordered[:, -most]


def _reference(streams: SessionStreams, ends: Ints) -> _Reference:
    places = streams.starts[:, None] + np.arange(MOST)
    inside = places < ends[:, None]
    places = np.minimum(places, streams.values.shape[1] - 1)
    sample, shares = (np.take_along_axis(each, places, axis=1) for each in (streams.firsts, streams.first_shares))
    days = np.take_along_axis(streams.weekdays, places, axis=1)
    count = np.maximum(inside.sum(axis=1), 1).astype(np.float64)
    tamed = _tamed(sample, days, inside, count)
    level = np.where(inside, tamed, 0.0).sum(axis=1) / count
    effects, groups, kept = _days(np.where(inside, tamed - level[:, None], 0.0), days, inside, count)
    rest = np.where(inside, sample - level[:, None] - np.take_along_axis(effects, days, axis=1), 0.0)
    degrees = np.maximum(count - 1 - kept * (groups - 1), 1.0)
    scatter = (rest**2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        lagged = np.where(scatter > 0, (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / scatter, 0.0)
    memory = np.clip(lagged + (1 + 4 * lagged) / count, 0.0, MOST_MEMORY)  # less its bias (Kendall 1954)
    seen = np.maximum(1 - (_inflation(memory, MOST) - 1) / count, 1 / 3)  # sessions alike scatter less than they vary
    share = np.where(inside, shares, 0.0).sum(axis=1) / count
    variance = np.maximum(scatter / degrees / seen, SMALLEST**2)
    seen_whole = np.where(inside, sample - level[:, None], 0.0)  # days and all: of few sessions they are a guess
    lowest, highest = np.minimum(seen_whole.min(axis=1), -SMALLEST), np.maximum(seen_whole.max(axis=1), SMALLEST)
    return _Reference(count, level, effects, groups, kept, memory, variance, degrees, share, rest, lowest, highest)


def _moving(window: _Reference, span: int) -> Floats:
    """The variance that means of so many neighbours had in the window, less a standard error of it: long memory."""
    sums = np.cumsum(np.pad(window.rest, ((0, 0), (1, 0))), axis=1)
    means = (sums[:, span:] - sums[:, :-span]) / span
    whole = np.arange(means.shape[1]) + span <= window.count[:, None]
    many = np.maximum(whole.sum(axis=1), 1)
    seen = np.maximum(1 - span / window.count, 1 / 3)
    squares = np.where(whole, means**2, 0.0).sum(axis=1)
    chance = 1 + np.sqrt(4 * span / (3 * window.count))  # of overlapping means of sessions that remember nothing
    return np.asarray(squares / many / seen / chance, dtype=np.float64)


def _tamed(sample: Floats, days: Ints, inside: Flags, count: Floats) -> Floats:
    """Sessions pulled in to within a few robust standard deviations of the median of their day."""
    centre = np.zeros_like(sample)
    for day in range(DAYS):
        mine = inside & (days == day)
        centre = np.where(mine, _median(sample, mine, mine.sum(axis=1)), centre)
    rest = sample - centre
    reach = TAME * MAD_TO_SIGMA * _median(np.abs(rest), inside, count)
    return np.where(reach > 0, centre + np.clip(rest, -reach, reach), sample)


def _median(sample: Floats, inside: Flags, count: npt.NDArray[Any]) -> Floats:
    none = ~inside.any(axis=1, keepdims=True)
    ordered = np.sort(np.where(inside | none, sample, np.inf), axis=1)
    middle = np.maximum(count.astype(np.int64)[:, None] - 1, 0)
    lower, upper = (np.take_along_axis(ordered, (middle + more) // 2, axis=1) for more in (0, 1))
    return np.asarray((lower + upper) / 2, dtype=np.float64)


def _days(rest: Floats, days: Ints, inside: Flags, count: Floats) -> tuple[Floats, Floats, Floats]:
    """Differences between days of the week, shrunk by what chance alone would show of them (James & Stein 1961)."""
    of_day = [inside & (days == day) for day in range(DAYS)]
    sizes = np.stack([mine.sum(axis=1) for mine in of_day], axis=1).astype(np.float64)
    means = np.stack([np.where(mine, rest, 0.0).sum(axis=1) for mine in of_day], axis=1) / np.maximum(sizes, 1)
    groups = (sizes > 0).sum(axis=1).astype(np.float64)
    between = (sizes * means**2).sum(axis=1)
    within = (rest**2).sum(axis=1) - between
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = within / (count - groups) / (between / (groups - 1))
    told = (groups > 1) & (count - groups >= DAYS) & (between > 0) & np.isfinite(chance)
    kept = np.where(told, np.clip(1 - chance, 0.0, 1.0), 0.0)
    return means * kept[:, None], groups, kept


def _recent(streams: SessionStreams, window: _Reference, ends: Ints, until: int) -> tuple[Floats, Floats]:
    """The scatter of the sessions between the window and the tested ones about their own level."""
    first = max(0, until - RECENT)
    places = np.arange(first, until)
    inside = places[None, :] >= ends[:, None]
    count = inside.sum(axis=1).astype(np.float64)
    days = np.take_along_axis(window.days, streams.weekdays[:, first:until], axis=1)
    sample = streams.firsts[:, first:until] - days
    level = np.where(inside, sample, 0.0).sum(axis=1) / np.maximum(count, 1)
    scatter = np.where(inside, sample - level[:, None], 0.0)
    return (scatter**2).sum(axis=1) / np.maximum(count - 1, 1), np.where(count >= FEWEST_RECENT, count - 1, 0.0)


def _scatter(window: _Reference, recent: Floats, recent_degrees: Floats) -> tuple[Floats, Floats]:
    """Window and recent sessions together, or the recent ones alone where they scatter more than chance has it."""
    from scipy.special import fdtri

    few, place = np.unique(np.stack([recent_degrees, np.floor(window.degrees)]), axis=1, return_inverse=True)
    most = np.where(few[0] > 0, fdtri(np.maximum(few[0], 1), few[1], 1 - GROWN_P), np.inf)[place.ravel()]
    together = window.degrees + recent_degrees
    pooled = (window.variance * window.degrees + recent * recent_degrees) / together
    grown = recent > most * window.variance
    return np.where(grown, recent, pooled), np.where(grown, recent_degrees, together)


def _inflation(memory: Floats, span: int) -> Floats:
    """What first-order autocorrelation does to the variance of a mean of so many."""
    return 1 + 2 * memory / (1 - memory) * (1 - (1 - memory**span) / (span * (1 - memory)))


def _quantile(degrees: Floats, beyond: float) -> Floats:
    """Student's t with so much beyond it; degrees are rounded down, which is the wider side."""
    from scipy.special import stdtrit

    whole, place = np.unique(np.maximum(np.floor(degrees), 1.0), return_inverse=True)
    return np.asarray(-stdtrit(whole, beyond), dtype=np.float64)[place]
