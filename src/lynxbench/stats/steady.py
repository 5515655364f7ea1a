"""Steady, not steady, or not yet known: truncation first, then tests of equivalence, so that silence is no proof.

A series is steady when, after MSER-5 has cut the warm-up, the whole intervals of its drift, of its last third minus its
first third, and of its head minus its last half lie within ±bound of the mean, and no stretch in between departs from
it. Absence of a significant drift is not enough: a short or noisy series is inconclusive (Schuirmann 1987;
docs/methodology/steady-state.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.arrays import Floats, Numbers, as_series, deviation_of, mean_of
from lynxbench.stats.cycles import find_cycle
from lynxbench.stats.drift import (
    HEAD_SHARE,
    LATEST,
    Noise,
    Truncation,
    head_excess,
    head_points,
    mser,
    noise_of,
    straight_line,
    tail_shift,
    total_drift,
)
from lynxbench.stats.intervals import check_confidence, student_quantile
from lynxbench.stats.robust import crowded, outliers_trend, tame_outliers
from lynxbench.stats.settling import surely_unsettled

MIN_POINTS = 12
OUTLIER_WIDTH = 11  # points of the running median: spikes of up to five are outliers, longer ones are a level
OUTLIER_SIGMAS = 6.0
MAX_OUTLIER_SHARE = 0.05  # beyond it they are no outliers but part of the law, and nothing is clipped
LATE_SHARE = 1 / 20  # of the series: so many outliers at its end may be a late step, and are not clipped …
LATE_POINTS = 2  # … nor any of its last points, where so few are that share
EXCURSION_T = 5.0  # pays for the search over places and for a noise estimated after the fact
EXCURSION_SHARES = (1 / 20, 1 / 10, 1 / 5, 1 / 3, 1 / 2)  # lengths of the stretches, of what is counted
MIN_STRETCH = 3  # points
JUMP_ROUNDING = 1e-13  # of the largest value and by point: a hundred times what the sums are off by
ADVANCES = 40  # a head that has not settled moves the start on by 1/40 of the run
CUT_T = 2.0  # standard errors by which the cut part must differ from the rest to be cut at all
MARGIN = 1.0  # of a head, left out on top of the cut: noise hides the last of a settling
TRANSIENT_T = 4.0  # what was cut is a warm-up, and not the first part of a drift, when a line cannot reach back to it
STEP_ADVANTAGE = 0.8  # residual squares of a step over those of a line, below which a change is called a step
WEAK_LEVEL = 2.0  # noise beyond twice the mean: relative drift has no meaning


class SteadyReason(StrEnum):
    """Why; empty for a plain steady series."""

    NONE = ""
    DRIFT = "drift"
    STEP = "step"
    LATE = "late"
    EXCURSION = "excursion"
    CYCLE = "cycle"
    OUTLIERS = "outliers"
    TOO_SHORT = "too short"
    NO_LEVEL = "no level"
    ORDER = "order"
    """Said by who reads a file whose rows are not in the order of their times."""


@dataclass(frozen=True, slots=True)
class SteadyJudgement:
    """The verdict and everything it rests on; drift and shift are relative to the counted mean."""

    verdict: SteadyVerdict
    reason: SteadyReason
    truncate: int  # points left out at the start
    counted: int  # points the figures rest on
    level: Interval  # mean of the counted points as they are, outliers included
    drift: Interval  # change of the fitted line over what is counted (or over the horizon asked for)
    tail_shift: Interval  # last third minus first third
    head: Interval  # head minus last half: what a settling that was cut too early would leave
    outliers: int  # points clipped for the tests, never for the mean
    n_eff: float
    phi: float  # first-order autocorrelation of the noise
    period: int = 0  # points of a cycle, 0 where none was found
    cycle_range: float = 0.0  # highest minus lowest phase of the mean cycle, relative


def judge_steady(
    values: Numbers,
    *,
    drift_bound: float = 0.01,
    confidence: float = 0.90,
    looks: int = 1,
    horizon: int | None = None,
    judge_outliers: bool = True,
) -> SteadyJudgement:
    """Judge a series of equally spaced means; `looks` splits the error over repeated calls on a growing run.

    `horizon` asks for the drift over that many points instead of over those counted: a run that stops early then cannot
    pass for steady merely because it was too short to drift. Without `judge_outliers` it is as edition 2 of the rules
    had it: outliers may grow, and a late step of a short series may pass for some of them.
    """
    if not drift_bound > 0:
        raise ValueError(f"drift_bound is {drift_bound}: it is a positive share, such as 0.01")
    check_confidence(confidence)
    if looks < 1:
        raise ValueError(f"looks is {looks}: at least the one being made")
    series = as_series(values)
    if series.size < MIN_POINTS:
        return _no_figures(series, SteadyReason.TOO_SHORT)
    scale = float(np.max(np.abs(series)))
    if scale == 0:
        return _no_figures(series, SteadyReason.NO_LEVEL)
    level = confidence if looks == 1 else 1 - (1 - confidence) / looks
    tamed, outliers = _without_outliers(series / scale, late=judge_outliers)
    cut = mser(tamed)
    after = _line(tamed, cut.points) if cut.points else None
    first = cut.points if after is not None and _cut_matters(tamed, cut.points, after) else 0
    start = _past_leading_outliers(first, outliers)
    head = _head(tamed, start, level, after if start == cut.points else None)
    view = _settled_view(tamed, head, level, drift_bound, horizon or 0)
    if view.mean == 0 or abs(view.mean) * WEAK_LEVEL < deviation_of(view.points):
        return _no_figures(series, SteadyReason.NO_LEVEL)
    start, noise, period = view.start, view.noise, view.period
    verdict, reason = _decide(tamed, cut, view, drift_bound)
    if verdict is SteadyVerdict.STEADY:
        places, count = outliers[outliers >= start], series.size - start
        sizes = np.abs(series[places] / scale - tamed[places])
        if outliers_trend(places - start, sizes, count) if judge_outliers else crowded(places - start, count):
            verdict, reason = SteadyVerdict.INCONCLUSIVE, SteadyReason.OUTLIERS
    if verdict is SteadyVerdict.STEADY and period:
        reason = SteadyReason.CYCLE
    return SteadyJudgement(
        verdict=verdict,
        reason=reason,
        truncate=start,
        counted=series.size - start,
        level=_level(series[start:] / scale, noise, level).scaled(scale),
        drift=view.drift,
        tail_shift=view.shift,
        head=view.head,
        outliers=int(outliers.size),
        n_eff=noise.n_eff,
        phi=noise.phi,
        period=period,
        cycle_range=_cycle_range(tamed[start:], period) / abs(view.mean) if period else 0.0,
    )


@dataclass(frozen=True, slots=True)
class _View:
    """The series from one start on, and its three equivalence intervals relative to its mean."""

    start: int
    points: Floats  # cycle means where there is a cycle
    mean: float
    noise: Noise
    period: int
    drift: Interval
    shift: Interval
    head: Interval

    def equivalent(self, bound: float) -> bool:
        """Whether drift, shift and head all lie within ±bound for sure."""
        return all(x.inside(-bound, bound) for x in (self.drift, self.shift, self.head))


@dataclass(frozen=True, slots=True)
class _Head:
    """The series from one start on, as far as it says whether its head has settled."""

    start: int
    change: float  # of the line through all of its points
    points: Floats  # cycle means where there is a cycle
    mean: float
    noise: Noise
    period: int
    rise: float  # of the line through the cycle means
    excess: Interval


@dataclass(frozen=True, slots=True)
class _Line:
    """The line through the points from one start on: its change, and the noise about it."""

    change: float
    residuals: Floats
    noise: Noise


def _line(series: Floats, start: int) -> _Line:
    change, residuals = straight_line(series[start:])
    return _Line(change, residuals, noise_of(residuals))


def _head(series: Floats, start: int, confidence: float, known: _Line | None = None) -> _Head:
    """`known`: the line through these points, where it was fitted already."""
    line = plain = _line(series, start) if known is None else known
    points, period = series[start:], find_cycle(line.residuals)
    if period:
        points = _cycles(points, period).mean(axis=1)
        line = _line(points, 0)
    mean = mean_of(points)
    excess = head_excess(points, line.noise, confidence, head_points(points.size))
    return _Head(
        start,
        plain.change,
        points,
        mean,
        line.noise,
        period,
        line.change,
        excess.scaled(1 / mean if mean else math.nan),
    )


def _view(series: Floats, head: _Head, confidence: float, horizon: int) -> _View:
    start, points, mean, noise = head.start, head.points, head.mean, head.noise
    # Unless what was cut is a transient, the claim is about the whole run: a drift must not pass by being halved.
    whole = 0 if start == 0 or _is_transient(series, start, head.change, head.period, noise) else series.size
    span = points.size * max(1.0, max(horizon, whole) / (series.size - start))
    factor = 1 / mean if mean else math.nan
    return _View(
        start=start,
        points=points,
        mean=mean,
        noise=noise,
        period=head.period,
        drift=total_drift(points, noise, confidence, span, head.rise).scaled(factor),
        shift=tail_shift(points, noise, confidence).scaled(factor),
        head=head.excess,
    )


def _cut_matters(series: Floats, start: int, line: _Line) -> bool:
    """Whether what MSER cut differs from the rest at all: on pure noise it cuts at random, and points are dear."""
    rest = series[start:]
    apart = abs(mean_of(series[:start]) - mean_of(rest))
    return apart > CUT_T * line.noise.long_run_sigma * math.sqrt(1 / start + 1 / rest.size)


def _is_transient(series: Floats, start: int, change: float, period: int, noise: Noise) -> bool:
    """Whether the part cut off lies, beyond doubt, away from where the line through the rest would put it."""
    rest = series[start:]
    back = (start + rest.size) / 2  # from the middle of what is counted to the middle of what was cut
    expected = mean_of(rest) - change / rest.size * back
    variance = 1 / start + 1 / rest.size + 12 * back**2 / rest.size**3
    error = noise.long_run_sigma * math.sqrt(variance * max(period, 1))
    return abs(mean_of(series[:start]) - expected) > TRANSIENT_T * error


def _settled_view(series: Floats, first: _Head, confidence: float, bound: float, horizon: int) -> _View:
    """From the MSER cut on, or from the first later start within half of the run whose head has settled.

    MSER minimises the error of the mean, not its bias: with noise it cuts an exponential settling too early.
    """
    head, step = first, max(1, series.size // ADVANCES)
    if not head.excess.inside(-bound, bound):
        starts = np.arange(first.start + step, int(series.size * LATEST) + 1, step)
        for later in starts[~surely_unsettled(series, starts, confidence, bound)].tolist():
            head = _head(series, later, confidence)
            if head.excess.inside(-bound, bound):
                break
    if not head.excess.inside(-bound, bound):
        head = first
    elif head.start > 0:
        spent = round(MARGIN * HEAD_SHARE * (series.size - head.start))
        head = _head(series, min(head.start + spent, int(series.size * LATEST)), confidence)
    return _view(series, head, confidence, horizon)


def _decide(whole: Floats, cut: Truncation, view: _View, bound: float) -> tuple[SteadyVerdict, SteadyReason]:
    """Evidence against comes first, then proof of equivalence, and doubt is what is left."""
    # Half of the bound: MSER has spoken already, what is asked here is only whether it spoke about noise.
    if cut.late and _apart(whole, np.arange(whole.size) >= cut.wanted, bound / 2):
        return SteadyVerdict.NOT_STEADY, _kind_of_change(whole, SteadyReason.LATE)
    moved = any(x.low > bound or x.high < -bound for x in (view.drift, view.shift))
    if moved or _has_excursion(view.points, bound):
        return SteadyVerdict.NOT_STEADY, _kind_of_change(view.points, SteadyReason.DRIFT)
    if view.equivalent(bound):
        return SteadyVerdict.STEADY, SteadyReason.NONE
    return SteadyVerdict.INCONCLUSIVE, SteadyReason.TOO_SHORT


def _no_figures(series: Floats, reason: SteadyReason) -> SteadyJudgement:
    mean = Interval(math.nan, mean_of(series) if series.size else math.nan, math.nan)
    unknown = UNKNOWN_INTERVAL
    return SteadyJudgement(
        SteadyVerdict.INCONCLUSIVE, reason, 0, series.size, mean, unknown, unknown, unknown, 0, 0.0, 0.0
    )


def _level(counted: Floats, noise: Noise, confidence: float) -> Interval:
    """Mean with Student's interval on the effective count."""
    mean, n_eff = mean_of(counted), max(noise.n_eff, 2.0)
    reach = student_quantile((1 + confidence) / 2, n_eff - 1) * deviation_of(counted, 1) / math.sqrt(n_eff)
    return Interval(mean - reach, mean, mean + reach)


