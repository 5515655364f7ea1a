"""Change points of a history: candidates at many scales, an optimal segmentation, a strict confirmation, a rival.

1. Lone outliers are clipped to the running median's neighbourhood (they never make a change).
2. Moving sums at eight scales propose places (MOSUM: Eichinger & Kirch 2018).
3. Dynamic programming picks the segmentation of least penalised squared error over those places only
   (Jackson et al. 2005), which keeps it exact and quick.
4. The weakest boundary is dropped until every one that is left passes three tests: Welch's t between its two segments,
   widened for first-order autocorrelation; a rank separation (Cliff 1993) of the values right before from those right
   after; and a change that is material, against the history's own range or its level.
5. What is left must be a better account of the history than a drift, noise that remembers or a walk (wandering).
The constants were chosen on 86 annotated histories, inside a broad plateau; what that is worth on others, and how it
was checked, is in docs/methodology/change-points.md.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.history import Motion
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.stats.arrays import Floats, Numbers, as_series
from lynxbench.stats.level_ratio import LevelNoise
from lynxbench.stats.robust import tame_outliers
from lynxbench.stats.wandering import Explanation, explain

MEDIAN_WIDTH = 7  # spikes of up to three revisions are not a change
OUTLIER_SIGMAS = 8.0
SCALES = (6, 10, 16, 26, 42, 68, 110, 180)  # half-widths of the moving sums, a factor of 1.6 apart
PENALTY = 4.0  # × sigma² × ln n a boundary: liberal (BIC takes 2), for the confirmation decides
MIN_SEGMENT = 8  # revisions on either side before a level is believed
MIN_T = 5.25  # autocorrelation-adjusted Welch t; the margin over 1.96 pays for the search over places
MIN_SEPARATION = 0.75  # Cliff's delta: 7 of 8 pairs (before, after) are in the same order
NEAR = 30  # revisions on either side that the separation looks at: a step, not a slow slope
MIN_OF_RANGE = 0.04  # of the 1st to 99th percentile range of the history …
MATERIAL = 0.05  # … but a change of 5 % of the level is always material
VARIANCE_FLOOR = 0.5  # × the local noise variance: a segment quiet by chance earns no infinite t
MAX_PHI = 0.95
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The first index of a new level, the relative change, and how sure it is."""

    index: int
    change: float  # after / before - 1; NaN where the level before is 0
    p: float  # two-sided, of this split, autocorrelation-adjusted; the search over places is paid by MIN_T
    before: float  # mean of the segment before
    after: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a history moved: its steps, and what moves it between them."""

    changes: tuple[ChangePoint, ...] = ()
    motion: Motion = Motion.LEVELS
    trend: Interval = UNKNOWN_INTERVAL
    """End over start, of the line of a drift or of the first and last results of what wanders."""
    explained: Explanation | None = None
    centre: float = 0.0
    scale: float = 1.0
    """The explanation's values are departures from the centre in this unit."""

    def jump(self, place: int, confidence: float) -> Interval:
        """A step at a place beside the drift or the wandering, as a ratio to the level right before it."""
        if self.explained is None:
            return UNKNOWN_INTERVAL
        before = self.centre + self.scale * float(np.mean(self.explained.values[max(0, place - MIN_SEGMENT) : place]))
        if before == 0:
            return UNKNOWN_INTERVAL
        step = self.explained.step(place).interval(confidence).scaled(self.scale / before)
        return Interval(1 + step.low, 1 + step.estimate, 1 + step.high)


def read_course(
    values: Numbers,
    *,
    min_segment: int = MIN_SEGMENT,
    min_t: float = MIN_T,
    min_separation: float = MIN_SEPARATION,
    min_of_range: float = MIN_OF_RANGE,
) -> Course:
    """Change points of the mean level, and whether it drifts or wanders between them."""
    if min_segment < 2:
        raise ValueError(f"min_segment is {min_segment}: a level needs at least 2 values")
    series = as_series(values)
    if series.size < 2 * min_segment:
        return Course()
    centre = float(np.median(series))
    scale = float(np.max(np.abs(series - centre)))
    if scale <= 1e-12 * abs(centre) or scale == 0:  # constant but for rounding
        return Course()
    unit = (series - centre) / scale  # scale-free arithmetic: no overflow, no loss by a large offset
    tamed = tame_outliers(unit, width=MEDIAN_WIDTH, limit_sigmas=OUTLIER_SIGMAS)
    # A history without any noise still needs a scale: far below any change worth the name.
    sigma = max(tamed.sigma, 1e-6)
    places = _candidates(tamed.values, min_segment)
    bounds = _segment(tamed.values, places, min_segment, PENALTY * math.log(series.size) * sigma**2)
    judge = _Confirmation(unit, tamed.values, sigma, centre / scale, min_t, min_separation, min_of_range)
    explained = explain(tamed.values, judge.keep(bounds)[1:-1])
    bounds = [0, *explained.places, series.size]
    motion = explained.motion
    if motion is Motion.LEVELS:
        changes = tuple(_describe(judge, bounds, j, centre, scale) for j in range(1, len(bounds) - 1))
        return Course(changes, motion, UNKNOWN_INTERVAL, explained, centre, scale)
    changes = tuple(_beside(explained, place, centre, scale) for place in explained.places)
    return Course(changes, motion, _trend(series, explained, scale), explained, centre, scale)


