"""Steadiness start by start and stretch by stretch, as it was judged before what cannot be was left out.

What is held here is the plain form of what is quicker now; around it, what never changed is that of the library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats import robust, steady
from lynxbench.stats.arrays import Floats, as_series, mean_of
from lynxbench.stats.autocorrelation import autocorrelation
from lynxbench.stats.cycles import CYCLE_PEAK, CYCLE_TROUGH, MIN_CYCLES, MIN_PERIOD
from lynxbench.stats.drift import HEAD_SHARE, LATEST, MIN_HEAD, head_excess, mser, noise_of, straight_line
from lynxbench.stats.robust import MAD_TO_SIGMA, MEAN_ABS_TO_SIGMA, crowded, outliers_trend
from lynxbench.stats.steady import (
    ADVANCES,
    CUT_T,
    EXCURSION_SHARES,
    MARGIN,
    MIN_STRETCH,
    STEP_ADVANTAGE,
    WEAK_LEVEL,
    SteadyJudgement,
    SteadyReason,
    _apart,
    _cycle_range,
    _cycles,
    _decide,
    _Head,
    _level,
    _no_figures,
    _past_leading_outliers,
    _View,
    _view,
    _without_outliers,
)


def judge_steady(
    values: Floats, *, drift_bound: float, confidence: float, horizon: int | None, judge_outliers: bool
) -> SteadyJudgement:
    """Judge a series that is long enough and not all zeros, looked at once."""
    # What never changed calls the plain forms here, or one error would be on both sides.
    with (
        patch.multiple(robust, running_median=running_median, robust_sigma=robust_sigma),
        patch.multiple(steady, deviation_of=deviation, _has_excursion=has_excursion, _kind_of_change=kind_of_change),
    ):
        return _judged(as_series(values), drift_bound, confidence, horizon or 0, judge_outliers)


def _judged(series: Floats, bound: float, confidence: float, horizon: int, judge_outliers: bool) -> SteadyJudgement:
    scale = float(np.max(np.abs(series)))
    tamed, outliers = _without_outliers(series / scale, late=judge_outliers)
    cut = mser(tamed)
    first = cut.points if _cut_matters(tamed, cut.points) else 0
    view = _settled_view(tamed, _past_leading_outliers(first, outliers), confidence, bound, horizon)
    if view.mean == 0 or abs(view.mean) * WEAK_LEVEL < deviation(view.points):
        return _no_figures(series, SteadyReason.NO_LEVEL)
    start, noise, period = view.start, view.noise, view.period
    verdict, reason = _decide(tamed, cut, view, bound)
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
        level=_level(series[start:] / scale, noise, confidence).scaled(scale),
        drift=view.drift,
        tail_shift=view.shift,
        head=view.head,
        outliers=int(outliers.size),
        n_eff=noise.n_eff,
        phi=noise.phi,
        period=period,
        cycle_range=_cycle_range(tamed[start:], period) / abs(view.mean) if period else 0.0,
    )


def _cut_matters(series: Floats, start: int) -> bool:
    """With a line of its own through the rest."""
    if start == 0:
        return False
    rest = series[start:]
    noise = noise_of(straight_line(rest)[1])
    apart = abs(mean_of(series[:start]) - mean_of(rest))
    return apart > CUT_T * noise.long_run_sigma * math.sqrt(1 / start + 1 / rest.size)


def head_from(series: Floats, start: int, confidence: float) -> _Head:
    """With a line of its own."""
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


def _settled_view(series: Floats, start: int, confidence: float, bound: float, horizon: int) -> _View:
    """By every start up to the first whose head has settled."""
    first = head = head_from(series, start, confidence)
    step = max(1, series.size // ADVANCES)
    while not head.excess.inside(-bound, bound) and head.start + step <= series.size * LATEST:
        head = head_from(series, head.start + step, confidence)
    if not head.excess.inside(-bound, bound):
        head = first
    elif head.start > 0:
        spent = round(MARGIN * HEAD_SHARE * (series.size - head.start))
        head = head_from(series, min(head.start + spent, int(series.size * LATEST)), confidence)
    return _view(series, head, confidence, horizon)


def _stretches(series: Floats) -> Iterator[tuple[int, int]]:
    total = _departures(series)
    for share in EXCURSION_SHARES:
        length = max(MIN_STRETCH, round(share * series.size))
        if series.size - length >= MIN_STRETCH:
            start = int(np.argmax(np.abs(total[length:] - total[:-length])))
            yield start, start + length


def _departures(series: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(series - mean_of(series))))


def has_excursion(series: Floats, bound: float) -> bool:
    """Every stretch is laid out."""
    places = np.arange(series.size)
    return any(_apart(series, (places >= start) & (places < end), bound) for start, end in _stretches(series))


def kind_of_change(series: Floats, otherwise: SteadyReason) -> SteadyReason:
    """With the sums of its own over each stretch."""
    line, centred, total, n = straight_line(series)[1], series - mean_of(series), _departures(series), series.size
    left_by_line, power = float(line @ line), float(centred @ centred)
    places = np.arange(MIN_STRETCH, n - MIN_STRETCH + 1)
    left_by_step = power - float(np.max(total[places] ** 2 * n / (places * (n - places)), initial=0.0))
    explained = [(total[b] - total[a]) ** 2 * n / ((b - a) * (n - b + a)) for a, b in _stretches(series)]
    left_by_stretch = power - max(explained, default=0.0)
    if left_by_step < STEP_ADVANTAGE * left_by_line:
        return SteadyReason.EXCURSION if left_by_stretch < STEP_ADVANTAGE * left_by_step else SteadyReason.STEP
    return SteadyReason.EXCURSION if left_by_stretch < STEP_ADVANTAGE * left_by_line else otherwise


def find_cycle(residuals: Floats) -> int:
    """By the transform of all lags, whatever a few of them say."""
    longest = residuals.size // MIN_CYCLES
    if longest < MIN_PERIOD or not np.any(residuals):
        return 0
    acf = autocorrelation(residuals)[: longest + 1]
    negative = np.flatnonzero(acf < 0)
    if negative.size == 0:
        return 0
    period = int(negative[0] + np.argmax(acf[negative[0] :]))
    cyclic = acf[period] >= CYCLE_PEAK and acf[period // 2] <= CYCLE_TROUGH
    return period if cyclic and period >= MIN_PERIOD else 0


def running_median(values: Floats, width: int) -> Floats:
    """With numpy's own mirroring and windows."""
    half = min(width // 2, (values.size - 1) // 2)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, half, mode="reflect"), 2 * half + 1)
    return np.asarray(np.partition(windows, half, axis=1)[:, half], dtype=np.float64)


def robust_sigma(residuals: Floats) -> float:
    """With numpy's own median and mean."""
    magnitudes = np.abs(residuals)
    sigma = MAD_TO_SIGMA * float(np.median(magnitudes))
    return sigma if sigma > 0 else MEAN_ABS_TO_SIGMA * float(np.mean(magnitudes))


def deviation(values: Floats, ddof: int = 0) -> float:
    """Numpy's own."""
    return float(np.std(values, ddof=ddof))
