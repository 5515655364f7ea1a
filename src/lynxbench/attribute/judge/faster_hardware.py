"""What faster hardware would gain, by replaying the step under scaled ceilings: an estimate, never a measurement.

Every operator keeps its share of the roofline and gets the new machine's; what the host does shrinks with
the host. A kernel far below its ceiling is held back by something else, and that may stay: the low end of the range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.attribute.judge.roofline import Ceilings, attain
from lynxbench.attribute.judge.time_book import KERNELS, OperatorGroup
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.interval import Interval

HOST = (Category.LAUNCH, Category.ALLOCATOR, Category.SYNCHRONIZATION, Category.INPUT)
LINK = (Category.TRANSFER, Category.COMMUNICATION, Category.NETWORK)


@dataclass(frozen=True, slots=True)
class Swap:
    """How many times faster each part of another machine is."""

    compute: float = 1.0
    bandwidth: float = 1.0
    link: float = 1.0
    host: float = 1.0

    @property
    def words(self) -> str:
        """`compute ×2, bandwidth ×2`."""
        parts = [f"{name} ×{factor:g}" for name, factor in dataclasses.asdict(self).items() if factor != 1.0]
        return ", ".join(parts) or "the same machine"


@dataclass(frozen=True, slots=True)
class SwapGain:
    """The expected gain of a swap, always an estimate."""

    swap: Swap
    gain: Interval


STANDARD_SWAPS: tuple[Swap, ...] = (
    Swap(compute=2.0),
    Swap(bandwidth=2.0),
    Swap(compute=2.0, bandwidth=2.0),
    Swap(link=2.0),
    Swap(host=2.0),
)


def estimate_swap(
    shares: Mapping[Category, float],
    swap: Swap,
    groups: Sequence[OperatorGroup] = (),
    ceilings: Ceilings | None = None,
) -> SwapGain:
    """The gain of a swap from a step's shares; with operators and ceilings, kernels are replayed one by one."""
    replayed = _replay(groups, swap, ceilings) if ceilings is not None else {}
    left = [0.0, 0.0, 0.0]
    for category, share in shares.items():
        ratio = replayed.get(category) or _by_category(category, swap)
        left = [part + share * end for part, end in zip(left, (ratio.low, ratio.estimate, ratio.high), strict=True)]
    total = sum(shares.values())
    gains = sorted(total / part if part > 0 else 1.0 for part in left)
    return SwapGain(swap, Interval(*gains))


def _by_category(category: Category, swap: Swap) -> Interval:
    """Time that remains of a category; an operator near the other side of the roofline may gain from neither."""
    if category is Category.COMPUTE:
        return _remaining(swap.compute)
    if category is Category.MEMORY_BANDWIDTH:
        return _remaining(swap.bandwidth)
    if category in LINK:
        return _remaining(swap.link)
    if category in HOST:
        return _remaining(swap.host)
    return Interval(1.0, 1.0, 1.0)


def _remaining(factor: float) -> Interval:
    """All of it scales, or half of what is expected does: overheads inside a category do not follow its ceiling."""
    left = 1.0 / factor
    half = 1.0 - (1.0 - left) / 2
    return Interval(min(left, half), left, max(left, half))


def _replay(groups: Sequence[OperatorGroup], swap: Swap, ceilings: Ceilings) -> dict[Category, Interval]:
    """For each kernel category, the time that remains over the time taken, by replaying operators of known work."""
    scaled = dataclasses.replace(ceilings, all=tuple(_scale(c, swap) for c in ceilings.all))
    sums: dict[Category, list[float]] = {}
    for group in groups:
        if group.category not in KERNELS or group.self_ns <= 0:
            continue
        took = float(group.self_ns)
        before = attain(group.work, ceilings) if group.work is not None else None
        after = attain(group.work, scaled) if group.work is not None else None
        if before is None or after is None or before.ns <= 0:
            ratio = _by_category(group.category, swap)
            parts = [ratio.low, ratio.estimate, ratio.high]
        else:
            moved = after.ns / before.ns
            reached = min(1.0, before.ns * group.calls / took)
            # Only what the ceiling explains follows it for certain; the rest follows in the hopeful case.
            held = 1.0 - (1.0 - moved) * reached
            parts = [min(moved, held), (moved + held) / 2, max(moved, held)]
        entry = sums.setdefault(group.category, [0.0, 0.0, 0.0, 0.0])
        for i, part in enumerate(parts):
            entry[i] += took * part
        entry[3] += took
    return {c: Interval(s[0] / s[3], s[1] / s[3], s[2] / s[3]) for c, s in sums.items() if s[3] > 0}


def _scale(ceiling: Ceiling, swap: Swap) -> Ceiling:
    factor = swap.compute if ceiling.name == "matmul" else swap.bandwidth
    return ceiling.model_copy(update={"per_s": ceiling.per_s * factor})


def compare_swaps(swaps: Sequence[SwapGain], fix: Interval, fix_words: str) -> str:
    """The purchase beside the software fix, in one sentence; both are estimates."""
    best = max(swaps, key=lambda swap: swap.gain.estimate, default=None)
    if best is None:
        return ""
    bought = f"{best.swap.words} gains {_gain_words(best.gain)}"
    if fix.estimate <= 1.0:
        return f"estimate: {bought}; no software fix is known"
    return f"estimate: {bought}; {fix_words} gains {_gain_words(fix)}"


def _gain_words(gain: Interval) -> str:
    if gain.high < 1.5:
        low, high = round((gain.low - 1) * 100), round((gain.high - 1) * 100)
        return f"at most {high} %" if low <= 0 else f"{low} to {high} %"
    return f"{gain.low:.2g} to {gain.high:.2g}×"
