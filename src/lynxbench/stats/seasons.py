"""Seasons of a history in real time: hour of day and day of week, held against noise that remembers.

Results lie where they lie in time, so noise is that of a process in time: a part that forgets as e^(-Δt/τ) under white
noise, both found by likelihood (a Kalman filter whitens any spacing). A season is a few waves of its period beside the
level, the line and steps. It is said only where it is most unlikely to be chance, repeats in both halves of the
history, and no other period does better.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.model.history import SeasonKind
from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats
from lynxbench.stats.intervals import student_quantile

DAY_S = 86_400.0
PERIODS_S = {SeasonKind.HOUR_OF_DAY: DAY_S, SeasonKind.DAY_OF_WEEK: 7 * DAY_S}
WAVES = {SeasonKind.HOUR_OF_DAY: 2, SeasonKind.DAY_OF_WEEK: 3}
"""Of a day the second wave tells day from night of unequal length; of a week three tell any day from any other."""
FEWEST_RESULTS = 24
FEWEST_PERIODS = {SeasonKind.HOUR_OF_DAY: 7.0, SeasonKind.DAY_OF_WEEK: 4.0}
"""What repeats has to have done so: a week of days, four weeks."""
MOST_RESULTS = 600
"""The newest: a season of years ago is not the one that is asked about."""
CHANCE = 1e-4
"""That noise alone looks so seasonal: of two kinds, each looked at twice, and with its noise fitted to it."""
LEAST_SPREAD = 0.15
"""Of a wave over the results, where a whole one has 0.7: results at one hour of the day tell nothing of the others."""
RIVALS = np.geomspace(0.62, 1.6, 41)
"""Other periods, as factors; half and twice the period share waves with it."""
RESOLVED = 0.75
"""Periods that differ by fewer cycles than this over the whole history cannot be told apart."""

_FORGETS = np.array([0.5, 1, 2, 4, 8, 16, 32, 64, 256])
"""τ in median spacings …"""
_WHITE = np.array([0.02, 0.3, 0.6, 0.85])
"""… and the share of white noise; results of one moment differ too, so there is always some."""


@dataclass(frozen=True, slots=True)
class FoundSeason:
    """A season, its curve at each result (in the unit of the values, mean zero), and how far it swings."""

    kind: SeasonKind
    p: float
    curve: Floats
    swing: Interval
    """Highest minus lowest."""
    highest: int
    """Hour of the day (UTC) or day of the week (0 is Monday) of its highest …"""
    lowest: int
    """… and of its lowest, among those that results fell into."""


def find_seasons(at_s: Floats, values: Floats, steps: Sequence[int] = ()) -> tuple[FoundSeason, ...]:
    """Seasons of values at moments (seconds since 1970, in order), the likelier first; steps are first indices."""
    found: list[FoundSeason] = []
    if len(values) < FEWEST_RESULTS or at_s[-1] <= at_s[0]:
        return ()
    known = _base(at_s, steps)
    for _ in SeasonKind:
        left = [kind for kind in SeasonKind if kind not in {season.kind for season in found}]
        candidates = [season for kind in left if (season := _season(at_s, values, known, kind)) is not None]
        candidates = [season for season in candidates if _stands_alone(at_s, values, known, season.kind, left)]
        if not candidates:
            break
        best = min(candidates, key=lambda season: season.p)
        found.append(best)
        known = np.column_stack((known, _waves(at_s, PERIODS_S[best.kind], WAVES[best.kind])))
    return tuple(found)


def line_in_time(at_s: Floats, values: Floats, steps: Sequence[int], price: float) -> Interval | None:
    """The change along a line of time, first result to last, where it accounts for the values better than the steps.

    None where it does not: steps cost a place and a size each, the line a slope (`price` times ln n a parameter).
    """
    count, level = len(values), np.ones((len(values), 1))
    base = _base(at_s, ())
    whitened = _whiten(at_s, np.column_stack((base, _base(at_s, steps)[:, 2:], values)))
    lined = _fits(whitened, slice(0, 2))
    stepped = _fits(whitened, [0, *range(2, base.shape[1] + len(steps))])
    least_lined = float(lined.min()) + price * math.log(count)
    least_stepped = float(stepped.min()) + 2 * price * math.log(count) * len(steps)
    least_level = float(_fits(_whiten(at_s, np.column_stack((level, values))), slice(0, 1)).min())
    if least_lined >= min(least_stepped if steps else math.inf, least_level):
        return None
    rows = whitened.rows[int(np.argmin(lined))]
    inverse = np.linalg.inv(rows[:, :2].T @ rows[:, :2])
    sizes = inverse @ rows[:, :2].T @ rows[:, -1]
    rest = float(np.sum((rows[:, -1] - rows[:, :2] @ sizes) ** 2)) / (count - 2)
    reach = student_quantile(0.975, count - 2) * math.sqrt(rest * float(inverse[1, 1]))
    return Interval(float(sizes[1]) - reach, float(sizes[1]), float(sizes[1]) + reach)


def _base(at_s: Floats, steps: Sequence[int]) -> Floats:
    """Level, line from -1/2 to 1/2 over the time, and a step at each place."""
    along = (at_s - at_s[0]) / (at_s[-1] - at_s[0]) - 0.5
    places = [np.arange(len(at_s)) >= step for step in steps]
    return np.column_stack((np.ones(len(at_s)), along, *places)).astype(np.float64)


def _waves(at_s: Floats, period_s: float, waves: int) -> Floats:
    turns = 2 * np.pi * np.outer(at_s / period_s, np.arange(1, waves + 1))
    return np.column_stack((np.cos(turns), np.sin(turns)))


def _season(at_s: Floats, values: Floats, known: Floats, kind: SeasonKind) -> FoundSeason | None:
    from scipy.special import fdtrc

    period_s, span_s, count = PERIODS_S[kind], float(at_s[-1] - at_s[0]), len(values)
    if span_s < FEWEST_PERIODS[kind] * period_s:
        return None
    waves = _told_apart(known, _waves(at_s, period_s, WAVES[kind]))
    degrees = count - known.shape[1] - waves.shape[1]
    if not waves.shape[1] or degrees < waves.shape[1]:
        return None
    whitened = _whiten(at_s, np.column_stack((known, waves, values)))
    plain, seasonal = slice(0, known.shape[1]), slice(0, known.shape[1] + waves.shape[1])
    without, with_season = _fits(whitened, plain), _fits(whitened, seasonal)
    cells = {int(np.argmin(without)), int(np.argmin(with_season))}
    p = 0.0
    for cell in cells:  # noise as it is found with and without the season: the more cautious one counts
        rest, fitted = _rest(whitened.rows[cell], plain), _rest(whitened.rows[cell], seasonal)
        ratio = (rest - fitted) / waves.shape[1] / (fitted / degrees)
        p = max(p, float(fdtrc(waves.shape[1], degrees, ratio)))
    cell = int(np.argmin(with_season))
    rows = whitened.rows[cell]
    if p > CHANCE or not _repeats(rows, known.shape[1]):
        return None
    if _rivalled(at_s, values, known, kind, cell, _rest(rows, seasonal)):
        return None
    return _described(at_s, kind, p, rows, waves, known.shape[1])


def _stands_alone(at_s: Floats, values: Floats, known: Floats, kind: SeasonKind, kinds: Sequence[SeasonKind]) -> bool:
    """Whether it is there beside the other kind too: where weekends are measured at another hour, neither is shown."""
    for other in kinds:
        if other is not kind:
            waves = _told_apart(known, _waves(at_s, PERIODS_S[other], WAVES[other]))
            if _season(at_s, values, np.column_stack((known, waves)), kind) is None:
                return False
    return True


def _told_apart(known: Floats, waves: Floats) -> Floats:
    """Directions of the waves that the results' moments tell from level, line and steps, and from each other."""
    basis = np.linalg.qr(known)[0]
    apart = waves - basis @ (basis.T @ waves)
    _, spread, turned = np.linalg.svd(apart, full_matrices=False)
    return np.asarray(waves @ turned[spread / math.sqrt(len(waves)) >= LEAST_SPREAD].T)


