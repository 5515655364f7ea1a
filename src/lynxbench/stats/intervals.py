"""Intervals of means and of ratios of run means; the unit of repetition is a fresh process, not an iteration."""

import math
from functools import lru_cache

import numpy as np

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.stats.arrays import Floats, Numbers

TRIMMED = 0.2
FEWEST_TRIMMED = 10
"""Pairs: trimming fewer leaves too few for an interval that is worth having."""


@lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t; NaN where there are no degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability)) if degrees > 0 else math.nan


def mean_interval(values: Numbers, confidence: float = 0.95) -> Interval:
    """Mean with Student's interval; fewer than two values leave the bounds unknown."""
    check_confidence(confidence)
    sample = _finite(values)
    if sample is None:
        return UNKNOWN_INTERVAL
    mean = float(np.mean(sample))
    if sample.size < 2:
        return _unbounded(mean)
    reach = student_quantile((1 + confidence) / 2, sample.size - 1) * _standard_error(sample)
    return Interval(mean - reach, mean, mean + reach)


def log_mean_interval(values: Numbers, confidence: float = 0.95) -> Interval:
    """Geometric mean with Student's interval on the logarithms; needs positive values."""
    check_confidence(confidence)
    sample = _finite(values)
    if sample is None:
        return UNKNOWN_INTERVAL
    if np.any(sample <= 0):
        return _unbounded(float(np.mean(sample)))
    return _exp(mean_interval(np.log(sample), confidence))


def ratio_interval(a: Numbers, b: Numbers, confidence: float = 0.95) -> Interval:
    """Ratio b/a of two sets of run means by Welch's t on their logarithms (Welch 1947)."""
    check_confidence(confidence)
    first, second = _finite(a), _finite(b)
    if first is None or second is None:
        return UNKNOWN_INTERVAL
    if np.any(first <= 0) or np.any(second <= 0):
        base = float(np.mean(first))
        return _unbounded(float(np.mean(second)) / base if base != 0 else math.nan)
    log_a, log_b = np.log(first), np.log(second)
    change = float(np.mean(log_b) - np.mean(log_a))
    if first.size < 2 or second.size < 2:
        return _unbounded(math.exp(change))
    error_a, error_b = _standard_error(log_a) ** 2, _standard_error(log_b) ** 2
    total = error_a + error_b
    if total == 0:
        return Interval(math.exp(change), math.exp(change), math.exp(change))
    # Shares first, so that tiny variances do not underflow when squared.
    share_a, share_b = error_a / total, error_b / total
    degrees = 1 / (share_a**2 / (first.size - 1) + share_b**2 / (second.size - 1))
    reach = student_quantile((1 + confidence) / 2, degrees) * math.sqrt(total)
    return _exp(Interval(change - reach, change, change + reach))


def paired_ratio_interval(a: Numbers, b: Numbers, confidence: float = 0.95) -> Interval:
    """Ratio b/a of values that were measured in pairs: Student's t on the differences of their logarithms.

    From ten pairs on a fifth is trimmed at either end (Tukey & McLaughlin 1963): a neighbour that came or went in the
    middle of a pair is in few of them.
    """
    check_confidence(confidence)
    first, second = _finite(a), _finite(b)
    if first is None or second is None or first.size != second.size:
        return UNKNOWN_INTERVAL
    if np.any(first <= 0) or np.any(second <= 0):
        return ratio_interval(first, second, confidence)
    differences = np.log(second) - np.log(first)
    if differences.size < FEWEST_TRIMMED:
        return _exp(mean_interval(differences, confidence))
    return _exp(_trimmed_interval(np.sort(differences), confidence))


def _trimmed_interval(ordered: Floats, confidence: float) -> Interval:
    cut = int(TRIMMED * ordered.size)
    inner = ordered[cut : ordered.size - cut]
    winsorised = np.clip(ordered, inner[0], inner[-1])
    error = float(np.std(winsorised, ddof=1)) / (inner.size / ordered.size * math.sqrt(ordered.size))
    mean, reach = float(np.mean(inner)), student_quantile((1 + confidence) / 2, inner.size - 1) * error
    return Interval(mean - reach, mean, mean + reach)


def check_confidence(confidence: float) -> None:
    """A confidence is a share between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: it lies between 0 and 1, such as 0.95")


def _finite(values: Numbers) -> Floats | None:
    sample = np.asarray(values, dtype=np.float64).ravel()
    return sample if sample.size and bool(np.all(np.isfinite(sample))) else None


def _standard_error(sample: Floats) -> float:
    return float(np.std(sample, ddof=1)) / math.sqrt(sample.size)


def _unbounded(estimate: float) -> Interval:
    return Interval(math.nan, estimate, math.nan)


def _exp(logs: Interval) -> Interval:
    with np.errstate(over="ignore"):
        low, estimate, high = (float(np.exp(x)) for x in (logs.low, logs.estimate, logs.high))
    return Interval(low, estimate, high)
