"""What a fix leaves of a step on the host, where operators and the code between them run one after the other.

Nothing hides behind anything there: what is removed is gone, and one operator at the least takes its place. What lies
between operators (buffers that are given back, pages that are touched first) may go with those that are removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lynxbench.attribute.judge.causes import speedup
from lynxbench.attribute.judge.fix_left import LEAST_DISPATCH_NS
from lynxbench.attribute.judge.time_book import KERNELS, OperatorGroup, Shares, TimeBook
from lynxbench.model.attribution import Category

CACHED_BYTES = 1 << 20
"""Operands of merged calls that are smaller lie in a cache, whose speed no ceiling tells."""


@dataclass(frozen=True, slots=True)
class HostParts:
    """A usual step of a CPU without the profiler, in nanoseconds."""

    step_ns: float
    kernels_ns: float
    launch_ns: float
    """With the memory that is asked for in between, which merged calls ask for once."""
    merged_ns: float
    """Of the launches, where all calls that are alike are one."""
    own_code_ns: float = 0.0
    """Of the program itself: input that is made, and pauses."""

    def gain_without(self, removed_ns: float) -> float:
        """Of a step without so much of its time: an operator that does what is wanted still has to be started."""
        return self.step_ns / (self.step_ns / speedup(removed_ns / self.step_ns) + LEAST_DISPATCH_NS)

    def most_without(self, kernels_ns: float) -> float:
        """The same without so much of its operators' time, at the most: what lies between them goes as well."""
        return speedup(1.0 - max(0.0, self.kernels_ns - kernels_ns) / self.step_ns)

    @property
    def gain_of_merging(self) -> float:
        """At the most, calls that are alike do not need each other and become one."""
        return self.step_ns / (self.step_ns - self.launch_ns + min(self.merged_ns, self.launch_ns) + LEAST_DISPATCH_NS)

    @property
    def gain_of_preparing(self) -> float:
        """At the most, whatever the program does between operators has been done before the step."""
        return self.gain_without(self.own_code_ns)


def measure_host_parts(book: TimeBook, shares: Shares, *, allocated: bool = True) -> HostParts | None:
    """The parts of the usual step; None where it ran on a device. `allocated`: what launches ask for goes with them."""
    if book.tiling.on_device or shares.step_ns <= 0:
        return None
    launch_ns = shares.estimate(Category.LAUNCH) * shares.step_ns
    small = [group for group in book.groups if group.category is Category.LAUNCH]
    calls = sum(group.calls for group in small) / len(book)
    asked_ns = shares.estimate(Category.ALLOCATOR) * shares.step_ns if allocated else 0.0
    return HostParts(
        step_ns=shares.step_ns,
        kernels_ns=shares.total(*KERNELS) * shares.step_ns,
        launch_ns=launch_ns + asked_ns,
        merged_ns=_merged_ns(book, small, launch_ns / calls if calls else 0.0),
        own_code_ns=sum(map(shares.estimate, (Category.INPUT, Category.IDLE))) * shares.step_ns,
    )


def _merged_ns(book: TimeBook, small: Sequence[OperatorGroup], start_ns: float) -> float:
    """One start for each kind of call, and what moving all their operands takes where no cache holds these."""
    bandwidth, moved_ns = book.ceilings.copy_bytes_per_s, 0.0
    for group in small:
        moved = group.work.total_bytes * group.calls / len(book) if group.work is not None else 0.0
        moved_ns += moved / bandwidth * 1e9 if bandwidth and moved > CACHED_BYTES else 0.0
    return start_ns * len(small) + moved_ns