def _repeats(rows: Floats, known: int) -> bool:
    """Whether the season of either half makes the other half less wrong."""
    half = len(rows) // 2
    for fitted, other in ((rows[:half], rows[half:]), (rows[half:], rows[:half])):
        sizes = np.linalg.lstsq(fitted[:, :-1], fitted[:, -1], rcond=None)[0]
        without = other[:, -1] - other[:, known:-1] @ sizes[known:]
        plain = other[:, :known]
        if _squares(without, plain) >= _squares(other[:, -1], plain):
            return False
    return True


def _squares(values: Floats, plain: Floats) -> float:
    return float(np.sum((values - plain @ np.linalg.lstsq(plain, values, rcond=None)[0]) ** 2))


def _rivalled(at_s: Floats, values: Floats, known: Floats, kind: SeasonKind, cell: int, rest: float) -> bool:
    """Whether waves of another period, which the history can tell from this one, account for more."""
    period_s, span_s = PERIODS_S[kind], float(at_s[-1] - at_s[0])
    others = [f * period_s for f in RIVALS if abs(1 / f - 1) * span_s / period_s >= RESOLVED]
    if not others:
        return True  # too short to say which period it is
    columns = [_waves(at_s, other, WAVES[kind]) for other in others]
    width = columns[0].shape[1]
    rows = _whiten(at_s, np.column_stack((known, *columns, values)), cell).rows[0]
    plain, every = rows[:, : known.shape[1]], rows[:, known.shape[1] : -1]
    return any(
        _squares(rows[:, -1], np.column_stack((plain, every[:, k * width : (k + 1) * width]))) < rest
        for k in range(len(others))
    )


