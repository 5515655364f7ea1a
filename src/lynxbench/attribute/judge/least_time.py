"""The least time a step could take: its kernels at their ceilings, its passes merged, its workload's own floor.

For kernels without operands (replayed graphs, compiled code) no roofline can be drawn one by one. One can be drawn for
the step: the bytes it must read, the operations it must do, against the same ceilings. The time beyond that floor is
then split by kernel names alone: products, kernels too short to be anything but fixed cost, and others.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lynxbench.attribute.judge.roofline import Ceilings
from lynxbench.attribute.judge.time_book import KERNELS, OperatorGroup, Shares, TimeBook
from lynxbench.attribute.read.operator_names import (
    OperatorKind,
    is_attention,
    is_many_passes,
    kernel_kind,
)
from lynxbench.attribute.read.trace import NONE
from lynxbench.model.attribution import Category, StepWork
from lynxbench.model.interval import Interval

ENOUGH_KNOWN = 0.5
"""Share of the kernels' time whose work must be known before anything is said about their efficiency."""
SMALL_KERNEL_NS = 5_000
"""Kernels on a few thousand elements took 1.1 to 3.5 µs on an H200 whatever they did; what is shorter than this cannot
have moved more than some 20 MB there, and is start, drain and little else."""
CACHED = 1.25
"""A pass that is so much faster than memory gives had its operands in a cache, and that cache's speed nobody knows."""
PASSES = frozenset({OperatorKind.ELEMENTWISE, OperatorKind.NORMALISATION, OperatorKind.COPY})
TRANSPARENT = frozenset({OperatorKind.DISPATCH, OperatorKind.ALLOCATION, OperatorKind.SYNCHRONIZATION})
"""Between two passes these move no data, and a compiler removes them."""
FUSED_EFFICIENCY = 0.5
"""What fused attention kernels reach of the product ceiling at the least (0.5 to 0.75 on current hardware)."""
ASIDE = 0.1
"""A pass that writes less than this share of the chain's last result is not part of it."""
SAME_SIZE = 0.5
"""Neighbours are merged when the smaller writes at least this share of what the larger does."""


@dataclass(frozen=True, slots=True)
class KernelEfficiency:
    """Kernel time taken, the part of it with known work, and the least time that part could have taken."""

    taken_ns: dict[Category, float]
    known_ns: dict[Category, float]
    best_ns: dict[Category, float]
    above_ceiling_ns: float
    cached_ns: float = 0.0
    """What is not known for another reason than its work: its operands lay in a cache."""

    @property
    def coverage(self) -> float:
        """Share of the kernels' time whose work is known."""
        taken = sum(self.taken_ns.values())
        return sum(self.known_ns.values()) / taken if taken else 0.0

    @property
    def is_known(self) -> bool:
        """Whether the work of enough of it is known."""
        return self.coverage >= ENOUGH_KNOWN

    @property
    def overall(self) -> float:
        """Attainable over taken time; operators above the ceiling count as at it."""
        known = sum(self.known_ns.values())
        return sum(self.best_ns.values()) / known if known else 0.0

    def of(self, category: Category) -> float | None:
        """The same for one category."""
        known = self.known_ns.get(category, 0.0)
        return self.best_ns[category] / known if known else None


def measure_efficiency(
    groups: Sequence[OperatorGroup], *, whole_calls: bool = True, from_memory: bool = True
) -> KernelEfficiency:
    """Attainable over taken time of the kernels whose work is known, by category and together.

    `whole_calls`: an operator's work is that of its whole call, and is held against all of its kernels. `from_memory`:
    of passes that were faster than memory, what bounds them is not known.
    """
    taken, known, best = (dict.fromkeys(KERNELS, 0.0) for _ in range(3))
    above = cached = 0.0
    calls = _by_call(groups) if whole_calls else {}
    for group in groups:
        if group.category not in taken:
            continue
        taken[group.category] += group.self_ns
        least_ns = group.attainable_ns if not (whole_calls and is_many_passes(group.name)) else None
        if (group.name, group.signature) in calls:
            whole_ns, call_ns = calls[group.name, group.signature]
            least_ns = group.self_ns * whole_ns / call_ns
        if least_ns is not None and from_memory and _is_cached(group, least_ns):
            above += group.self_ns
            cached += group.self_ns
        elif least_ns is not None:
            known[group.category] += group.self_ns
            best[group.category] += min(least_ns, float(group.self_ns))
            if least_ns > group.self_ns:
                above += group.self_ns
    return KernelEfficiency(taken, known, best, above, cached)


