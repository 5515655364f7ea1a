"""Traffic that merging neighbouring passes over the same data would avoid: written only to be read back at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lynxbench.attribute.accounting import OperatorGroup, TimeBook
from lynxbench.attribute.operators import OperatorKind
from lynxbench.attribute.roofline import Ceilings
from lynxbench.model.attribution import Category
from lynxbench.model.interval import Interval

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
class Fusion:
    """What merging the passes of one step would save."""

    saved_ns: Interval
    chains: int
    longest: int
    attention: int
    """Chains between two products with a softmax among them: attention written out, for which fused kernels exist."""


def find_fusion(book: TimeBook, ceilings: Ceilings) -> Fusion:
    """Chains of passes in the last step, and the time that their intermediate results cost."""
    saved = [0.0, 0.0]
    lengths: list[int] = []
    attention = 0
    chain: list[OperatorGroup] = []
    before: OperatorGroup | None = None
    for index in (*book.sequence, None):
        group = None if index is None else book.groups[index]
        if group is not None and (group.kind in TRANSPARENT or _is_aside(chain, group)):
            continue
        if group is not None and _joins(chain, group):
            chain.append(group)
            continue
        parts = _attention_ns(before, chain, group, ceilings)
        attention += parts is not None
        if parts is None and len(chain) > 1:
            parts = _saved_ns(chain)
        if parts is not None:
            lengths.append(len(chain))
            saved = [total + part for total, part in zip(saved, parts, strict=True)]
        starts = group is not None and _joins([], group)
        chain, before = ([group], before) if starts and group is not None else ([], group)
    low, high = saved
    return Fusion(Interval(low, (low + high) / 2, high), len(lengths), max(lengths, default=0), attention)


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
    kept = most = 0.0
    for product in products:
        peak = ceilings.arithmetic_per_s(product.work.dtype) if product.work is not None else None
        took = product.self_ns / product.calls
        if product.work is None or not peak:
            continue
        least = product.work.flops / peak * 1e9
        kept += max(0.0, took - least / FUSED_EFFICIENCY)
        most += max(0.0, took - least)
    return passes + kept, passes + most


def _is_aside(chain: list[OperatorGroup], group: OperatorGroup) -> bool:
    """Whether a pass is small beside the chain it interrupts: it prepares something else, and breaks nothing."""
    if not chain or chain[-1].work is None or group.kind not in PASSES:
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