def _described(at_s: Floats, kind: SeasonKind, p: float, rows: Floats, waves: Floats, known: int) -> FoundSeason:
    inverse = np.linalg.inv(rows[:, :-1].T @ rows[:, :-1])
    sizes = inverse @ rows[:, :-1].T @ rows[:, -1]
    curve = waves @ sizes[known:]
    phase = phase_of(at_s, kind)
    means = {int(place): float(curve[phase == place].mean()) for place in np.unique(phase)}
    highest, lowest = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    apart = waves[phase == highest].mean(axis=0) - waves[phase == lowest].mean(axis=0)
    degrees = len(rows) - rows.shape[1] + 1
    noise = float(np.sum((rows[:, -1] - rows[:, :-1] @ sizes) ** 2)) / degrees
    swing = means[highest] - means[lowest]
    reach = student_quantile(0.975, degrees) * math.sqrt(noise * float(apart @ inverse[known:, known:] @ apart))
    return FoundSeason(kind, p, curve - curve.mean(), Interval(swing - reach, swing, swing + reach), highest, lowest)


def phase_of(at_s: Floats, kind: SeasonKind) -> Floats:
    """The hour of the day (UTC), or the day of the week from Monday on, of each moment."""
    if kind is SeasonKind.HOUR_OF_DAY:
        return np.floor(at_s % DAY_S / 3600)
    return np.floor(at_s / DAY_S + 3) % 7  # 1970 began on a Thursday


# --- noise in time ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Whitened:
    """The same columns as innovations of every noise: independent and of one variance where it is the right one."""

    rows: Floats
    """Noise, result, column."""
    logs: Floats
    """Log determinant of each noise."""


def _whiten(at_s: Floats, columns: Floats, cell: int | None = None) -> _Whitened:
    """Columns as one-step prediction errors over their deviation (Kalman 1960), for every noise or one of them."""
    gaps = np.diff(at_s)
    typical = max(float(np.median(gaps)), 1e-9)
    forgets, white = (grid.ravel() for grid in np.meshgrid(_FORGETS * typical, _WHITE))
    forgets, white = np.append(forgets, typical), np.append(white, 1.0)
    if cell is not None:
        forgets, white = forgets[cell : cell + 1], white[cell : cell + 1]
    kept = np.exp(-np.maximum(gaps, 0.0)[:, None] / forgets)
    predicted = np.zeros((len(white), columns.shape[1]))
    variance = 1 - white
    rows = np.empty((len(white), *columns.shape))
    logs = np.zeros(len(white))
    for place, column in enumerate(columns):
        total = variance + white
        error = column - predicted
        rows[:, place] = error / np.sqrt(total)[:, None]
        logs += np.log(total)
        if place < len(gaps):
            keeps, gain = kept[place], variance / total
            predicted = keeps[:, None] * (predicted + gain[:, None] * error)
            variance = keeps**2 * variance * (1 - gain) + (1 - keeps**2) * (1 - white)
    return _Whitened(rows, logs)


def _fits(whitened: _Whitened, columns: slice | list[int]) -> Floats:
    """-2 ln likelihood of every noise beside these columns; the last column is what they account for."""
    beside, values = whitened.rows[:, :, columns], whitened.rows[:, :, -1:]
    across = beside.transpose(0, 2, 1)
    moments, sizes = across @ values, np.linalg.pinv(across @ beside, hermitian=True) @ (across @ values)
    rests, count = np.sum(values**2, axis=(1, 2)) - np.sum(moments * sizes, axis=(1, 2)), values.shape[1]
    return np.asarray(count * np.log(np.maximum(rests, 1e-300) / count) + whitened.logs)


def _rest(rows: Floats, columns: slice | list[int]) -> float:
    return _squares(rows[:, -1], rows[:, columns])
