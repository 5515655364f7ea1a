"""What faster hardware would gain, by replaying the step under scaled ceilings: an estimate, never a measurement.

Every operator keeps its share of the roofline and gets the new machine's; what the host does shrinks with
the host. A kernel far below its ceiling is held back by something else, and that may stay: the low end of the range.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.attribute.judge.roofline import Ceilings, attain
from lynxbench.attribute.judge.time_book import KERNELS, OperatorGroup
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.tables import read_table

_CAUSES = read_table("attribute/judge/causes.toml")
FOLLOWS: Mapping[Category, str | None] = {category: _CAUSES[category].get("follows") for category in Category}
"""The part of a machine that a category's time goes with."""


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
    """Time that remains of a category: all of it scales, or half of what is expected does.

    An operator near the other side of the roofline may gain from neither; overheads do not follow a ceiling.
    """
    part = FOLLOWS[category]
    left = 1.0 / getattr(swap, part) if part is not None else 1.0
    half = 1.0 - (1.0 - left) / 2
    return Interval(min(left, half), left, max(left, half))


def _replay(groups: Sequence[OperatorGroup], swap: Swap, ceilings: Ceilings) -> dict[Category, Interval]:
    """For each kernel category, the time that remains over the time taken, by replaying operators of known work."""
    scaled = dataclasses.replace(ceilings, all=tuple(_scale(c, swap) for c in ceilings.all))
    taken, low, middle, high = (dict.fromkeys(KERNELS, 0.0) for _ in range(4))
    for group in groups:
        if group.category not in KERNELS or group.self_ns <= 0:
            continue
        category, took = group.category, float(group.self_ns)
        before = attain(group.work, ceilings) if group.work is not None else None
        after = attain(group.work, scaled) if group.work is not None else None
        ratio = _by_category(category, swap)
        if before is not None and after is not None and before.ns > 0:
            moved = after.ns / before.ns
            reached = min(1.0, before.ns * group.calls / took)
            # Only what the ceiling explains follows it for certain; the rest follows in the hopeful case.
            held = 1.0 - (1.0 - moved) * reached
            ratio = Interval(min(moved, held), (moved + held) / 2, max(moved, held))
        taken[category] += took
        low[category] += took * ratio.low
        middle[category] += took * ratio.estimate
        high[category] += took * ratio.high
    return {c: Interval(low[c] / took, middle[c] / took, high[c] / took) for c, took in taken.items() if took > 0}


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
