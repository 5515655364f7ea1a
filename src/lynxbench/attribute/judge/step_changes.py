"""Two traces' steps held against each other: what each operator took before and after, and what makes the difference.

The parts add up to the difference: what waits and movements took more, by their category; operators
that only one of the two runs; others that are called more often; and others that take longer at each call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.attribute.judge.causes import CAUSES
from lynxbench.attribute.judge.time_book import KERNELS
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category, OperatorTime
from lynxbench.model.layers import Layer
from lynxbench.model.trace_detail import OperatorChange

MOST = 0.6
"""Share of all that moved, either way, which one part must have before the difference is called its."""
SMALLEST = 0.01
"""Share of the longer step below which two steps count as alike, whatever their spread says."""
NANOSECOND_MS = 1e-6
"""A part below this is the rounding of doubles."""
WORK = (*KERNELS, Category.UNATTRIBUTED)
"""Categories that operators account for one by one."""


@dataclass(frozen=True, slots=True)
class StepAccount:
    """A trace's mean step: what it took, on what, and how far that varies."""

    step_ms: float
    spent_ms: Mapping[Category, float]
    operators: tuple[OperatorTime, ...] = ()
    half_width_ms: float | None = None
    """Half-width of the interval of a usual step; None where there are too few steps to know."""
    device: str | None = None
    unit: str = "step"
    whole: bool = True
    """Whether the record holds all of a step: of a part, nobody is blamed."""
    doubt: str = ""
    """Why nothing may be concluded from it; empty where it may."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """A part of the difference, and the layers that it may lie in, each with the reason, the likeliest first."""

    words: str
    ms: float
    layers: Mapping[Layer, str]
    certain: bool
    """Whether the first of the layers is the one: nothing else explains such a part."""


@dataclass(frozen=True, slots=True)
class StepDifference:
    """What changed from one trace to another."""

    before: StepAccount
    after: StepAccount
    operators: tuple[OperatorChange, ...]
    """Those that changed most first."""
    parts: tuple[ChangePart, ...]
    """The largest first."""
    leading: ChangePart | None
    """The part that the difference is; None where none stands out, or nothing differs."""
    reason: str
    """Why no part leads; empty where one does."""

    @property
    def ms(self) -> float:
        """How much longer a step takes."""
        return self.after.step_ms - self.before.step_ms


def compare_steps(before: StepAccount, after: StepAccount) -> StepDifference:
    """Hold the later trace against the earlier one."""
    operators = _changes(before.operators, after.operators)
    if before.unit != after.unit:
        raise BadInput(f"a {before.unit} cannot be held against a {after.unit}; give two traces of one kind")
    parts = [part for part in (*_waits(before, after), *_work(before, after)) if abs(part.ms) > NANOSECOND_MS]
    parts.sort(key=lambda part: -abs(part.ms))
    leading, reason = _leading(before, after, parts)
    return StepDifference(before, after, operators, tuple(parts), leading, reason)


def _changes(before: Sequence[OperatorTime], after: Sequence[OperatorTime]) -> tuple[OperatorChange, ...]:
    """Operators by name: one whose category changed with the trace is the same operator still."""
    sides: dict[str, tuple[list[OperatorTime], list[OperatorTime]]] = {}
    for place, listed in enumerate((before, after)):
        for operator in listed:
            sides.setdefault(operator.name, ([], []))[place].append(operator)
    changes = []
    for name, (old, new) in sides.items():
        before_ms, after_ms = (sum(one.ms_per_step for one in side) if side else None for side in (old, new))
        calls = [sum(one.calls_per_step for one in side) for side in (old, new)]
        changes.append(OperatorChange(name, (new or old)[0].category, before_ms, after_ms, calls[0], calls[1]))
    return tuple(sorted(changes, key=lambda change: (-abs(change.ms), change.name)))


def _waits(before: StepAccount, after: StepAccount) -> list[ChangePart]:
    """What is no operator's arithmetic or traffic: its category says whose it is."""
    parts = []
    for category in Category:
        if category in WORK:
            continue
        cause = CAUSES[category]
        layers = {cause.layer: cause.why, **dict(cause.rivals)} if cause.layer is not None else dict(cause.rivals)
        more = after.spent_ms.get(category, 0.0) - before.spent_ms.get(category, 0.0)
        # What a server needs to receive and send may lie at the other end of the link.
        certain = cause.layer is not None and category is not Category.NETWORK and before.whole and after.whole
        parts.append(ChangePart(_noun(cause.words), more, layers, certain))
    return parts


def _noun(words: str) -> str:
    """`copies between host and device take` without its verb."""
    return words.rpartition(" ")[0]


def _work(before: StepAccount, after: StepAccount) -> list[ChangePart]:
    other = more = longer = 0.0
    for change in _changes(*([one for one in side.operators if one.category in WORK] for side in (before, after))):
        if change.before_ms is None or change.after_ms is None or not change.before_calls or not change.after_calls:
            other += change.ms
            continue
        calls = (change.after_calls - change.before_calls) * change.before_ms / change.before_calls
        more += calls
        longer += change.ms - calls
    total = sum(after.spent_ms.get(c, 0.0) - before.spent_ms.get(c, 0.0) for c in WORK)
    slower = {
        Layer.ACCELERATOR: "another device, another clock, or neighbours on it",
        Layer.APPLICATION: "other shapes under the same name",
        Layer.RUNTIME: "another version of the same kernel",
    }
    another = None not in (before.device, after.device) and before.device != after.device
    chosen = {
        Layer.RUNTIME: "another compiler, kernel library or version of them chose other kernels",
        Layer.APPLICATION: "the model or its code is not the same",
    }
    asked = {
        Layer.APPLICATION: "the program asks for the same work more or less often",
        Layer.RUNTIME: "a compiler merged or split the work",
    }
    return [
        ChangePart("operators that only one of the two runs", other, chosen, False),
        ChangePart("calls of operators that both run, more or fewer of them", more, asked, False),
        ChangePart("the same operators at each call", longer, slower, another and before.whole and after.whole),
        ChangePart("time that the record does not account for", total - other - more - longer, {}, False),
    ]


def _leading(before: StepAccount, after: StepAccount, parts: Sequence[ChangePart]) -> tuple[ChangePart | None, str]:
    difference, longer = after.step_ms - before.step_ms, max(before.step_ms, after.step_ms)
    for account, which in ((before, "earlier"), (after, "later")):
        if account.doubt:
            return None, f"the {which} trace {account.doubt}"
    if before.half_width_ms is not None and after.half_width_ms is not None:
        chance = before.half_width_ms + after.half_width_ms
        if abs(difference) <= max(chance, SMALLEST * longer):
            return None, "the difference is within what steps of one trace differ by"
    elif abs(difference) <= SMALLEST * longer:
        return None, "the steps take the same time"
    moved = sum(abs(part.ms) for part in parts)
    same_way = [part for part in parts if part.ms * difference > 0]
    if not same_way or abs(same_way[0].ms) < MOST * moved:
        return None, "no single part makes up most of it"
    return same_way[0], ""