def _is_cached(group: OperatorGroup, least_ns: float) -> bool:
    return group.category is Category.MEMORY_BANDWIDTH and least_ns > CACHED * group.self_ns


def _by_call(groups: Sequence[OperatorGroup]) -> dict[tuple[str, int], tuple[float, float]]:
    """Of operators with several kernels a call, by name and operands: the least time of their work, and their time."""
    members: dict[tuple[str, int], list[OperatorGroup]] = {}
    for group in groups:
        if group.signature != NONE and group.category in KERNELS and not is_many_passes(group.name):
            members.setdefault((group.name, group.signature), []).append(group)
    return {
        key: (sum(g.attainable_ns or 0.0 for g in parts), float(sum(g.self_ns for g in parts)))
        for key, parts in members.items()
        if len(parts) > 1 and any(g.attainable_ns is not None for g in parts) and any(g.self_ns for g in parts)
    }


# --- the workload's own floor ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WholeStep:
    """A step against its floor; times in nanoseconds a step."""

    work: StepWork
    bound: Category
    step_ns: float
    least_ns: float
    per_s: float
    """The ceiling that gives the floor: bytes or operations a second."""
    products_ns: float
    small_ns: float
    small_count: float
    idle: float
    """Share of the step in which the device waited to be given the next kernel."""

    @property
    def floor(self) -> float:
        """The share of the step that its least work takes at the measured ceiling."""
        return min(1.0, self.least_ns / self.step_ns)

    @property
    def small(self) -> float:
        """The share of a step in kernels too small to fill the device, with the waits between kernels."""
        return min(1.0, self.small_ns / self.step_ns + self.idle)

    @property
    def slow_products(self) -> float:
        """The share of a step that the products took beyond the floor."""
        return max(0.0, (self.products_ns - self.least_ns) / self.step_ns)


def measure_whole_step(book: TimeBook, shares: Shares, work: StepWork | None) -> WholeStep | None:
    """The step against its least work; None without that, or without the ceilings for it."""
    ceilings = book.ceilings
    read, product = ceilings.read_bytes_per_s, ceilings.named("matmul", ceilings.precision)
    if work is None or not read or not product or shares.step_ns <= 0:
        return None
    read_ns, compute_ns = work.read_bytes / read * 1e9, work.operations / product * 1e9
    in_bytes = read_ns >= compute_ns
    steps = len(book)
    products = small = count = 0.0
    for group in book.groups:
        if group.category not in KERNELS or not group.calls:
            continue
        if group.kind is OperatorKind.PRODUCT and kernel_kind(group.name) is OperatorKind.PRODUCT:
            products += 0.0 if is_attention(group.name) else group.self_ns / steps
        elif group.self_ns / group.calls <= SMALL_KERNEL_NS:
            small += group.self_ns / steps
            count += group.calls / steps
    return WholeStep(
        work=work,
        bound=Category.MEMORY_BANDWIDTH if in_bytes else Category.COMPUTE,
        step_ns=shares.step_ns,
        least_ns=max(read_ns, compute_ns),
        per_s=read if in_bytes else product,
        products_ns=products,
        small_ns=small,
        small_count=count,
        idle=shares.estimate(Category.LAUNCH),
    )


# --- traffic that merging neighbouring passes would avoid: written only to be read back at once ---------------------


@dataclass(frozen=True, slots=True)
class Fusion:
    """What merging the passes of one step would save."""

    saved_ns: Interval
    chains: int
    longest: int
    attention: int
    """Chains between two products with a softmax among them: attention written out, for which fused kernels exist."""
    merged: int = 0
    """Calls fewer than before."""
    folded_ns: float = 0.0
    """What more is saved where chains that make a product's operand are part of it, or are run once and kept."""
    reduced_ns: float = 0.0
    """What more is saved where a reduction behind a chain is part of it: compilers merge the two."""
    reductions: int = 0
    """How many such there are: as many calls fewer again."""
    reached: float = 1.0
    """How near the passes came to their ceilings: what memory does not bound may not go with what is moved."""


