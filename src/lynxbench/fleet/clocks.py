"""How far two clocks are apart, from questions and answers alone: the quickest exchange bounds the error.

A clock on another machine is asked for its time. Whatever the way there and back took, the answer was given between the
question and its arrival; so the offset is known to half the round trip, and the shortest round trip knows it best
(Cristian 1989; the rule NTP's clock filter follows).
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

EXCHANGES = 40
ENOUGH_NS = 500_000
"""An offset known to half a millisecond: half of what a client's clock may be off by."""
MOST_EXCHANGES = 200


@dataclass(frozen=True, slots=True)
class Offset:
    """Their clock minus ours, and how far that can be from the truth."""

    offset_ns: int
    bound_ns: int
    exchanges: int

    def theirs(self, ours_ns: int) -> int:
        """A moment on our clock as one on theirs."""
        return ours_ns + self.offset_ns


def measure_offset(
    ask: Callable[[], int],
    *,
    clock: Callable[[], int] = perf_counter_ns,
    exchanges: int = EXCHANGES,
    most: int = MOST_EXCHANGES,
) -> Offset:
    """Ask for their time until the bound is small enough, or often enough."""
    best: tuple[int, int] | None = None
    done = 0
    while done < exchanges or (best is not None and best[0] > 2 * ENOUGH_NS and done < most):
        before = clock()
        theirs = ask()
        after = clock()
        done += 1
        trip = after - before
        if best is None or trip < best[0]:
            best = trip, theirs - (before + after) // 2
    assert best is not None
    return Offset(best[1], (best[0] + 1) // 2, done)


def joined(before: Offset, after: Offset) -> Offset:
    """One offset for a whole run from one at each end: the middle, and how far either end may be from it.

    A single offset for all moments of a client keeps every distance between two of them exactly as it was stamped.
    """
    middle = (before.offset_ns + after.offset_ns) // 2
    moved = abs(after.offset_ns - before.offset_ns)
    return Offset(middle, max(before.bound_ns, after.bound_ns) + (moved + 1) // 2, before.exchanges + after.exchanges)
