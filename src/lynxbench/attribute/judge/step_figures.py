"""What a verdict on steps rests on, and the verdict before it is put into words."""

import dataclasses
from dataclasses import dataclass

from lynxbench.attribute.judge.avoidable_work import AvoidableWork, doubt_unfollowed, find_avoidable
from lynxbench.attribute.judge.causes import CLEAR_LEAD, HALF_REMOVED, CategoryCause, speedup
from lynxbench.attribute.judge.fix_left import LINKED, StepParts, charge_waits, measure_parts
from lynxbench.attribute.judge.fresh_memory import FreshMemory
from lynxbench.attribute.judge.gain_range import predict_range
from lynxbench.attribute.judge.host_left import HostParts, measure_host_parts
from lynxbench.attribute.judge.least_time import (
    Fusion,
    KernelEfficiency,
    WholeStep,
    find_fusion,
    measure_efficiency,
    measure_whole_step,
)
from lynxbench.attribute.judge.process_accounts import Contention
from lynxbench.attribute.judge.product_order import DearOrder, find_dear_order
from lynxbench.attribute.judge.time_book import KERNELS, Shares, TimeBook, correct_shares
from lynxbench.attribute.judge.unread_results import UnreadResult, find_unread, launched_operators
from lynxbench.model.attribution import Bound, Category, StepWork
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.result import RULES

WORTH_CHANGING = 1.3
"""A step that a change of code makes so much faster is not hardware-bound."""
MISNESTED_LIMIT = 0.01
"""Share of a trace's events that may outlast the one around them before its clock is not believed."""
UNLIKE = 1 / 3
"""Share of a profiled step that neither the profiler nor the bare step explains: half as long again."""
MOSTLY_SOFTWARE = 0.6
"""A step of which the hardware's ceilings account for less than the rest is software's, whatever leads its shares."""
REPLAYED = 4
"""The edition of the rules since which a gain is what a fix leaves, with a range from recorded cases."""
ACCOUNTED = 5
"""… since which kernels of unknown work are a doubt, and layouts that are made anew a cause."""
WHOLE = 6
"""… since which hardware-bound is said of whole steps: nothing that code could leave out may gain 1.3."""
NEEDED = 7
"""… since which results that nobody reads are the software's, and a verdict says that it takes other work as needed."""

HOST_ENDS = 8
"""… since which gains on a CPU leave an operator's start behind, and reach as far as merged calls and formats do."""
REORDERED = 9
"""… since which rows that are only written in another order are copies."""
SUMMED = 10
"""… since which a pass writes what its operands make together, and is merged with a reduction that reads it at once."""
LINEAR = 11
"""… since which products in a dear order, and those of which a diagonal is read, are the software's; and the range of
what waits hold up reaches as far as merged calls do."""
FLOW = 12
"""… since which work that values show to be needless is the software's, however fast it is done."""
STRUCTURED = 13
"""… since which factors of few numbers, work that is the same in each step and copies that a slice spares are known."""
CLOCKED = 14
"""… since which a gain is counted by the clock of the step without the profiler."""
TOLD = 15
"""… since which nobody is told how near its ceiling an operator ran whose operands do not tell its work; products of
which little is read are seen on a CPU as well; and host code between operators is told from dispatch by its share. What
is summed over steps is held against the mean step, and the gain of merging passes that memory does not bound reaches
down to what moving less saves."""