def _without_outliers(series: Floats, *, late: bool) -> tuple[Floats, npt.NDArray[np.int64]]:
    tamed = tame_outliers(series, width=OUTLIER_WIDTH, limit_sigmas=OUTLIER_SIGMAS, level_out=late)
    allowed = max(2, math.ceil(MAX_OUTLIER_SHARE * series.size))
    if tamed.outliers.size > allowed:
        return series, np.empty(0, dtype=np.int64)
    first = series.size - (LATE_POINTS if LATE_SHARE * series.size <= LATE_POINTS else 0)
    taken = set(tamed.outliers.tolist())
    while first - 1 in taken:
        first -= 1
    if not late or series.size - first < LATE_SHARE * series.size:
        return tamed.values, tamed.outliers
    return np.concatenate((tamed.values[:first], series[first:])), tamed.outliers[tamed.outliers < first]


def _past_leading_outliers(start: int, outliers: npt.NDArray[np.int64]) -> int:
    """A start-up spike right where counting would begin is start-up, not noise."""
    taken = set(outliers.tolist())
    while start in taken:
        start += 1
    return start


def _stretches(series: Floats) -> Iterator[tuple[int, int, float]]:
    """For each length looked at, the stretch that departs most from the rest, and the sum of its departures."""
    total = np.concatenate(([0.0], np.cumsum(series - mean_of(series))))
    for share in EXCURSION_SHARES:
        length = max(MIN_STRETCH, round(share * series.size))
        if series.size - length >= MIN_STRETCH:
            departures = total[length:] - total[:-length]
            start = int(np.argmax(np.abs(departures)))
            yield start, start + length, float(departures[start])


