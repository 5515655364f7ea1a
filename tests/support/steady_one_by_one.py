"""Steadiness start by start and stretch by stretch, as it was judged before what cannot be was left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.arrays import Floats, Numbers, as_series, mean_of
from lynxbench.stats.autocorrelation import autocorrelation
from lynxbench.stats.cycles import CYCLE_PEAK, CYCLE_TROUGH, MIN_CYCLES
from lynxbench.stats.drift import (
    HEAD_SHARE,
    LATEST,
    MIN_HEAD,
    Noise,
    Truncation,
    head_excess,
    mser,
    noise_of,
    straight_line,
    tail_shift,
    total_drift,
)
from lynxbench.stats.intervals import check_confidence, student_quantile
from lynxbench.stats.robust import MAD_TO_SIGMA, MEAN_ABS_TO_SIGMA, Tamed, crowded, outliers_trend
from lynxbench.stats.steady import (
    ADVANCES,
    CUT_T,
    EXCURSION_SHARES,
    EXCURSION_T,
    LATE_POINTS,
    LATE_SHARE,
    MARGIN,
    MAX_OUTLIER_SHARE,
    MIN_POINTS,
    MIN_STRETCH,
    OUTLIER_SIGMAS,
    OUTLIER_WIDTH,
    STEP_ADVANTAGE,
    TRANSIENT_T,
    WEAK_LEVEL,
    SteadyJudgement,
    SteadyReason,
)


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
    first = cut.points if _cut_matters(tamed, cut.points) else 0
    view = _settled_view(tamed, _past_leading_outliers(first, outliers), level, drift_bound, horizon or 0)
    if view.mean == 0 or abs(view.mean) * WEAK_LEVEL < float(np.std(view.points)):
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


def _head(series: Floats, start: int, confidence: float) -> _Head:
    rest = series[start:]
    line = change, residuals = straight_line(rest)
    period = find_cycle(residuals)
    points = _cycles(rest, period).mean(axis=1) if period else rest
    mean = mean_of(points)
    if period:
        line = straight_line(points)
    noise = noise_of(line[1])
    few = max(MIN_HEAD, round(HEAD_SHARE * points.size))
    excess = head_excess(points, noise, confidence, few).scaled(1 / mean if mean else math.nan)
    return _Head(start, change, points, mean, noise, period, line[0], excess)


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


def _cut_matters(series: Floats, start: int) -> bool:
    """Whether what MSER cut differs from the rest at all: on pure noise it cuts at random, and points are dear."""
    if start == 0:
        return False
    rest = series[start:]
    noise = noise_of(straight_line(rest)[1])
    apart = abs(mean_of(series[:start]) - mean_of(rest))
    return apart > CUT_T * noise.long_run_sigma * math.sqrt(1 / start + 1 / rest.size)


def _is_transient(series: Floats, start: int, change: float, period: int, noise: Noise) -> bool:
    """Whether the part cut off lies, beyond doubt, away from where the line through the rest would put it."""
    rest = series[start:]
    back = (start + rest.size) / 2  # from the middle of what is counted to the middle of what was cut
    expected = mean_of(rest) - change / rest.size * back
    variance = 1 / start + 1 / rest.size + 12 * back**2 / rest.size**3
    error = noise.long_run_sigma * math.sqrt(variance * max(period, 1))
    return abs(mean_of(series[:start]) - expected) > TRANSIENT_T * error


def _settled_view(series: Floats, start: int, confidence: float, bound: float, horizon: int) -> _View:
    """From the MSER cut on, or from the first later start within half of the run whose head has settled.

    MSER minimises the error of the mean, not its bias: with noise it cuts an exponential settling too early.
    """
    first = head = _head(series, start, confidence)
    step = max(1, series.size // ADVANCES)
    while not head.excess.inside(-bound, bound) and head.start + step <= series.size * LATEST:
        head = _head(series, head.start + step, confidence)
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
    reach = student_quantile((1 + confidence) / 2, n_eff - 1) * float(np.std(counted, ddof=1)) / math.sqrt(n_eff)
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


def _stretches(series: Floats) -> Iterator[tuple[int, int]]:
    """For each length looked at, the stretch that departs most from the rest."""
    total = np.concatenate(([0.0], np.cumsum(series - mean_of(series))))
    for share in EXCURSION_SHARES:
        length = max(MIN_STRETCH, round(share * series.size))
        if series.size - length >= MIN_STRETCH:
            start = int(np.argmax(np.abs(total[length:] - total[:-length])))
            yield start, start + length


def _has_excursion(series: Floats, bound: float) -> bool:
    """Whether some stretch departs from the rest by more than the bound, beyond doubt."""
    places = np.arange(series.size)
    return any(_apart(series, (places >= start) & (places < end), bound) for start, end in _stretches(series))


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
    explained = [(total[b] - total[a]) ** 2 * n / ((b - a) * (n - b + a)) for a, b in _stretches(series)]
    left_by_stretch = power - max(explained, default=0.0)
    if left_by_step < STEP_ADVANTAGE * left_by_line:
        return SteadyReason.EXCURSION if left_by_stretch < STEP_ADVANTAGE * left_by_step else SteadyReason.STEP
    return SteadyReason.EXCURSION if left_by_stretch < STEP_ADVANTAGE * left_by_line else otherwise


def find_cycle(residuals: Floats) -> int:
    """Period in points of a cycle that repeats at least MIN_CYCLES times, or 0."""
    longest = residuals.size // MIN_CYCLES
    if longest < 4 or not np.any(residuals):
        return 0
    acf = autocorrelation(residuals)[: longest + 2]
    negative = np.flatnonzero(acf < 0)
    if negative.size == 0:
        return 0
    first = int(negative[0])
    later = acf[first : longest + 1]
    if later.size == 0:
        return 0
    period = first + int(np.argmax(later))
    if acf[period] < CYCLE_PEAK or acf[period // 2] > CYCLE_TROUGH:
        return 0
    return period if period >= 4 else 0


def _cycles(series: Floats, period: int) -> Floats:
    """Whole cycles as rows, aligned with the end of the series."""
    cycles = series.size // period
    return np.asarray(series[series.size - cycles * period :].reshape(cycles, period))


def _cycle_range(series: Floats, period: int) -> float:
    return float(np.ptp(_cycles(series, period).mean(axis=0)))


def running_median(values: Floats, width: int) -> Floats:
    """Centred running median of odd width, mirrored at the ends; keeps steps, drops spikes shorter than half of it."""
    if values.size == 0:
        return values
    half = min(width // 2, (values.size - 1) // 2)
    if half == 0:
        return values.copy()
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, half, mode="reflect"), 2 * half + 1)
    return np.asarray(np.partition(windows, half, axis=1)[:, half], dtype=np.float64)


def robust_sigma(residuals: Floats) -> float:
    """Scale by the median absolute deviation; quantised data, whose MAD is 0, by the mean one."""
    if residuals.size == 0:
        return 0.0
    magnitudes = np.abs(residuals)
    sigma = MAD_TO_SIGMA * float(np.median(magnitudes))
    return sigma if sigma > 0 else MEAN_ABS_TO_SIGMA * float(np.mean(magnitudes))


def tame_outliers(values: Floats, *, width: int, limit_sigmas: float, level_out: bool = False) -> Tamed:
    """Clip departures from the running median to ±limit sigmas: steps and slow cycles pass, lone spikes do not.

    With `level_out` an outlier takes the value of the running median: at the limit it would still add to the noise.
    """
    level = running_median(values, width)
    residuals = values - level
    sigma = robust_sigma(residuals)
    if sigma == 0:
        return Tamed(values.copy(), np.empty(0, dtype=np.int64), 0.0)
    bound = limit_sigmas * sigma
    outliers = np.flatnonzero(np.abs(residuals) > bound)
    pulled_in = np.where(np.abs(residuals) > bound, 0.0, residuals) if level_out else np.clip(residuals, -bound, bound)
    return Tamed(level + pulled_in, outliers, sigma)
