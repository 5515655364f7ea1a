"""A book of exclusive times: each step's nanoseconds by category, operators with work and roofline, and shares."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.judge.hidden_work import hidden_category, is_hidden
from lynxbench.attribute.judge.operator_work import estimate_work
from lynxbench.attribute.judge.roofline import TINY_OPERATOR_NS, Attainable, Ceilings, OperatorWork, attain, is_tiny
from lynxbench.attribute.read.dataflow import Key
from lynxbench.attribute.read.operands import OperatorCall
from lynxbench.attribute.read.operator_names import OperatorKind, is_skinny, kernel_kind, operator_kind
from lynxbench.attribute.read.trace import NONE, EventKind, Int64, distinct
from lynxbench.attribute.tile.device_tiles import CODE
from lynxbench.attribute.tile.tiling import AlikeCalls, Tiling
from lynxbench.model.attribution import Category
from lynxbench.model.interval import Interval

COMPILED_OPERATOR_NS = 2_000.0
"""What a small operator still costs in compiled code: a call, a loop over its few elements, a write."""
REPLAY_GAP_NS = 1_000.0
"""What the device still idles between two kernels of a replayed graph (0.8 to 1.3 µs on Hopper)."""
PROFILER_COST_NS = 3_300.0
"""Most that one profiled host event was seen to cost (2.5 to 3.3 µs with shapes recorded, PyTorch 2.11)."""
HOST_CATEGORIES = (Category.LAUNCH, Category.ALLOCATOR)
"""Where the begin and end of an event are recorded: between operators and in those that do little themselves."""
REMOVABLE = 0.9
"""Share of the host's time that a correction may take at most: a step without any dispatch does not exist."""
LEAST_OWN_PART = 0.5
"""Of the least time of its work, what a wrapper takes at least that does it itself: no ceiling is that far too high."""
CORRECTION_MATTERS = 0.03
"""A correction that moves no share by more than this is not worth a word."""
NOTCH = 1.57
"""Half-width of a median's interval in quartile distances over √n (McGill, Tukey and Larsen, 1978)."""

CATEGORIES: tuple[Category, ...] = tuple(Category)
KERNELS = (Category.COMPUTE, Category.MEMORY_BANDWIDTH)
Float64 = npt.NDArray[np.float64]
_WITHOUT_WORK = (OperatorKind.DISPATCH, OperatorKind.ALLOCATION, OperatorKind.SYNCHRONIZATION)


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """All calls of one operator with the same operands."""

    name: str
    kind: OperatorKind
    category: Category
    calls: int
    self_ns: int
    work: OperatorWork | None = None
    attainable_ns: float | None = None
    """Of all calls together; None where shapes or ceilings are missing."""
    signature: int = NONE
    """The number of the operands of the operator that it belongs to."""
    hidden: bool = False
    """Whether its operands do not tell what it has to do."""

    @property
    def efficiency(self) -> float | None:
        """Attainable over taken time; above 1 where operands came from a cache the ceiling did not measure."""
        if self.attainable_ns is None or self.self_ns <= 0:
            return None
        return self.attainable_ns / self.self_ns