def find_fusion(book: TimeBook, *, joined: bool = True, summed: bool = True) -> Fusion:
    """Chains of passes in the last step, and the time that their intermediate results cost.

    `joined`: the kernels of one operator are one pass. One on more elements than 32 bits count is cut into several,
    and only one of them carries the operands. `summed`: a single pass with a reduction behind it is a chain too.
    """
    saved = [0.0, 0.0]
    lengths: list[int] = []
    attention, folded = 0, 0.0
    reduced: list[float] = []
    passes: list[OperatorGroup] = []
    chain: list[OperatorGroup] = []
    before: OperatorGroup | None = None
    in_order = [book.groups[index] for index in book.sequence]
    ordered = [*(_joined(in_order) if joined else in_order), None]
    most_read = _most_read_later(ordered) if summed else []
    for place, group in enumerate(ordered):
        if group is not None and (group.kind in TRANSPARENT or _is_aside(chain, group)):
            continue
        if group is not None and _joins(chain, group):
            chain.append(group)
            continue
        parts = _attention_ns(before, chain, group, book.ceilings)
        attention += parts is not None
        length = len(chain)
        if parts is None and length > 1:
            parts = _saved_ns(chain)
        elif parts is None and summed and length and group is not None and _is_summed(chain[0], group):
            parts, length = _summed_ns(chain[0], group, most_read[place]), 2
        if parts is not None:
            lengths.append(length)
            passes += chain
            saved = [total + part for total, part in zip(saved, parts, strict=True)]
            folded += _folded_ns(chain, group, parts[1])
            reduced += _reduced_ns(chain, group, parts[1])
        starts = group is not None and _joins([], group)
        chain, before = ([group], before) if starts and group is not None else ([], group)
    low, high = saved
    saved_ns = Interval(low, (low + high) / 2, high)
    merged = sum(lengths) - len(lengths) + 2 * attention
    return Fusion(
        saved_ns,
        len(lengths),
        max(lengths, default=0),
        attention,
        merged,
        folded,
        sum(reduced),
        len(reduced),
        _reached(passes),
    )


def _reached(passes: Sequence[OperatorGroup]) -> float:
    """How near these came to their ceilings, each by its usual call; at them where nothing is known."""
    known = [(g.attainable_ns / g.calls, g.self_ns / g.calls) for g in passes if g.attainable_ns is not None]
    took = sum(taken for _, taken in known)
    return sum(min(least, taken) for least, taken in known) / took if took else 1.0


def _reduced_ns(chain: list[OperatorGroup], following: OperatorGroup | None, saved_ns: float) -> list[float]:
    """What a reduction that reads the chain's result saves as the end of the chain; nothing where none follows."""
    if following is None or not _is_reduced(chain[-1], following):
        return []
    return [max(0.0, _saved_ns([*chain, following])[1] - saved_ns)]


def _is_reduced(last: OperatorGroup, following: OperatorGroup) -> bool:
    """Whether what comes next is a reduction that reads as much as a pass wrote."""
    if last.work is None or following.work is None or following.kind is not OperatorKind.REDUCTION:
        return False
    written = last.work.written_bytes
    return SAME_SIZE * written <= following.work.read_bytes <= written / SAME_SIZE


def _is_summed(first: OperatorGroup, following: OperatorGroup) -> bool:
    """Whether a single pass and what comes next could be one: not where that goes over its operand several times."""
    once = first.kind is not OperatorKind.NORMALISATION and not is_many_passes(following.name)
    return once and _is_reduced(first, following)


def _most_read_later(ordered: Sequence[OperatorGroup | None]) -> list[float]:
    """At each place the most bytes that any operator behind it reads."""
    most, found = 0.0, []
    for group in reversed(ordered):
        found.append(most)
        most = max(most, group.work.read_bytes if group is not None and group.work is not None else 0.0)
    return found[::-1]


def _summed_ns(first: OperatorGroup, reduction: OperatorGroup, most_read: float) -> tuple[float, float]:
    """What a pass and a reduction of its result save as one: the result, or reading it back where others may want it.

    Others may where it was written in place, or where any later operator reads as much: a trace does not tell whose
    memory it is.
    """
    assert first.work is not None
    assert reduction.work is not None
    written = first.work.written_bytes
    if not first.name.endswith("_") and most_read < SAME_SIZE * written:
        return _saved_ns([first, reduction])
    took = first.self_ns / first.calls + reduction.self_ns / reduction.calls
    moved = first.work.total_bytes + reduction.work.total_bytes
    read_back = took * min(written, reduction.work.read_bytes) / moved if moved else 0.0
    return read_back, read_back


