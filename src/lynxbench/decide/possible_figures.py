"""Figures that nothing can have measured: a result that states one carries no decision, whoever signed it."""

import math
from collections.abc import Iterator

from lynxbench.model.attribution import Attribution
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.model.result import PrecisionResult, Result

SMALLEST, LARGEST = 1e-15, 1e24
"""Of a rate or an energy in any unit: once in thirty million years, and a thousand times the operations a second of all
machines together."""
MOST_GAINED = 1e6
"""A million times faster is another workload."""
MOST_LOST = 1e15
"""Of a loss in a policy's metric: perplexities of broken models have a dozen digits."""
ROUNDED = 1e-3
"""By so much shares that are written rounded may come to more than the whole."""


def impossible_figure(result: Result) -> str:
    """The first figure of a result that cannot be, in words; empty where there is none."""
    for figures in result.per_precision:
        for problem in _problems(figures):
            return f"{figures.precision}: {problem}"
    return "" if result.attribution is None else next(_of_attribution(result.attribution), "")


def _problems(figures: PrecisionResult) -> Iterator[str]:
    load = figures.load
    rates = {"throughput": figures.throughput, "sustained": figures.sustained, "peak": figures.peak}
    if load is not None:
        rates |= {"offered": load.offered_per_s, "requests": load.requests_per_s, "goodput": load.goodput_per_s}
    energies = {"energy": figures.energy_j_per_unit, "energy of a request": figures.energy_j_per_request}
    for name, figure in (rates | energies).items():
        if figure is not None:
            yield from _of_figure(name, figure)
    loss = None if figures.accuracy is None else figures.accuracy.loss
    if loss is not None and not abs(loss) <= MOST_LOST:
        yield f"a loss of {loss:g}"
    for metric, percentiles in figures.latency_ms.items():
        for known in percentiles:
            ends = [end for end in (known.low, known.estimate, known.high) if end is not None]
            value = [known.estimate] if known.estimate is not None else []
            if not (_are_amounts(value) and _may_bound(ends)):
                yield f"{metric} p{known.percentile:g} of {_words(ends)} ms"
    if figures.attribution is not None:
        yield from _of_attribution(figures.attribution)
    if load is not None and load.saturation is not None:
        yield from _of_search(load.saturation)


def _of_figure(name: str, figure: Figure) -> Iterator[str]:
    ends = [end for end in (figure.low, figure.estimate, figure.high) if end is not None]
    if not _are_amounts(ends):
        yield f"{name} of {_words(ends)} {figure.unit}"


def _are_amounts(ends: list[float]) -> bool:
    """Whether the ends are in order, none below 0, and each 0 or of a size that something can have."""
    return _in_order(ends) and all(end == 0 or SMALLEST <= end <= LARGEST for end in ends)


def _may_bound(ends: list[float]) -> bool:
    """The same of any size: the tails of two processes that disagree bound each other by nothing."""
    return _in_order(ends) and all(end >= 0 and math.isfinite(end) for end in ends)


def _in_order(ends: list[float]) -> bool:
    return not ends or ends[0] <= ends[-1]


def _of_attribution(attribution: Attribution) -> Iterator[str]:
    for category, share in attribution.shares.items():
        if not 0 <= share <= 1 + ROUNDED:
            yield f"a share of {share:g} of a step for {category.value}"
            return
    total = sum(attribution.shares.values())
    if total > 1 + ROUNDED:
        yield f"shares of a step that add up to {total:g}"
    gains = {"gain_if_removed": attribution.gain_if_removed}
    for tried in attribution.interventions:
        gains |= {f"{tried.name} predicted": tried.predicted, f"{tried.name} measured": tried.measured}
    for name, gain in gains.items():
        if not _is_gain(gain):
            yield f"{name}: a gain of {_words([gain.low, gain.estimate, gain.high])}"
    for operator in attribution.operators:
        if operator.efficiency is not None and not 0 <= operator.efficiency <= MOST_GAINED:
            yield f"an efficiency of {operator.efficiency:g} of {operator.name}"


def _is_gain(gain: Interval) -> bool:
    ends = [end for end in (gain.low, gain.estimate, gain.high) if not math.isnan(end)]
    return _in_order(ends) and all(0 < end <= MOST_GAINED for end in ends)


def _of_search(search: SaturationRecord) -> Iterator[str]:
    rates = {"passed": search.passed_per_s, "failed": search.failed_per_s, "at least": search.at_least_per_s}
    for name, rate in {**rates, "ceiling": search.ceiling_per_s}.items():
        if rate is not None and not SMALLEST <= rate <= LARGEST:
            yield f"a saturation search with {name} {rate:g} /s"
    if search.passed_per_s is not None and (upper := search.upper_per_s) is not None and upper <= search.passed_per_s:
        yield f"a rate of {upper:g} /s that failed at or under {search.passed_per_s:g} /s that held"
    for point in search.curve:
        ends = [end for end in (point.p50_s, point.p99_s) if end is not None]
        if not SMALLEST <= point.rate_per_s <= LARGEST or not _are_amounts(ends) or point.requests < 0:
            yield f"a probe at {point.rate_per_s:g} /s with p50 and p99 of {_words(ends)} s"


def _words(ends: list[float]) -> str:
    return ", ".join(f"{end:g}" for end in ends)