@dataclass(frozen=True, slots=True)
class TimeBook:
    """Per step and category, exact nanoseconds; the sum over categories is the wall time of the step."""

    tiling: Tiling
    ceilings: Ceilings
    spent_ns: Int64
    """[steps, categories] in the order of CATEGORIES."""
    groups: tuple[OperatorGroup, ...]
    sequence: tuple[int, ...]
    """The groups in the order in which the last step ran them."""
    code: Int64
    """The number of each stretch's category."""
    stalled_ns: float
    """Time a step, inside IDLE, that operators took beyond what their like take: the process was not scheduled."""
    residual_ns: dict[Category, float]
    """What of a category a fix would leave in each step: a compiled step still has to start its kernels."""

    def __len__(self) -> int:
        return len(self.spent_ns)

    @property
    def wall_ns(self) -> Int64:
        """How long each step took."""
        return self.tiling.steps.wall_ns

    @property
    def usual_ns(self) -> float:
        """How long the median step took."""
        return float(np.median(self.wall_ns))

    @property
    def usual_kernels_ns(self) -> float:
        """What kernels take of the usual step."""
        usual = np.median(self.spent_ns, axis=0)
        total = float(usual.sum())
        kernels = float(usual[[CODE[category] for category in KERNELS]].sum())
        return kernels / total * self.usual_ns if total > 0 else 0.0

    @property
    def mean_ns(self) -> float:
        """How long a step took on average: what sums over all steps are shares of."""
        return float(self.wall_ns.mean())

    @property
    def mean_kernels_ns(self) -> float:
        """What kernels take of a step on average."""
        return float(sum(self.of(category).sum() for category in KERNELS)) / max(1, len(self))

    def of(self, category: Category) -> Int64:
        """Nanoseconds of a category, step by step."""
        column: Int64 = self.spent_ns[:, CODE[category]]
        return column


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What an operator's call has to do, by an edition of the rules."""

    broadcast: bool
    scans: bool
    moved: dict[Key, int]
    """Bytes by operator and operands, where values that were followed show what the profiler does not."""
    hidden: bool
    on_device: bool

    def hides(self, name: str, kind: OperatorKind, call: OperatorCall | None) -> bool:
        """Whether nothing is said of what the call has to do."""
        return self.hidden and is_hidden(name, kind, call, on_device=self.on_device)

    def __call__(self, name: str, kind: OperatorKind, call: OperatorCall) -> OperatorWork | None:
        if self.hides(name, kind, call):
            return None
        work = estimate_work(
            name, kind, call, broadcast=self.broadcast, scans=self.scans, convolutions=self.hidden, given=self.hidden
        )
        if self.hidden and work is not None:  # what lies in several windows is read once
            again = sum(tensor.footprint - tensor.span_bytes for tensor in call.tensors)
            work = dataclasses.replace(work, read_bytes=max(0.0, work.read_bytes - again)) if again else work
        nbytes = self.moved.get((name, tuple(tensor.sizes for tensor in call.tensors if tensor.sizes)), 0)
        if work is not None or not nbytes:
            return work
        return OperatorWork(0.0, nbytes / 2.0, nbytes / 2.0, call.tensors[0].dtype)


def keep_book(
    tiling: Tiling, ceilings: Ceilings, *, broadcast: bool = True, followed: bool = True, hidden: bool = True
) -> TimeBook:
    """Every stretch to its category: its cause where one is known, else what bounds the operator at work.

    `broadcast` as for `estimate_work`; `followed`: running sums write their result, and what fetches by an index that
    the profiler does not record moves what was seen where values were followed. `hidden`: of operators whose operands
    do not tell what they have to do nothing is said.
    """
    flow = tiling.trace.dataflow if followed else None
    moved = {one.key: one.moved for one in flow.operators if one.moved} if flow is not None and flow.whole else {}
    estimate = _Estimate(broadcast, followed, moved, hidden, tiling.on_device)
    ceilings = ceilings if tiling.on_device else ceilings.on_host()
    classify = _classify_activity if tiling.on_device else _classify_operator
    groups = [(_belonging(classify(calls, ceilings, estimate), calls), calls) for calls in tiling.calls]
    groups.sort(key=lambda pair: (-pair[0].self_ns, pair[0].name))
    row_code = np.full(len(tiling.trace), CODE[Category.UNATTRIBUTED], dtype=np.int64)
    row_group = np.full(len(tiling.trace), NONE, dtype=np.int64)
    for number, (group, calls) in enumerate(groups):
        row_code[calls.rows] = CODE[group.category]
        row_group[calls.rows] = number
    stretches, steps = tiling.stretches, len(tiling.steps)
    code = np.where(tiling.cause != NONE, tiling.cause, row_code[stretches.row])
    spent = np.zeros((steps, len(CATEGORIES)), dtype=np.int64)
    np.add.at(spent, (stretches.step, code), stretches.dur_ns)
    in_order = tuple(group for group, _ in groups)
    last = stretches.row[(stretches.row != NONE) & (stretches.step == steps - 1)]
    return TimeBook(
        tiling=tiling,
        ceilings=ceilings,
        spent_ns=spent,
        groups=in_order,
        sequence=tuple(row_group[distinct(last)].tolist()),
        code=code,
        stalled_ns=_move_stalls(tiling, code, spent),
        residual_ns={Category.LAUNCH: _launch_left_ns(in_order, steps, tiling.on_device)},
    )


