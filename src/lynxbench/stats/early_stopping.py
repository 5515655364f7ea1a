"""MLPerf's early-stopping rule: how many queries within a latency carry a percentile at 99 % confidence.

With `over` queries above the latency, so many below it are needed that a service whose true share below is no more than
the percentile would be this lucky once in a hundred runs: the smallest h with I(p; h, over + 1) ≤ 1 − c, where I is the
regularised incomplete beta function (MLPerf inference rules, early stopping; tolerance 0).
"""

from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.99
"""Fixed by MLPerf's rules."""


def fewest_within(percentile: float, over: int, confidence: float = CONFIDENCE) -> int:
    """Queries that must be within the latency beside so many that are over it."""
    if not 0 < percentile < 100 or over < 0:
        raise ValueError(f"percentile {percentile} must lie between 0 and 100, and {over} not be negative")
    share, most = percentile / 100, 1 - confidence
    high = 2
    while _luck(share, high, over) > most:
        high *= 2
    low = high // 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _luck(share, middle, over) <= most else (middle + 1, high)
    return low


def most_over(percentile: float, queries: int, confidence: float = CONFIDENCE) -> int:
    """The largest number over the latency that so many queries bear; -1 where they are too few for any percentile."""
    if queries < fewest_within(percentile, 0, confidence):
        return -1
    low, high = 0, queries
    while low < high:
        middle = (low + high + 1) // 2
        fits = fewest_within(percentile, middle, confidence) + middle <= queries
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


@dataclass(frozen=True, slots=True)
class EarlyEstimate:
    """A percentile as LoadGen estimates it: the highest latencies are set aside, and the next one is it."""

    discarded: int
    value: float | None
    """None where there are too few queries."""
    needed: int
    """The fewest queries that give an estimate."""


def early_estimate(values: Sequence[float], percentile: float) -> EarlyEstimate:
    """A percentile that the service keeps at 99 % confidence, from every query of a run."""
    needed = fewest_within(percentile, 1) + 1
    over = most_over(percentile, len(values))
    if len(values) < needed or over < 1:
        return EarlyEstimate(0, None, needed)
    return EarlyEstimate(over - 1, float(sorted(values)[len(values) - over]), needed)


def further_queries(percentile: float, queries: int, over: int) -> int:
    """How many more would be needed, were every one of them within the latency; 0 where the run has enough."""
    return max(0, fewest_within(percentile, over) + over - queries)


def _luck(share: float, within: int, over: int) -> float:
    from scipy.special import betainc  # late: importing it takes long, and few runs are of these forms

    return float(betainc(within, over + 1, share))
