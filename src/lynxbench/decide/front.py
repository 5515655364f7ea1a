"""The Pareto front over options, and orders that exist only in a stated regime."""

from collections.abc import Callable, Mapping, Sequence

from lynxbench.model.contract import Regime
from lynxbench.model.planning import Option, Ranking

Reading = Callable[[Option], float | None]

FIGURES: dict[str, Reading] = {
    "throughput, higher": lambda option: option.throughput.estimate,
    "p99 latency, lower": lambda option: None if option.latency_p99_ms is None else -option.latency_p99_ms,
    "cost, lower": lambda option: None if option.cost is None else -option.cost.estimate,
    "work a joule, higher": lambda option: option.per_joule,
    "accuracy loss, lower": lambda option: None if option.accuracy_loss is None else -option.accuracy_loss,
}
"""Each as a number of which more is better."""

BY_REGIME: dict[Regime, tuple[str, Reading]] = {
    Regime.LATENCY: ("p99 latency, lowest first", FIGURES["p99 latency, lower"]),
    Regime.THROUGHPUT: ("sustained throughput, highest first", FIGURES["throughput, higher"]),
    Regime.COST: ("cost of a million units, lowest first", FIGURES["cost, lower"]),
}


def mark_front(options: Sequence[Option], incomparable: Mapping[str, str]) -> tuple[Option, ...]:
    """Options on the front are not beaten by any other; a figure that only one of two has decides nothing."""
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
    """At least as good in every figure that the other has, and better in one."""
    better = False
    for read in FIGURES.values():
        mine, theirs = read(option), read(other)
        if theirs is None:
            continue
        if mine is None or mine < theirs:
            return False
        better = better or mine > theirs
    return better


def rank_options(options: Sequence[Option], regime: Regime, *, asked: bool) -> Ranking:
    """The order in one regime; a no-go precision and a missing figure stay out, with the reason."""
    by, read = BY_REGIME[regime]
    left_out = []
    ranked = []
    for option in options:
        if option.accuracy == "no-go":
            left_out.append(f"{option.name}: accuracy is a no-go under the contract's policy")
        elif read(option) is None:
            left_out.append(f"{option.name}: no figure for {by.split(',')[0]}")
        else:
            ranked.append(option)
    ranked.sort(key=lambda option: (-(read(option) or 0.0), option.name))
    return Ranking(
        regime=regime, asked=asked, by=by, order=tuple(option.name for option in ranked), left_out=tuple(left_out)
    )


def is_left_out(option: Option, incomparable: Mapping[str, str]) -> bool:
    """Whether an option is of a candidate that may not stand beside the others."""
    return any(option.name == name or option.name.startswith(f"{name} (") for name in incomparable)
