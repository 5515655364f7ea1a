"""What a fix leaves of a step on a device: its kernels, the host's dispatch beside them, and the waits that stay.

A host that nothing holds up runs ahead of the device: a step then takes as long as the longer of the two. Every wait
breaks that, and the dispatch behind it shows, although nothing is wrong with it. So a cause is charged with what its
removal would hide, and the gain of a fix is the step over what is left of it (the idea of what-if replays of traces:
Zhu, Phanishayee and Pekhimenko, "Daydream", USENIX ATC 2020).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.judge.time_book import KERNELS, REMOVABLE, Shares, TimeBook
from lynxbench.attribute.tile.device_tiles import CODE
from lynxbench.model.attribution import Category
from lynxbench.model.interval import Interval

LEAST_EVENT_NS = 2_000.0
"""What a profiled host event costs at the least (2.5 to 3.3 µs were seen): where the device hides the host, the step's
own lengthening under the profiler shows less of it."""
MOST_EVENT_NS = 5_000.0
"""… and at the most: 3.9 µs were seen on a slow host."""
GRAPH_GAP_NS = 500.0
"""What a replayed graph idles between two kernels: 0.1, 0.5 and 0.6 µs in three recordings on an H200."""
LEAST_DISPATCH_NS = 5_000.0
"""What an operator of PyTorch costs the host at the least, without a profiler: 7.7 to 10 µs a kernel were seen in
launch-bound steps on an H200's host."""
MOST_DISPATCH_NS = 100_000.0
"""What an operator costs the host at the most while nothing else holds it; ten times what was seen on slow hosts."""
HALF = 0.5
OWN_WAIT = 1.0
"""A step that is timed ends with one wait; it holds up nothing inside."""
WAITS = (
    Category.SYNCHRONIZATION,
    Category.TRANSFER,
    Category.ALLOCATOR,
    Category.INPUT,
    Category.IDLE,
    Category.COMMUNICATION,
    Category.UNATTRIBUTED,
)
LINKED = (Category.SYNCHRONIZATION, Category.TRANSFER)
"""Waits that hang on single copies: as many fewer as there are fewer copies."""
BLOCKING = (Category.ALLOCATOR, Category.SYNCHRONIZATION)
"""Calls in which the host waits until the device has done what was asked of it."""
INPUT_WAITS = (Category.INPUT, Category.TRANSFER, Category.SYNCHRONIZATION)
GOES_WITH = {Category.INPUT: INPUT_WAITS}
"""Input that is ready before the step is ready on the device: no copy of it is left, and nobody waits for one."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """A usual step without the profiler, in nanoseconds: what lies side by side, and what shows of each cause."""

    step_ns: float
    kernels_ns: float
    dispatch_ns: float
    """The host's own time for operators and launches, hidden behind kernels or not."""
    shown_ns: dict[Category, float]
    """Time in which the device did not compute, by cause."""
    launches: float
    merged_ns: float
    """The kernels where all calls that are alike are one: their least time, and a start for each kind."""
    waits: float
    """How often the host waited for the device, beyond the end of the step."""
    start_ns: float = 0.0
    """What the host needs for a kernel at the least; 0 by rules before edition 5."""
    alike_copies: float = 1.0
    """How many copies over the link there are of each kind; 1 by rules before edition 7."""

    def shown(self, *categories: Category) -> float:
        """Time in which the device waited for some causes."""
        return sum(self.shown_ns.get(category, 0.0) for category in categories)

    @property
    def overlapped_ns(self) -> float:
        """Kernels and dispatch where nothing makes one wait for the other."""
        return max(self.kernels_ns, self.dispatch_ns)

    @property
    def held_up_ns(self) -> float:
        """Dispatch that shows only because the host waited for the device in between, and the device then for it."""
        excess = self.shown(Category.LAUNCH) - max(0.0, self.dispatch_ns - self.kernels_ns)
        return max(0.0, excess) * self.waits / (self.waits + OWN_WAIT)

    def without_ns(self, kernels_ns: float, launches: float) -> float:
        """What is left where so much less kernel time and so many fewer launches are needed."""
        kept = max(0.0, 1.0 - launches / self.launches) if self.launches else 1.0
        return max(self.kernels_ns - kernels_ns, self.dispatch_ns * kept) + self.shown(*WAITS)

    @property
    def freed_left_ns(self) -> float:
        """What is left where nothing but operators keeps the host: one that is held up dispatches slowly too."""
        others = self.shown(*(category for category in WAITS if category is not Category.IDLE))
        return max(self.kernels_ns, min(self.dispatch_ns, self.launches * MOST_DISPATCH_NS)) + others

    @property
    def merged_left_ns(self) -> float:
        """What is left where calls that are alike are made one, copies and the waits for them too, and nothing else."""
        others = self.shown(*(category for category in WAITS if category not in LINKED))
        return self.merged_ns + others + self.shown(*LINKED) / self.alike_copies

    @property
    def unawaited_left_ns(self) -> float:
        """The least that is left where nothing is read back, and what then runs through is merged."""
        others = self.shown(*(category for category in WAITS if category not in LINKED))
        return self.merged_ns + others + self.shown(Category.TRANSFER) / self.alike_copies

    @property
    def unlinked_left_ns(self) -> float:
        """The least that is left where nothing is copied over the link, and nobody waits for it."""
        others = self.shown(*(category for category in WAITS if category not in LINKED))
        return max(self.kernels_ns, self.launches * self.start_ns) + others

    @property
    def replayed_left_ns(self) -> float:
        """What is left where nothing is read back, and what then runs through is replayed as a graph."""
        others = self.shown(*(category for category in WAITS if category is not Category.SYNCHRONIZATION))
        return self.kernels_ns + self.launches * GRAPH_GAP_NS + others

    def unhosted_left_ns(self, kernels_ns: float, launches: float = 0.0) -> float:
        """The least that is left with so much less kernel time, and fewer launches: the host's work hides behind the
        device's."""
        started_ns = max(0.0, self.launches - launches) * self.start_ns
        return max(self.kernels_ns - kernels_ns, started_ns) + self.shown(*WAITS)

    @property
    def prepared_left_ns(self) -> float:
        """The least that is left where the input is ready: pauses may be its making too, and its operators are gone."""
        others = self.shown(*(category for category in WAITS if category not in (*INPUT_WAITS, Category.IDLE)))
        return max(self.kernels_ns, self.launches * self.start_ns) + others

    @property
    def unblocked_left_ns(self) -> float:
        """What is left where the host neither reads values back nor asks the driver for memory."""
        return self.overlapped_ns + self.shown(*(category for category in WAITS if category not in BLOCKING))

    def left_ns(self, cause: Category) -> float:
        """What is left of the step without a cause; replayed as a graph, kernels still start one after the other."""
        gone = GOES_WITH.get(cause, (cause,))
        others = self.shown(*(category for category in WAITS if category not in gone))
        if cause is Category.LAUNCH:
            return self.kernels_ns + self.launches * GRAPH_GAP_NS + others
        return self.overlapped_ns + others


