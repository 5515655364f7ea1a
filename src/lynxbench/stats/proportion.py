"""Exact binomial bounds on a share (Clopper & Pearson 1934), on as many independent trials as there really are."""

from __future__ import annotations

from lynxbench.model.interval import Interval


def clopper_pearson(hits: float, trials: float, confidence: float) -> Interval:
    """One-sided bounds on each side at the given confidence; counts may be fractional (an effective sample size)."""
    from scipy.special import betaincinv

    if not 0 <= hits <= trials or trials <= 0:
        raise ValueError(f"{hits} of {trials}: a share needs 0 ≤ hits ≤ trials and trials > 0")
    miss = 1 - confidence
    low = 0.0 if hits <= 0 else float(betaincinv(hits, trials - hits + 1, miss))
    high = 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, 1 - miss))
    return Interval(low, hits / trials, high)
