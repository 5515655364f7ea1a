"""The range of a gain: a 90 % prediction interval, from how far true gains lay from estimates in recorded cases.

Removing the share f of a step makes it 1/(1 − f) times as fast, so the same error in what is left weighs little where
little is removed and all of itself where nearly everything is. Errors are therefore counted as ln(true / estimated)
over f, and the range is the estimate times exp(quantile × f): a split conformal interval (Vovk, Gammerman and Shafer,
"Algorithmic Learning in a Random World", 2005) whose cases stand in gain_cases.toml.
"""

import math

import numpy as np

from lynxbench.model.interval import Interval
from lynxbench.tables import read_table

COVERED = 0.9
ROUNDING = 1e-9
LEAST_REMOVED = 0.05
"""What two timings of one step differ by, however little is removed."""


def error_of(estimated: float, true: float) -> float:
    """How far a true gain lay from its estimate, in the scale in which errors are alike."""
    return math.log(true / estimated) / _removed(estimated)


def predict_range(estimated: float) -> Interval:
    """The range in which the true gain of the fix lies in nine of ten cases like the recorded ones; never below 1."""
    estimated = max(1.0, estimated)
    low, high = (estimated * math.exp(error * _removed(estimated)) for error in ERRORS)
    return Interval(max(1.0, min(low, estimated)), estimated, max(high, estimated))


def calibrate(errors: list[float], covered: float = COVERED) -> tuple[float, float]:
    """The errors between which so much of the next case's chance lies; the outermost where there are too few cases."""
    ordered = np.sort(np.asarray(errors))
    outside = (1.0 - covered) / 2
    below = math.floor(outside * (len(ordered) + 1) + ROUNDING)
    return float(ordered[max(below - 1, 0)]), float(ordered[min(len(ordered) - below, len(ordered) - 1)])


def _removed(estimated: float) -> float:
    return max(1.0 - 1.0 / estimated, LEAST_REMOVED)


RECORDED = read_table("attribute/judge/gain_cases.toml")
ERRORS: tuple[float, float] = calibrate([error_of(case["estimated"], case["true"]) for case in RECORDED.values()])