def _candidates(values: Floats, min_segment: int) -> npt.NDArray[np.int64]:
    """Local maxima of the moving-sum difference at every scale."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    marked = np.zeros(values.size + 1, dtype=bool)
    for half in SCALES:
        if 2 * half > values.size:
            break
        jump = np.abs(total[2 * half :] - 2 * total[half:-half] + total[: -2 * half])
        marked[half : values.size - half + 1] |= (jump >= _sliding_max(jump, max(half // 2, 2))) & (jump > 0)
    marked[:min_segment] = False
    marked[values.size - min_segment + 1 :] = False
    return np.flatnonzero(marked)


def _sliding_max(values: Floats, reach: int) -> Floats:
    """Maximum over ±reach by doubling: log(reach) passes instead of reach."""
    width, have = 2 * reach + 1, 1
    padded = np.pad(values, reach, constant_values=-1.0)
    while 2 * have <= width:
        padded = np.maximum(padded[:-have], padded[have:])
        have *= 2
    if have < width:
        padded = np.maximum(padded[: padded.size - (width - have)], padded[width - have :])
    return padded


def _segment(values: Floats, places: npt.NDArray[np.int64], min_segment: int, penalty: float) -> list[int]:
    """Boundaries (0 and n included) of the least penalised squared error over the given places."""
    bounds = np.concatenate(([0], places, [values.size]))
    centred = values - np.mean(values)
    linear = np.concatenate(([0.0], np.cumsum(centred)))[bounds]
    # The squares telescope over a whole segmentation, so only the explained part decides.
    best = np.full(bounds.size, np.inf)
    best[0] = 0.0
    previous = np.zeros(bounds.size, dtype=np.int64)
    starts = np.searchsorted(bounds, bounds - min_segment, side="right")
    for j in range(1, bounds.size):
        until = int(starts[j])
        if until == 0:
            continue
        cost = best[:until] - (linear[j] - linear[:until]) ** 2 / (bounds[j] - bounds[:until])
        chosen = int(np.argmin(cost))
        best[j], previous[j] = cost[chosen] + penalty, chosen
    path = [bounds.size - 1]
    while path[-1]:
        path.append(int(previous[path[-1]]))
    return [int(bounds[i]) for i in reversed(path)]


@dataclass(frozen=True, slots=True)
class _Split:
    """Two neighbouring segments."""

    before: float
    after: float
    error: float  # standard error of the difference, without autocorrelation
    degrees: float  # Welch–Satterthwaite, on effective counts


class _Confirmation:
    """The tests a boundary must pass; sums are kept so that one test costs microseconds."""

    def __init__(
        self, raw: Floats, tamed: Floats, sigma: float, level: float, min_t: float, separation: float, of_range: float
    ) -> None:
        self._raw, self._tamed, self._level = raw, tamed, level
        self._floor = VARIANCE_FLOOR * sigma**2
        self._sum = np.concatenate(([0.0], np.cumsum(tamed)))
        self._squares = np.concatenate(([0.0], np.cumsum(tamed * tamed)))
        low, high = np.percentile(raw, [1, 99])
        self._material = of_range * float(high - low)
        self._min_t, self._separation = min_t, separation
        self.inflation = 1.0

    def keep(self, bounds: list[int]) -> list[int]:
        """Drop the weakest boundary until all pass; the autocorrelation is taken anew from what is left."""
        bounds = list(bounds)
        while len(bounds) > 2:
            self.inflation = variance_inflation(self._tamed, bounds)
            strengths = [self._strength(*bounds[j - 1 : j + 2]) for j in range(1, len(bounds) - 1)]
            if min(strengths) >= 1:
                break
            while strengths:
                weakest = min(range(len(strengths)), key=strengths.__getitem__)
                if strengths[weakest] >= 1:
                    break
                del strengths[weakest], bounds[weakest + 1]
                for j in (weakest - 1, weakest):
                    if 0 <= j < len(strengths):
                        strengths[j] = self._strength(*bounds[j : j + 3])
        return bounds

    def split(self, start: int, place: int, end: int) -> _Split:
        """Means, standard error and degrees of freedom of two neighbouring segments."""
        left, right = place - start, end - place
        before = (self._sum[place] - self._sum[start]) / left
        after = (self._sum[end] - self._sum[place]) / right
        scatter_left = self._squares[place] - self._squares[start] - left * before**2
        scatter_right = self._squares[end] - self._squares[place] - right * after**2
        error_left = max(scatter_left / max(left - 1, 1), self._floor) / left
        error_right = max(scatter_right / max(right - 1, 1), self._floor) / right
        spare_left = max(left / self.inflation - 1, 1)
        spare_right = max(right / self.inflation - 1, 1)
        total = error_left + error_right
        degrees = total**2 / (error_left**2 / spare_left + error_right**2 / spare_right)
        return _Split(float(before), float(after), math.sqrt(total), float(degrees))

    def _strength(self, start: int, place: int, end: int) -> float:
        """The least of the test statistics over their thresholds: 1 or more passes."""
        split = self.split(start, place, end)
        jump = abs(split.after - split.before)
        strength = jump / (split.error * math.sqrt(self.inflation)) / self._min_t
        material = min(self._material, MATERIAL * abs(split.before + self._level))
        if material > 0:
            strength = min(strength, jump / material)
        near = separation(self._raw[max(start, place - NEAR) : place], self._raw[place : min(end, place + NEAR)])
        return min(strength, near / self._separation)


def separation(before: Floats, after: Floats) -> float:
    """|Cliff's delta|: 1 when every value before lies on one side of every value after, 0 when they mix."""
    ordered = np.sort(before)
    below = np.searchsorted(ordered, after, "left").sum() + np.searchsorted(ordered, after, "right").sum()
    return abs(float(below) / (before.size * after.size) - 1)


