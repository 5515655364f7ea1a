"""The profiler's own cost, taken out again: it stretches what the host does around operators, not their work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.judge.time_book import CATEGORIES, TimeBook
from lynxbench.model.attribution import Category
from lynxbench.model.interval import Interval

PROFILER_COST_NS = 3_300.0
"""Most that one profiled host event was seen to cost (2.5 to 3.3 µs with shapes recorded, PyTorch 2.11)."""
HOST_CATEGORIES = (Category.LAUNCH, Category.ALLOCATOR)
"""Where the begin and end of an event are recorded: between operators and in those that do little themselves."""
REMOVABLE = 0.9
"""Share of the host's time that a correction may take at most: a step without any dispatch does not exist."""
CORRECTION_MATTERS = 0.03
"""A correction that moves no share by more than this is not worth a word."""
NOTCH = 1.57
"""Half-width of a median's interval in quartile distances over √n (McGill, Tukey and Larsen, 1978)."""

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a step's time by category with their ranges; the estimates sum to 1."""

    of: dict[Category, Interval]
    step_ns: float
    """The step the shares are of: without the profiler where that is known."""
    moved: float
    """How far the correction moved the share that it moved most."""
    known: bool
    """Whether an unprofiled step time was given."""
    unexplained: float
    """Excess of the profiled step that the host's time could not account for, as a share of the profiled step."""

    def estimate(self, category: Category) -> float:
        """The estimate of a share, 0 where the category did not occur."""
        interval = self.of.get(category)
        return interval.estimate if interval is not None else 0.0

    def total(self, *categories: Category) -> float:
        """Estimates of several categories together."""
        return sum(self.estimate(category) for category in categories)


def correct_shares(book: TimeBook, unprofiled_ns: float | None) -> Shares:
    """Shares with the profiler's cost removed from the host's categories; a range where the cost is not known."""
    usual = np.median(book.spent_ns, axis=0)
    total = float(usual.sum())
    wall = book.usual_ns
    events_ns = float(np.median(book.tiling.events)) * PROFILER_COST_NS
    as_profiled: Float64 = usual / total if total > 0 else np.zeros(len(CATEGORIES))
    # Medians of categories need not add up to the median step; the step's length is the latter's.
    base = as_profiled * wall
    if unprofiled_ns is None:
        corrected, _ = _without(base, events_ns, events_ns)
        low_side = corrected / corrected.sum()
        estimate = (as_profiled + low_side) / 2
        step_ns, unexplained = wall, 0.0
    else:
        corrected, left = _without(base, max(0.0, wall - unprofiled_ns), events_ns)
        low_side = corrected / corrected.sum()
        estimate = low_side
        step_ns, unexplained = unprofiled_ns, left / wall if wall else 0.0
    spread = _spread(book)
    of = {}
    for i, category in enumerate(CATEGORIES):
        if as_profiled[i] <= 0 and estimate[i] <= 0:
            continue
        ends = (as_profiled[i], low_side[i])
        low = min(*ends, estimate[i] - spread[i])
        high = max(*ends, estimate[i] + spread[i])
        of[category] = Interval(max(0.0, float(low)), float(estimate[i]), min(1.0, float(high)))
    moved = float(np.abs(as_profiled - low_side).max()) if total > 0 else 0.0
    return Shares(of, step_ns, moved, unprofiled_ns is not None, unexplained)


def _without(base: Float64, excess_ns: float, profiler_ns: float) -> tuple[Float64, float]:
    """The base without the excess, and what of it nothing could account for.

    What the profiler can cost comes from the host's time. More than that means that conditions differed while
    profiling; pauses that the bare step did not have are the first to explain it, then the host's time again.
    """
    out = base.copy()
    left = _take(out, HOST_CATEGORIES, min(excess_ns, profiler_ns), REMOVABLE) + max(0.0, excess_ns - profiler_ns)
    left = _take(out, (Category.IDLE,), left, 1.0)
    return out, _take(out, HOST_CATEGORIES, left, REMOVABLE)


def _take(out: Float64, categories: tuple[Category, ...], wanted_ns: float, most: float) -> float:
    """Take time from some categories in place, in proportion to what they have; returns what is still wanted."""
    chosen = np.array([category in categories for category in CATEGORIES])
    has = float(out[chosen].sum())
    taken = min(wanted_ns, has * most)
    if taken > 0:
        out[chosen] *= 1.0 - taken / has
    return wanted_ns - taken


def _spread(book: TimeBook) -> Float64:
    """How far the median of each category's share is uncertain by the spread over the steps."""
    shares = book.spent_ns / np.maximum(book.wall_ns, 1)[:, None]
    low, high = np.quantile(shares, (0.25, 0.75), axis=0)
    half: Float64 = NOTCH * (high - low) / np.sqrt(len(shares))
    return half