SOFTWARE = (
    Category.LAUNCH,
    Category.ALLOCATOR,
    Category.INPUT,
    Category.SYNCHRONIZATION,
    Category.TRANSFER,
    Category.IDLE,
    Category.COMMUNICATION,
)
MOST_RESIDUAL = 0.5
"""Of what a step on a CPU spends on starting operators, what compiled code spends at the most."""
HELD_UP = {
    Category.LAUNCH: Category.SYNCHRONIZATION,
    Category.SYNCHRONIZATION: Category.LAUNCH,
}
"""What a wait inside a step holds up is dispatch, and a step with waits inside cannot be replayed as a graph."""


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Everything that a verdict on steps rests on."""

    book: TimeBook
    step_ms: float | None
    """The step without the profiler, where it was measured."""
    shares: Shares
    efficiency: KernelEfficiency
    fusion: Fusion
    whole: WholeStep | None
    contention: Contention | None
    damaged: bool
    parts: StepParts | None = None
    """What lies side by side in a step on a device; None elsewhere, and by rules before edition 4."""
    rules: int = RULES
    """The edition that ranges are those of."""
    unread: UnreadResult | None = None
    """A product of whose result little is read; None where shapes do not show one, and by rules before edition 7."""
    host: HostParts | None = None
    """What a step on a CPU consists of; None on a device, and by rules before edition 8."""
    dear: DearOrder | None = None
    """Products in a dear order; None where shapes do not show any, and by rules before edition 11."""
    avoidable: AvoidableWork | None = None
    """What values show to be needless; None where they were not followed, or show nothing."""
    fresh: FreshMemory | None = None
    """Memory that the system handed out anew; None where the kernel did not account it, and by rules before TOLD."""

    @property
    def hidden(self) -> dict[str, float]:
        """By operator, the shares of the kernels' time in what its operands do not tell; none by rules before TOLD."""
        kernels = [group for group in self.book.groups if group.category in KERNELS]
        taken, shares = sum(group.self_ns for group in kernels), dict[str, float]()
        for group in kernels:
            if group.hidden and taken:
                shares[group.name] = shares.get(group.name, 0.0) + group.self_ns / taken
        return shares

    @property
    def hardware_floor(self) -> float:
        """The share of a step that its kernels would take at their ceilings; all of it where too little is known."""
        return self.shares.total(*KERNELS) * (self.efficiency.overall if self.efficiency.is_known else 1.0)

    def residual(self, category: Category) -> float:
        """The share of a step that a fix of a category would leave behind."""
        left = self.book.residual_ns.get(category, 0.0)
        share = left / self.shares.step_ns if self.shares.step_ns else 0.0
        if self.rules >= TOLD and self.host is not None:  # on a host that starts operators faster than most
            return min(share, MOST_RESIDUAL * self.shares.estimate(category))
        return share

    @property
    def traced_ns(self) -> float:
        """The traced step that sums over calls are shares of: where a few steps were slow, the usual one is shorter."""
        return self.book.mean_ns if self.rules >= TOLD else self.book.usual_ns

    @property
    def traced_kernels_ns(self) -> float:
        """What kernels take of it."""
        return self.book.mean_kernels_ns if self.rules >= TOLD else self.book.usual_kernels_ns

    def bare_ns(self, traced_ns: float) -> float:
        """What kernels that took so much of a traced step take of a bare one.

        Both may have been timed while the machine was differently fast; a kernel then has its share of either.
        """
        if self.rules < CLOCKED or self.traced_kernels_ns <= 0.0 or (self.rules < TOLD and not self.shares.known):
            return traced_ns
        if not self.shares.known:
            return traced_ns / self.traced_ns * self.book.usual_ns
        return traced_ns / self.traced_kernels_ns * self.shares.total(*KERNELS) * self.shares.step_ns

    @property
    def profiled_otherwise(self) -> bool:
        """Whether the machine was so much slower while the step was profiled that its shares are in doubt."""
        return self.shares.unexplained >= UNLIKE

    def reason_of(self, cause: CategoryCause) -> str:
        """Why a cause lies in its layer, in the words of the edition."""
        return cause.surer if cause.surer and self.rules < TOLD else cause.why

    def range_without(self, removed_ns: float, launches: float = 0.0) -> Interval:
        """The gain of a step without so much of its kernels' time; the host may then be what it takes."""
        if self.host is not None:
            gain = predict_range(self.host.gain_without(removed_ns), self.rules)
            return dataclasses.replace(gain, high=max(gain.high, self.host.most_without(removed_ns)))
        if self.parts is None:
            return predict_range(speedup(removed_ns / self.shares.step_ns if self.shares.step_ns else 0.0), self.rules)
        return predict_range(self.parts.step_ns / max(self.parts.without_ns(removed_ns, launches), 1.0), self.rules)

    def range_over(self, least_ns: float, most_ns: float, launches: float = 0.0) -> Interval:
        """The same where one fix takes less and another more: from the lesser's least to the greater's most."""
        lesser, greater = self.range_without(least_ns, launches), self.range_without(most_ns, launches)
        return Interval(lesser.low, lesser.estimate, max(lesser.high, greater.high))

    def range_of(self, cause: Category) -> Interval:
        """The gain of a step without the cause of a wait."""
        if self.host is not None:
            removed_ns = (self.shares.estimate(cause) - self.residual(cause)) * self.host.step_ns
            gain = predict_range(self.host.gain_without(removed_ns), self.rules)
            most = self.host.gain_of_merging if cause is Category.LAUNCH else 1.0
            if cause in (Category.INPUT, Category.IDLE) and self.rules >= TOLD:
                most = self.host.gain_of_preparing
            return dataclasses.replace(gain, high=max(gain.high, most))
        if self.parts is None:
            return predict_range(speedup(self.shares.estimate(cause) - self.residual(cause)), self.rules)
        left_ns = self.parts.left_ns(cause)
        if cause is Category.IDLE and self.rules >= WHOLE:
            left_ns = self.parts.freed_left_ns
        gain = predict_range(self.parts.step_ns / max(left_ns, 1.0), self.rules)
        if cause is Category.LAUNCH:  # at the most, calls that are alike do not need each other and become one
            merged = self.parts.step_ns / max(self.parts.merged_left_ns, 1.0)
            gain = dataclasses.replace(gain, high=max(gain.high, merged))
        if cause is Category.IDLE and self.rules >= TOLD:  # what the step waits for may be rewritten, and not left out
            gain = dataclasses.replace(gain, low=min(gain.low, speedup(self.shares.estimate(cause) * HALF_REMOVED)))
        if self.rules >= LINEAR and cause in LINKED:
            gain = dataclasses.replace(gain, high=max(gain.high, self._most_without_link(cause)))
        pauses = (Category.INPUT,) if self.rules < WHOLE else (Category.INPUT, Category.IDLE)
        if cause in pauses and self.rules >= ACCOUNTED:
            prepared = self.parts.step_ns / max(self.parts.prepared_left_ns, 1.0)
            gain = dataclasses.replace(gain, high=max(gain.high, prepared))
        return self._jointly(cause, gain) if self.rules >= NEEDED else gain

    def _most_without_link(self, cause: Category) -> float:
        """Without copies or waits for them at the most: a host that nothing holds up starts operators as fast as any,
        calls that no wait separates any more may be one, and the device does what the host did with the data."""
        parts = self.parts
        if parts is None:
            return 1.0
        left_ns = parts.unawaited_left_ns if cause is Category.SYNCHRONIZATION else parts.unlinked_left_ns
        worked_ns = self.book.tiling.worked_ns
        if cause is Category.TRANSFER and worked_ns is not None and self.rules >= TOLD:
            left_ns -= min(parts.shown(Category.IDLE, Category.INPUT), float(worked_ns.sum()) / len(self.book))
        return parts.step_ns / max(left_ns, 1.0) if parts.waits >= 1.0 or cause is Category.TRANSFER else 1.0

    def level_with(self, cause: Category) -> Category | None:
        """Launch beside synchronisation and the other way round, where ranges do not tell which of them takes more."""
        other = HELD_UP.get(cause)
        if other is None or self.parts is None or self.parts.waits < 1.0:
            return None
        share = self.shares.of.get(other)
        close = share is not None and share.high >= self.shares.estimate(cause) - CLEAR_LEAD
        return other if close and self.shares.estimate(other) >= CLEAR_LEAD else None

    def _jointly(self, cause: Category, gain: Interval) -> Interval:
        """The range over the removal of either of two level causes and of both: what waits holds up goes with them."""
        other, parts = self.level_with(cause), self.parts
        if other is None or parts is None:
            return gain
        named = predict_range(gain.estimate, self.rules, level=True)
        alone = predict_range(parts.step_ns / max(parts.left_ns(other), 1.0), self.rules, level=True)
        both = (parts.step_ns / max(left, 1.0) for left in (parts.replayed_left_ns, parts.unawaited_left_ns))
        return Interval(min(named.low, alone.low), gain.estimate, max(gain.high, named.high, alone.high, *both))