def variance_inflation(values: Floats, bounds: list[int]) -> float:
    """(1+φ)/(1-φ) of the residuals within segments: what first-order autocorrelation does to the variance of a mean."""
    sizes = np.diff(bounds)
    residuals = values - np.repeat(np.add.reduceat(values, bounds[:-1]) / sizes, sizes)
    power = float(residuals @ residuals)
    if power == 0:
        return 1.0
    phi = min(max(float(residuals[1:] @ residuals[:-1]) / power, 0.0), MAX_PHI)
    return (1 + phi) / (1 - phi)


def _describe(judge: _Confirmation, bounds: list[int], j: int, centre: float, scale: float) -> ChangePoint:
    from scipy.special import stdtr

    split = judge.split(*bounds[j - 1 : j + 2])
    t = abs(split.after - split.before) / (split.error * math.sqrt(judge.inflation))
    before, after = split.before * scale + centre, split.after * scale + centre
    return ChangePoint(bounds[j], _relative(before, after), float(2 * stdtr(split.degrees, -t)), before, after)


def _beside(explained: Explanation, place: int, centre: float, scale: float) -> ChangePoint:
    """A step beside a drift or a walk: the level right before it, and the step alone."""
    step = explained.step(place)
    before = float(np.mean(explained.values[max(0, place - MIN_SEGMENT) : place])) * scale + centre
    after = before + step.value * scale
    return ChangePoint(place, _relative(before, after), step.p, before, after)


def _relative(before: float, after: float) -> float:
    # A fall of a negative level is a change away from zero, and reads as one.
    return (after - before) / abs(before) if before != 0 else math.nan


def _trend(series: Floats, explained: Explanation, scale: float) -> Interval:
    """The end over the start: of the line beside all steps, or of the first and last results of a walk."""
    if np.any(series <= 0):
        return UNKNOWN_INTERVAL
    if explained.motion is Motion.WANDERING:
        first, last = series[:MIN_SEGMENT], series[-MIN_SEGMENT:]
        return LevelNoise([first, last]).ratio(first, last, CONFIDENCE)
    halves = explained.slope.interval(CONFIDENCE).scaled(scale / 2 / float(np.mean(series)))
    return Interval(
        *((1 + h) / (1 - h) if abs(h) < 1 else math.nan for h in (halves.low, halves.estimate, halves.high))
    )
