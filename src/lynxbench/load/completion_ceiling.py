"""How many requests a second a server completes at most, from closed loops.

Pure. A loop that is shorter than a few answers completes hardly one whole request, so whole ones are not counted: each
request counts for the share of its own time that lies in the window. One loop shows what a server completes with so
many in flight; that it completes no more with any other number is shown by loops with more, and with fewer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.samples import Int64

Bools = npt.NDArray[np.bool_]

WARM_UP = 1 / 3
"""Share of a window left out at its start: requests that come all at once are not yet at their pace."""
ANSWERS = 2.0
"""A closed loop is believed where its counted window holds so many times the p99 of its answers."""


LADDER_SHARE, LONGEST_LADDER_S = 0.3, 60.0
"""Loops with other numbers in flight may take this share of a search's budget beside it, and no more than that."""
RISE = 0.05
"""Twice as many in flight that complete faster by no more than this show that the ceiling is the highest."""
MOST_LOOPS = 6
CEILING_ERROR = 0.02
"""By how much a closed loop of a few answers may be off (standard deviation)."""


@dataclass(frozen=True, slots=True)
class CompletionLoop:
    """What was completed with so many in flight."""

    in_flight: int
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class CompletionCeiling:
    """All loops, in the order in which they were run."""

    loops: tuple[CompletionLoop, ...]
    is_highest: bool
    """Whether neither more nor fewer in flight were seen, or are to be expected, to complete more."""

    @property
    def rate_per_s(self) -> float:
        """The most that was completed."""
        return max(loop.rate_per_s for loop in self.loops)


def ladder_s(budget_s: float) -> float:
    """How long loops with other numbers in flight may take."""
    return min(LADDER_SHARE * budget_s, LONGEST_LADDER_S)


def find_ceiling(
    complete: Callable[[int], float | None], first: int, most: int, slots: int | None = None
) -> CompletionCeiling:
    """Twice as many in flight as long as that completes more, or half where it completes less or cannot be had.

    `complete` gives the rate with so many in flight, and None where there is no time for it; it must have one for the
    `first`. A server that completes less when it is overfull has its highest rate with fewer. One that is known to work
    on so many (`slots`) at once completes no more with more, which wait outside: they are not asked for.
    """
    rates: dict[int, float] = {}
    useful = most if slots is None else max(first, slots)
    is_full = slots is not None and slots <= first

    def rate_with(in_flight: int) -> float | None:
        in_flight = in_flight if slots is None else min(in_flight, useful)
        if in_flight not in rates:
            may = 0 < in_flight <= most and len(rates) < MOST_LOOPS
            rate = complete(in_flight) if may else None
            if rate is None:
                return None
            rates[in_flight] = rate
        return rates[in_flight]

    at = first
    here, more = rate_with(at), rate_with(2 * at)
    assert here is not None, "the first loop has a rate"
    while more is not None and more > here * (1 + RISE):
        at, here, more = 2 * at, more, rate_with(4 * at)
    is_highest = more is not None
    if at == first and (is_full or more is None or more < here / (1 + RISE)):
        fewer = rate_with(at // 2)
        while fewer is not None and fewer > here * (1 + RISE):
            at, here, fewer = at // 2, fewer, rate_with(at // 4)
        is_highest = at == 1 or (fewer is not None and (is_highest or fewer >= here / (1 + RISE) or at < first))
    loops = tuple(CompletionLoop(in_flight, rate) for in_flight, rate in rates.items())
    return CompletionCeiling(loops, is_highest)


def completion_rate(sent_ns: Int64, last_ns: Int64, good: Bools, first_ns: int, end_ns: int) -> float:
    """Requests completed a second between two moments, those that were only partly in it by their part."""
    begins, ends = np.maximum(sent_ns, first_ns), np.minimum(last_ns, end_ns)
    shares = np.clip(ends - begins, 0, None) / np.maximum(last_ns - sent_ns, 1)
    return float(shares[good].sum()) / ((end_ns - first_ns) / 1e9)


def window_needed_s(sent_ns: Int64, last_ns: Int64, good: Bools) -> float:
    """How long a closed loop must last to be believed, by the answers that it got; 0 without any."""
    if not good.any():
        return 0.0
    p99_s = float(np.quantile((last_ns - sent_ns)[good], 0.99, method="higher")) / 1e9
    return ANSWERS * p99_s / (1 - WARM_UP)