def _belonging(group: OperatorGroup, calls: AlikeCalls) -> OperatorGroup:
    return group if calls.signature == NONE else dataclasses.replace(group, signature=calls.signature)


def _launch_left_ns(groups: Sequence[OperatorGroup], steps: int, on_device: bool) -> float:
    if on_device:
        return sum(group.calls for group in groups) / steps * REPLAY_GAP_NS
    small = (group for group in groups if group.category is Category.LAUNCH and group.kind not in _WITHOUT_WORK)
    return sum(group.calls for group in small) * COMPILED_OPERATOR_NS / steps


def _move_stalls(tiling: Tiling, code: Int64, spent: Int64) -> float:
    """Move stalled time from the operators' categories to IDLE, in `spent`; what moved, a step on average."""
    stalled = np.zeros(len(tiling.trace), dtype=np.int64)
    for calls in tiling.calls:
        stalled[calls.rows] = calls.stalled_ns
    if not stalled.any():
        return 0.0
    moves = np.flatnonzero(tiling.cause == NONE)
    rows, first = np.unique(tiling.stretches.row[moves], return_index=True)
    at, excess = moves[first], stalled[rows]
    np.subtract.at(spent, (tiling.stretches.step[at], code[at]), excess)
    np.add.at(spent[:, CODE[Category.IDLE]], tiling.stretches.step[at], excess)
    return float(excess.sum()) / len(spent)


# --- what bounds an operator on the host ----------------------------------------------------------------------------


_BY_KIND: dict[OperatorKind, Category] = {
    OperatorKind.DISPATCH: Category.LAUNCH,
    OperatorKind.ALLOCATION: Category.ALLOCATOR,
    OperatorKind.COMMUNICATION: Category.COMMUNICATION,
    OperatorKind.SYNCHRONIZATION: Category.LAUNCH,  # on a CPU there is nothing to wait for
}


def _classify_operator(calls: AlikeCalls, ceilings: Ceilings, estimate: _Estimate) -> OperatorGroup:
    name, took = calls.operator or "", calls.took_ns
    kind = operator_kind(name)
    work = estimate(name, kind, calls.call) if calls.call is not None else None
    usual = float(np.median(took))
    best = attain(work, ceilings) if work is not None else None
    tiny = is_tiny(usual, best.ns if best is not None else None)
    hidden = estimate.hides(name, kind, calls.call)
    itself = calls.is_leaf or (estimate.hidden and _did_it(usual, best))
    if kind is OperatorKind.DISPATCH and work is not None and not tiny and itself:
        kind = OperatorKind.PRODUCT  # a wrapper that did the work itself: some back ends show no inner operator
    if kind in _BY_KIND:
        category = _BY_KIND[kind]
    elif tiny:
        category = Category.LAUNCH
    elif kind in (OperatorKind.FOREIGN, OperatorKind.COMPILED):
        category = Category.UNATTRIBUTED
    elif best is not None:
        category = best.bound
    elif hidden:
        category = hidden_category(name, kind)
    else:
        category = Category.COMPUTE if kind is OperatorKind.PRODUCT else Category.MEMORY_BANDWIDTH
    attainable = best.ns * len(took) if best is not None and best.exact and category in KERNELS else None
    return OperatorGroup(name, kind, category, len(took), int(took.sum()), work, attainable, hidden=hidden)


def _did_it(took_ns: float, best: Attainable | None) -> bool:
    """Whether a wrapper that calls others worked for so long itself that none of them can have done the work."""
    return best is not None and took_ns > TINY_OPERATOR_NS and took_ns >= LEAST_OWN_PART * best.ns


# --- what bounds an activity of the device --------------------------------------------------------------------------