def _folded_ns(chain: list[OperatorGroup], following: OperatorGroup | None, saved_ns: float) -> float:
    """What is left of a chain whose result is most of what the product behind it reads; 0 where it is not."""
    product = following is not None and following.kind is OperatorKind.PRODUCT and following.work is not None
    if following is None or following.work is None or not product or chain[-1].work is None:
        return 0.0
    made, read = chain[-1].work.written_bytes, following.work.read_bytes
    took = sum(group.self_ns / group.calls for group in chain)
    return max(0.0, took - saved_ns) if SAME_SIZE * read <= made <= read else 0.0


def _joined(in_order: Sequence[OperatorGroup]) -> Iterator[OperatorGroup]:
    """The same with neighbouring kernels of one operator's call as one, where only one of them has operands."""
    last: OperatorGroup | None = None
    for group in in_order:
        alike = last is not None and last.name == group.name and group.kind in PASSES
        if last is not None and alike and (last.work is None) != (group.work is None):
            whole, part = (last, group) if last.work is not None else (group, last)
            took = whole.self_ns / whole.calls + part.self_ns / part.calls
            last = dataclasses.replace(whole, calls=1, self_ns=round(took))
            continue
        if last is not None:
            yield last
        last = group
    if last is not None:
        yield last


def _attention_ns(
    first: OperatorGroup | None, chain: list[OperatorGroup], last: OperatorGroup | None, ceilings: Ceilings
) -> tuple[float, float] | None:
    """What a fused attention kernel saves of two products and the passes between them; None where it is not attention.

    The square of scores never reaches memory: the passes vanish, and the products are left with their arithmetic.
    """
    products = [g for g in (first, last) if g is not None and g.kind is OperatorKind.PRODUCT and g.work is not None]
    if len(products) < 2 or not any("softmax" in group.name for group in chain):
        return None
    passes = sum(group.self_ns / group.calls for group in chain)
    saved = most = 0.0
    for product in products:
        peak = ceilings.arithmetic_per_s(product.work.dtype) if product.work is not None else None
        took = product.self_ns / product.calls
        if product.work is None or not peak:
            continue
        least = product.work.flops / peak * 1e9
        saved += max(0.0, took - least / FUSED_EFFICIENCY)
        most += max(0.0, took - least)
    return passes + saved, passes + most


def _is_aside(chain: list[OperatorGroup], group: OperatorGroup) -> bool:
    """Whether a pass is small beside the chain it interrupts: it prepares something else, and breaks nothing."""
    if not chain or chain[-1].work is None or group.kind not in PASSES or group.hidden:
        return False
    written = group.work.written_bytes if group.work is not None else 0.0
    return written < ASIDE * chain[-1].work.written_bytes


def _joins(chain: list[OperatorGroup], group: OperatorGroup) -> bool:
    if group.kind not in PASSES or group.category is not Category.MEMORY_BANDWIDTH or group.work is None:
        return False
    if not chain or chain[-1].work is None:
        return True
    sizes = sorted((chain[-1].work.written_bytes, group.work.written_bytes))
    return sizes[1] > 0 and sizes[0] >= SAME_SIZE * sizes[1]


def _saved_ns(chain: list[OperatorGroup]) -> tuple[float, float]:
    """Least and most: further operands of a pass come from outside the chain, or from inside it."""
    works = [group.work for group in chain if group.work is not None]
    took = sum(group.self_ns / group.calls for group in chain)
    moved = sum(work.total_bytes for work in works)
    ends = works[0].read_bytes + works[-1].written_bytes
    # Every later pass reads its predecessor's result; what it reads beyond that may come from anywhere.
    further = sum(max(0.0, work.read_bytes - before.written_bytes) for before, work in pairwise(works))
    most = took * max(0.0, 1.0 - ends / moved) if moved else 0.0
    least = took * max(0.0, 1.0 - (ends + further) / moved) if moved else 0.0
    return least, most