@dataclass(frozen=True, slots=True)
class VerdictDraft:
    """The verdict before it is put into words."""

    bottleneck: Category
    bound: Bound
    cause: CategoryCause
    weak: bool
    gain: Interval
    reason: str = ""
    rivals: tuple[tuple[Layer, str], ...] = ()
    """Layers that this run's own conditions point to, beside those that the cause always has."""
    predicted: bool = False
    """Whether the gain's range is one of prediction, from recorded cases."""


def measure_steps(
    book: TimeBook,
    unprofiled_step_ms: Interval | float | None,
    *,
    work: StepWork | None = None,
    contention: Contention | None = None,
    fresh: FreshMemory | None = None,
    rules: int = RULES,
) -> StepFigures:
    """The shares of a step, how near its kernels came to their ceilings, and what merging passes would save."""
    tiling = book.tiling
    step_ms = unprofiled_step_ms.estimate if isinstance(unprofiled_step_ms, Interval) else unprofiled_step_ms
    bare_ns = step_ms * 1e6 if step_ms is not None and step_ms > 0 else None
    shares = correct_shares(book, bare_ns, own_clock=rules >= WHOLE and tiling.on_device)
    parts = None
    if rules >= REPLAYED:
        parts = measure_parts(book, shares, least_dispatch=rules >= ACCOUNTED, alike_copies=rules >= NEEDED)
    if parts is not None:
        shares, parts = charge_waits(shares, parts)
    efficiency = measure_efficiency(book.groups, whole_calls=rules >= WHOLE, from_memory=rules >= TOLD)
    misnested = tiling.misnested > MISNESTED_LIMIT * max(1, len(tiling.trace))
    damaged = tiling.trace.damaged or misnested or not (tiling.on_device or book.groups)
    asks_workload = not efficiency.is_known and not damaged
    whole = measure_whole_step(book, shares, work) if asks_workload else None
    fusion = find_fusion(book, joined=rules >= ACCOUNTED, summed=rules >= SUMMED)
    launched = launched_operators(book, on_host=rules >= TOLD) if rules >= NEEDED else ()
    unread = find_unread(launched, book.usual_ns, diagonals=rules >= LINEAR)
    host = measure_host_parts(book, shares, allocated=rules >= TOLD) if rules >= HOST_ENDS else None
    dear = find_dear_order(launched) if rules >= LINEAR else None
    avoidable = (
        find_avoidable(book, newer=rules >= STRUCTURED, masked=rules >= TOLD) if rules >= FLOW and not damaged else None
    )
    if rules >= STRUCTURED and not damaged:
        avoidable = avoidable or doubt_unfollowed(book, launched)
    return StepFigures(
        book,
        step_ms,
        shares,
        efficiency,
        fusion,
        whole,
        contention,
        damaged,
        parts,
        rules,
        unread,
        host,
        dear,
        avoidable,
        fresh if rules >= TOLD and host is not None else None,
    )
