"""What each category means: its words, its layer, where the symptom shows, what removes it and what that gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.tables import read_table


@dataclass(frozen=True, slots=True)
class CategoryCause:
    """How a category reads, and whose it is. `rivals` are other layers that could be behind it, with the reason."""

    words: str
    """With its verb: `kernel launch and framework dispatch take`."""
    layer: Layer | None
    symptom: Layer | None
    next_step: str
    fix: str
    """What its gain supposes to be done, in a few words."""
    why: str
    rivals: tuple[tuple[Layer, str], ...] = ()
    surer: str = ""
    """The reason up to edition 14, which also claimed that the kernels ran at the hardware's speed."""

    def takes(self, amount: str) -> str:
        """`launch and dispatch take 58–66 % of a step`."""
        return f"{self.words} {amount} of a step"


def _cause(keys: dict[str, Any]) -> CategoryCause:
    layer, symptom = (Layer(keys[name]) if name in keys else None for name in ("layer", "symptom"))
    rivals = tuple((Layer(name), reason) for name, reason in keys.get("rivals", {}).items())
    words, step, fix, why = (keys[name] for name in ("words", "next_step", "fix", "why"))
    return CategoryCause(words, layer, symptom, step, fix, why, rivals, keys.get("surer", ""))


_TABLE = {name: _cause(keys) for name, keys in read_table("attribute/judge/causes.toml").items()}
CAUSES: dict[Category, CategoryCause] = {category: _TABLE[category] for category in Category}
SLOW_KERNELS, NARROWER, STALLED, UNFUSED, SMALL_KERNELS, WIDER = (
    _TABLE[name] for name in ("slow_kernels", "narrower", "stalled", "unfused", "small_kernels", "wider")
)
COPIED, PICKED, MASKED, RELAID, UNREAD, ORDERED, DEAR_ORDER, HIDDEN = (
    _TABLE[name] for name in ("copied", "picked", "masked", "relaid", "unread", "ordered", "dear_order", "hidden")
)
DONE_AGAIN, UNUSED_RESULTS, ON_ZEROS, SPLIT_PRODUCTS, SMALL_WORK = (
    _TABLE[name] for name in ("done_again", "unused", "zeros", "split", "small_work")
)
WRITTEN_OUT, SAME_EACH_STEP, SLICES_COPIED, MASKED_RESULTS, WHOLE_PRODUCTS = (
    _TABLE[name] for name in ("structure", "constant", "sliced", "dropped", "whole_numbers")
)
FRESH_MEMORY, REPEATED_ROWS, PARTLY_READ = (_TABLE[name] for name in ("fresh_memory", "repeated_rows", "partly"))
UNREAD_DIAGONAL = replace(
    UNREAD,
    next_step="unless the rest is read after the step, make only the diagonal: multiply the factors element by element "
    "and sum up each row",
)
BELOW_CEILING = replace(
    SLOW_KERNELS,
    words="operators below the measured ceilings take",
    why="the same machine ran bare kernels faster in this run",
)
"""Where they are neither near nor far below, and yet nothing else accounts for as much."""
HOST_LAUNCH = replace(
    CAUSES[Category.LAUNCH],
    next_step="compile the step, or make calls that are alike one, so that many small operators become few",
    fix="the step compiled; at the most, calls that are alike made one",
)
"""On a CPU, which replays no graphs."""
_FIRST, _THEN = CAUSES[Category.SYNCHRONIZATION], CAUSES[Category.LAUNCH]
_ORDER = f"{_FIRST.next_step}; what runs through then: {_THEN.next_step}"
BOTH_LEVEL: dict[Category, CategoryCause] = {
    Category.SYNCHRONIZATION: replace(_FIRST, next_step=_ORDER, fix=f"{_FIRST.fix}; at the most {_THEN.fix}, too"),
    Category.LAUNCH: replace(_THEN, next_step=_ORDER, fix=f"{_THEN.fix}; at the most {_FIRST.fix}, too"),
}
"""Waits and launches that are level: a step that waits inside cannot be replayed, so that the waits go first."""
_ASKED = CAUSES[Category.ALLOCATOR]
BOTH_BLOCKING: dict[Category, CategoryCause] = {
    first: replace(
        CAUSES[first],
        next_step=f"{CAUSES[first].next_step}; and {CAUSES[other].next_step}",
        fix=f"{_ASKED.fix}, and {_FIRST.fix}",
    )
    for first, other in (
        (Category.ALLOCATOR, Category.SYNCHRONIZATION),
        (Category.SYNCHRONIZATION, Category.ALLOCATOR),
    )
}
"""Memory that is given back and values that are read between the parts of a step: the host waits in both."""
WAITS_INSIDE = replace(_FIRST, fix=f"{_FIRST.fix}; at the most, calls that are alike made one, too")
"""Waits that hold up a row of calls: who takes them out often writes the calls as one."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict before it is put into words."""

    bottleneck: Category
    bound: Bound
    layer: Layer | None
    """Whose it is; None where that stays open."""
    symptom: Layer | None
    weak: bool
    shares: Mapping[Category, float]
    gain: Interval
    next_step: str
    candidates: Mapping[Layer, str]
    """Layers that may be behind it, each with the reason."""
    reason: str = ""


# --- what removing a cause gains ------------------------------------------------------------------------------------

DOMINANT = 0.4
"""A bottleneck below this share is named, and marked weak."""
CLEAR_LEAD = 0.1
"""… so is one that leads the next category by less."""
HALF_REMOVED = 0.5
"""A fix may remove only this much of a category: the low end of a gain."""
MOST_REMOVABLE = 0.99
NO_GAIN = Interval(1.0, 1.0, 1.0)


def speedup(removed: float) -> float:
    """How many times faster a step is without a share of its time."""
    return 1.0 / (1.0 - min(max(removed, 0.0), MOST_REMOVABLE))


def gain_of(share: Interval, residual: float = 0.0) -> Interval:
    """What removing a share of the step gains: half of its low end at the least, all of its high end at the most.

    `residual` is the share that a fix leaves behind.
    """
    low = max(0.0, share.low - residual) * HALF_REMOVED
    estimate = max(low, share.estimate - residual)
    high = max(share.high - residual * HALF_REMOVED, estimate)
    return Interval(speedup(low), speedup(estimate), speedup(high))


def is_close(shares: Sequence[float]) -> bool:
    """Whether no share dominates, or the largest hardly leads the next."""
    first, second = (*sorted(shares, reverse=True), 0.0, 0.0)[:2]
    return first < DOMINANT or first - second < CLEAR_LEAD