def _classify_activity(calls: AlikeCalls, ceilings: Ceilings, estimate: _Estimate) -> OperatorGroup:
    kernel, count, total = calls.kernel or "", len(calls.took_ns), int(calls.took_ns.sum())
    by_kernel = kernel_kind(kernel)
    if calls.kind is EventKind.MEMCPY:
        category = Category.MEMORY_BANDWIDTH if "DtoD" in kernel else Category.TRANSFER
        return OperatorGroup(kernel, OperatorKind.COPY, category, count, total)
    if calls.kind is EventKind.MEMSET:
        return OperatorGroup(kernel, OperatorKind.DISPATCH, Category.MEMORY_BANDWIDTH, count, total)
    if by_kernel is OperatorKind.COMPILED:
        return _as_counted(OperatorGroup(kernel, by_kernel, Category.UNATTRIBUTED, count, total), calls)
    if by_kernel is OperatorKind.COMMUNICATION:
        return OperatorGroup(kernel, by_kernel, Category.COMMUNICATION, count, total)
    name = calls.operator or kernel
    kind = operator_kind(name) if calls.operator is not None else by_kernel
    if kind in (OperatorKind.DISPATCH, OperatorKind.FOREIGN, OperatorKind.ALLOCATION, OperatorKind.COMPILED):
        kind = by_kernel
    work = estimate(name, kind, calls.call) if calls.call is not None else None
    best = attain(work, ceilings) if work is not None else None
    if best is not None:
        category = best.bound
    elif kind is OperatorKind.PRODUCT and by_kernel is OperatorKind.PRODUCT and not is_skinny(kernel):
        category = Category.COMPUTE
    else:
        category = Category.MEMORY_BANDWIDTH
    attainable = best.ns * count if best is not None and best.exact else None
    hidden = estimate.hides(name, kind, calls.call)
    return _as_counted(OperatorGroup(name, kind, category, count, total, work, attainable, hidden=hidden), calls)


def _as_counted(group: OperatorGroup, calls: AlikeCalls) -> OperatorGroup:
    """Counters decide between arithmetic and memory, and how near its ceiling a kernel ran."""
    counted = calls.counted
    if counted is None or group.category not in (*KERNELS, Category.UNATTRIBUTED):
        return group
    category = Category.COMPUTE if counted.arithmetic_binds else Category.MEMORY_BANDWIDTH
    return dataclasses.replace(group, category=category, attainable_ns=group.self_ns * counted.reached)


# --- shares: the profiler's own cost stretches what the host does around operators, not their work --------------------


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


def correct_shares(book: TimeBook, unprofiled_ns: float | None, *, own_clock: bool = True) -> Shares:
    """Shares with the profiler's cost removed from the host's categories; a range where the cost is not known.

    `own_clock`: kernels are timed by the device, which no profiler slows. What the bare step has less is the host's,
    the making of its input included.
    """
    usual = np.median(book.spent_ns, axis=0)
    total = float(usual.sum())
    wall = book.usual_ns
    events_ns = float(np.median(book.tiling.events)) * PROFILER_COST_NS
    as_profiled: Float64 = usual / total if total > 0 else np.zeros(len(CATEGORIES))
    # Medians of categories need not add up to the median step; the step's length is the latter's.
    base = as_profiled * wall
    if unprofiled_ns is None:
        corrected, _ = _without(base, events_ns, events_ns, own_clock=own_clock)
        low_side = corrected / corrected.sum()
        estimate = (as_profiled + low_side) / 2
        step_ns, unexplained = wall, 0.0
    else:
        kernels = float(base[[CODE[category] for category in KERNELS]].sum())
        # A step shorter than its own kernels was measured under other conditions: nothing then keeps its time.
        kept = own_clock and kernels <= unprofiled_ns
        corrected, left = _without(base, max(0.0, wall - unprofiled_ns), events_ns, own_clock=kept)
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


def _without(base: Float64, excess_ns: float, profiler_ns: float, *, own_clock: bool) -> tuple[Float64, float]:
    """The base without the excess, and what of it nothing could account for.

    What the profiler can cost comes from the host's time. More than that means that conditions differed while
    profiling; pauses that the bare step did not have are the first to explain it, then the host's time again.
    """
    out = base.copy()
    left = _take(out, HOST_CATEGORIES, min(excess_ns, profiler_ns), REMOVABLE) + max(0.0, excess_ns - profiler_ns)
    left = _take(out, (Category.IDLE,), left, 1.0)
    if own_clock:
        left = _take(out, (Category.INPUT,), left, REMOVABLE)
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