def _has_excursion(series: Floats, bound: float) -> bool:
    """Whether some stretch departs from the rest by more than the bound, beyond doubt."""
    count, places = series.size, np.arange(series.size)
    # The departures tell the jump but for rounding: where it is below the bound by more, no stretch is laid out.
    least = bound * abs(mean_of(series)) - JUMP_ROUNDING * count * float(np.abs(series).max())
    return any(
        _apart(series, (places >= start) & (places < end), bound)
        for start, end, sum_apart in _stretches(series)
        if abs(sum_apart) * count > least * (end - start) * (count - end + start)
    )


def _apart(series: Floats, inside: npt.NDArray[np.bool_], bound: float) -> bool:
    """Whether two parts differ by more than `bound` of the mean and by EXCURSION_T standard errors."""
    a, b = series[inside], series[~inside]
    jump = abs(mean_of(a) - mean_of(b))
    if jump <= bound * abs(mean_of(series)):
        return False
    noise = noise_of(series - np.where(inside, mean_of(a), mean_of(b)))
    return jump > EXCURSION_T * noise.long_run_sigma * math.sqrt(1 / a.size + 1 / b.size)


def _kind_of_change(series: Floats, otherwise: SteadyReason) -> SteadyReason:
    """`step` or `excursion` where a jump, or a jump there and back, explains the series clearly better than a line."""
    line = straight_line(series)[1]
    left_by_line = float(line @ line)
    centred = series - mean_of(series)
    power, n = float(centred @ centred), series.size
    total = np.concatenate(([0.0], np.cumsum(centred)))
    places = np.arange(MIN_STRETCH, n - MIN_STRETCH + 1)
    left_by_step = power - float(np.max(total[places] ** 2 * n / (places * (n - places)), initial=0.0))
    explained = [apart**2 * n / ((b - a) * (n - b + a)) for a, b, apart in _stretches(series)]
    left_by_stretch = power - max(explained, default=0.0)
    if left_by_step < STEP_ADVANTAGE * left_by_line:
        return SteadyReason.EXCURSION if left_by_stretch < STEP_ADVANTAGE * left_by_step else SteadyReason.STEP
    return SteadyReason.EXCURSION if left_by_stretch < STEP_ADVANTAGE * left_by_line else otherwise


def _cycles(series: Floats, period: int) -> Floats:
    """Whole cycles as rows, aligned with the end of the series."""
    cycles = series.size // period
    return np.asarray(series[series.size - cycles * period :].reshape(cycles, period))


def _cycle_range(series: Floats, period: int) -> float:
    return float(np.ptp(_cycles(series, period).mean(axis=0)))
