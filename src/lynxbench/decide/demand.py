"""What a fleet has to carry: declared, or read from arrivals; peak, percentile and growth."""

import math

import numpy as np

from lynxbench.errors import BadInput
from lynxbench.model.plain_numbers import plain
from lynxbench.model.planning import DemandForecast
from lynxbench.model.quantities import format_ratio
from lynxbench.model.samples import Float64

FEWEST_WINDOWS = 10
"""Windows that a log must fill before a percentile of them says anything."""


def declare_demand(peak_per_s: float, growth: float, mean_per_s: float | None = None) -> DemandForecast:
    """A peak that somebody states."""
    if not (math.isfinite(peak_per_s) and peak_per_s > 0):
        raise BadInput(f"--demand: {peak_per_s:g} requests/s is no demand; give a rate above 0")
    if mean_per_s is not None and not 0 < mean_per_s <= peak_per_s:
        raise BadInput(f"--mean-demand: {mean_per_s:g} /s must be above 0 and at most the peak, {peak_per_s:g} /s")
    _refuse_growth(growth)
    return DemandForecast(
        source="declared",
        words=f"declared: {peak_per_s:g} requests/s at peak{_growth_words(growth)}",
        mean_per_s=mean_per_s,
        peak_per_s=peak_per_s,
        growth=growth,
        planned_per_s=peak_per_s * (1 + growth),
    )


def forecast_demand(
    arrival_s: Float64, source: str, *, window_s: float, percentile: float | None, growth: float
) -> DemandForecast:
    """A peak, or a percentile of windows, from logged arrivals."""
    _refuse_growth(growth)
    if not (math.isfinite(window_s) and window_s > 0):
        raise BadInput(f"--window: {window_s:g} s is no window; give one above 0")
    if percentile is not None and not 50 <= percentile < 100:
        raise BadInput(f"--percentile: {percentile:g} must be from 50 to below 100; without it the peak is planned for")
    span_s = float(arrival_s[-1] - arrival_s[0]) if len(arrival_s) > 1 else 0.0
    windows = math.floor(span_s / window_s)
    if windows < FEWEST_WINDOWS:
        raise BadInput(
            f"{source}: {span_s:g} s of arrivals hold {windows} windows of {window_s:g} s, not {FEWEST_WINDOWS}; "
            "give a longer log or a shorter --window"
        )
    counts = np.bincount(((arrival_s - arrival_s[0]) / window_s).astype(np.int64))[:windows]
    rates = counts / window_s
    peak = float(rates.max())
    chosen = float(np.quantile(rates, percentile / 100, method="higher")) if percentile is not None else peak
    what = f"p{percentile:g} of {windows} windows" if percentile is not None else f"the peak of {windows} windows"
    return DemandForecast(
        source="log",
        words=f"{source}: {plain(chosen)} requests/s, {what} of {window_s:g} s{_growth_words(growth)}",
        mean_per_s=len(arrival_s) / span_s,
        peak_per_s=peak,
        percentile=percentile,
        percentile_per_s=chosen if percentile is not None else None,
        window_s=window_s,
        growth=growth,
        planned_per_s=chosen * (1 + growth),
    )


def _refuse_growth(growth: float) -> None:
    if not -1 < growth <= 100:
        wrong = "leaves no demand, or more than a hundredfold"
        raise BadInput(f"--growth: {format_ratio(growth)} {wrong}; give for example '30 %'")


def _growth_words(growth: float) -> str:
    return f", grown by {growth:.0%}" if growth else ""
