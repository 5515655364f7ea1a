"""The Pareto front over options, and orders that exist only in a stated regime. Intervals decide; ties are named."""

import math
from collections.abc import Callable, Mapping, Sequence

from lynxbench.model.contract import Regime
from lynxbench.model.interval import Interval
from lynxbench.model.planning import Option, Ranking

LEVEL = 0.05
"""An option beats another that is worse by more than this in one figure, and no better by more than this in any."""

Reading = Callable[[Option], Interval | None]


def _bounded(estimate: float | None, bounds: Interval | None, sign: int) -> Interval | None:
    if estimate is None:
        return None
    return (bounds or Interval(math.nan, estimate, math.nan)).scaled(sign)


def _cost(option: Option) -> Interval | None:
    """As good as the rate it is divided by: without an interval of that, a price has none."""
    if (cost := option.cost) is None:
        return None
    bounds = Interval(cost.low, cost.estimate, cost.high) if option.throughput.interval.known else None
    return _bounded(cost.estimate, bounds, -1)


FIGURES: dict[str, Reading] = {
    "throughput, higher": lambda option: option.throughput.interval,
    "p99 latency, lower": lambda option: _bounded(option.latency_p99_ms, option.latency_p99_bounds, -1),
    "cost, lower": _cost,
    "work a joule, higher": lambda option: _bounded(option.per_joule, option.per_joule_bounds, 1),
    "accuracy loss, lower": lambda option: (
        None if option.accuracy_loss is None else Interval(*(-option.accuracy_loss,) * 3)
    ),
}
"""Each as an interval of which more is better; one without bounds is unresolved, and shows nothing."""

BY_REGIME: dict[Regime, tuple[str, Reading]] = {
    Regime.LATENCY: ("p99 latency, lowest first", FIGURES["p99 latency, lower"]),
    Regime.THROUGHPUT: ("sustained throughput, highest first", FIGURES["throughput, higher"]),
    Regime.COST: ("cost of a million units, lowest first", FIGURES["cost, lower"]),
}


def mark_front(options: Sequence[Option], incomparable: Mapping[str, str]) -> tuple[Option, ...]:
    """Options on the front are not shown to be beaten by any other; what only one of two has decides nothing."""
    held = [option for option in options if not is_left_out(option, incomparable)]
    marked = []
    for option in options:
        if option not in held:
            marked.append(option.model_copy(update={"on_front": False, "dominated_by": None}))
            continue
        better = next((other for other in held if other is not option and dominates(other, option)), None)
        update = {"on_front": better is None, "dominated_by": None if better is None else better.name}
        marked.append(option.model_copy(update=update))
    return tuple(marked)


def dominates(option: Option, other: Option) -> bool:
    """For sure no worse than the margin allows in every figure that the other has, and better by more in one."""
    shared = [(read(option), theirs) for read in FIGURES.values() if (theirs := read(other)) is not None]
    pairs = [(mine, theirs) for mine, theirs in shared if mine is not None]
    if len(pairs) < len(shared):
        return False
    if _same_run(option, other):  # the same noise is in both
        return all(mine.estimate >= theirs.estimate for mine, theirs in pairs) and any(
            mine.estimate > theirs.estimate for mine, theirs in pairs
        )
    no_worse = (theirs.high <= mine.low + LEVEL * abs(mine.low) for mine, theirs in pairs)
    return all(no_worse) and any(mine.low > theirs.high + LEVEL * abs(theirs.high) for mine, theirs in pairs)


def _same_run(option: Option, other: Option) -> bool:
    same = option.result_id == other.result_id and option.precision is other.precision
    return same and option.throughput == other.throughput


def _apart(option: Option, other: Option, read: Reading) -> bool:
    """Whether a figure puts one before the other: intervals that do not meet, or two prices of one measured rate."""
    mine, theirs = read(option), read(other)
    if mine is None or theirs is None:
        return False
    if _same_run(option, other):
        return mine.estimate != theirs.estimate
    return mine.low > theirs.high or mine.high < theirs.low


def leads_by_little(option: Option, other: Option, regime: Regime) -> bool:
    """Whether a lead is less than the margin: less than machines of one kind, or sittings of one, may differ by."""
    mine, theirs = (BY_REGIME[regime][1](one) for one in (option, other))
    if mine is None or theirs is None or not mine.known or not theirs.known:
        return False
    return mine.low <= theirs.high + LEVEL * abs(theirs.high)


def rank_options(options: Sequence[Option], regime: Regime, *, asked: bool) -> Ranking:
    """The order in one regime, with who is level; a no-go and a missing or unresolved figure stay out, with reason."""
    by, read = BY_REGIME[regime]
    left_out = []
    ranked: list[tuple[float, Option]] = []
    for option in options:
        if option.accuracy == "no-go":
            left_out.append(f"{option.name}: accuracy is a no-go under the contract's policy")
        elif (figure := read(option)) is None:
            left_out.append(f"{option.name}: no figure for {by.split(',')[0]}")
        elif not figure.known:
            left_out.append(f"{option.name}: its {by.split(',')[0]} is unresolved: it has no interval")
        else:
            ranked.append((figure.estimate, option))
    order = [option for _, option in sorted(ranked, key=lambda row: (-row[0], row[1].name))]
    level = {
        option.name: tuple(other.name for other in order if other is not option and not _apart(option, other, read))
        for option in order
    }
    return Ranking(
        regime=regime,
        asked=asked,
        by=by,
        order=tuple(option.name for option in order),
        level={name: others for name, others in level.items() if others},
        left_out=tuple(left_out),
    )


def is_left_out(option: Option, incomparable: Mapping[str, str]) -> bool:
    """Whether an option is of a candidate that may not stand beside the others."""
    return any(option.name == name or option.name.startswith(f"{name} (") for name in incomparable)