def charge_waits(shares: Shares, parts: StepParts) -> tuple[Shares, StepParts]:
    """Dispatch that shows only behind waits for the device is the waits': without them it would be hidden."""
    moved = parts.held_up_ns / parts.step_ns
    if moved <= 0.0:
        return shares, parts
    of = dict(shares.of)
    launch, waits = of[Category.LAUNCH], of.get(Category.SYNCHRONIZATION, Interval(0.0, 0.0, 0.0))
    of[Category.LAUNCH] = Interval(*(max(0.0, end - moved) for end in (launch.low, launch.estimate, launch.high)))
    of[Category.SYNCHRONIZATION] = Interval(*(min(1.0, end + moved) for end in (waits.low, waits.estimate, waits.high)))
    shown = {category: share.estimate * parts.step_ns for category, share in of.items()}
    return dataclasses.replace(shares, of=of), dataclasses.replace(parts, shown_ns=shown)


def measure_parts(
    book: TimeBook, shares: Shares, *, least_dispatch: bool = True, alike_copies: bool = True
) -> StepParts | None:
    """The parts of the usual step; None where it did not run on a device.

    `least_dispatch`: no correction leaves an operator less of the host than operators take anywhere. `alike_copies`:
    copies of one kind may become one, as other calls may.
    """
    tiling = book.tiling
    if tiling.host_ns is None or tiling.waits is None or shares.step_ns <= 0:
        return None
    events = float(np.median(tiling.events))
    dispatch = float(np.median(tiling.host_ns[:, CODE[Category.LAUNCH]]))
    seen = (book.usual_ns - shares.step_ns) / events if events and shares.known else LEAST_EVENT_NS
    cost = events * min(max(seen, LEAST_EVENT_NS), MOST_EVENT_NS)
    dispatch_ns = max(dispatch - cost, dispatch * (1.0 - REMOVABLE))
    launches = sum(group.calls for group in book.groups) / len(book)
    usual_start_ns = dispatch_ns / launches if launches else 0.0
    start_ns = 0.0
    if least_dispatch:  # half of what was seen: of a replayed graph's kernels the host starts none itself
        dispatch_ns = max(dispatch_ns, min(launches * LEAST_DISPATCH_NS, dispatch * HALF))
        start_ns = min(LEAST_DISPATCH_NS, dispatch_ns / launches) if launches else 0.0
    return StepParts(
        step_ns=shares.step_ns,
        kernels_ns=shares.total(*KERNELS) * shares.step_ns,
        dispatch_ns=dispatch_ns,
        shown_ns={category: share.estimate * shares.step_ns for category, share in shares.of.items()},
        launches=launches,
        merged_ns=_merged_ns(book, start_ns or usual_start_ns),
        waits=max(0.0, float(np.median(tiling.waits)) - OWN_WAIT),
        start_ns=start_ns,
        alike_copies=_alike_copies(book) if alike_copies else 1.0,
    )


def _alike_copies(book: TimeBook) -> float:
    """How often each kind of copy over the link is made in a step, on average over the kinds."""
    kinds = [group.calls for group in book.groups if group.category is Category.TRANSFER]
    return max(1.0, sum(kinds) / len(kinds) / len(book)) if kinds else 1.0


def _merged_ns(book: TimeBook, start_ns: float) -> float:
    """The least that merging leaves: calls that are alike may be one call on more data, or may each need the last."""
    least = (group.self_ns if group.attainable_ns is None else group.attainable_ns for group in book.groups)
    return sum(max(ns / len(book), start_ns) for ns in least)
