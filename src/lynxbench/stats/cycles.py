"""Cycles of a series: a period that repeats often enough is no drift."""

import numpy as np

from lynxbench.stats.arrays import Floats, mean_of
from lynxbench.stats.autocorrelation import autocorrelation_of

MIN_CYCLES = 6  # whole periods before a cycle is called stationary
MIN_PERIOD = 4  # points
CYCLE_PEAK = 0.3  # autocorrelation one period on …
CYCLE_TROUGH = -0.3  # … and half a period on

FEW_LAGS = 64
"""Up to here the products of a few lags are quicker than a transform of all of them."""
SURELY = 1e-6
"""A correlation that misses the trough by more misses it by the transform too."""
LEAST_POWER = 1e-200
"""Below it products lose digits."""


def find_cycle(residuals: Floats) -> int:
    """Period in points of a cycle that repeats at least MIN_CYCLES times, or 0."""
    longest = residuals.size // MIN_CYCLES
    if longest < MIN_PERIOD or not np.any(residuals):
        return 0
    if longest <= FEW_LAGS and _has_no_trough(residuals, longest // 2):
        return 0
    acf = autocorrelation_of(residuals)[: longest + 2]
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
    return period if period >= MIN_PERIOD else 0


def _has_no_trough(residuals: Floats, longest: int) -> bool:
    """Whether the correlation half a period on is too weak for every period."""
    centred = residuals - mean_of(residuals)
    power = float(centred @ centred)
    weakest = (CYCLE_TROUGH + SURELY) * power
    return power > LEAST_POWER and all(
        float(centred[lag:] @ centred[:-lag]) > weakest for lag in range(MIN_PERIOD // 2, longest + 1)
    )
