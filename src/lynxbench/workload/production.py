"""What a production log asks for, as the lengths and arrivals of a contract: fitted, with how well they fit."""

import math
from dataclasses import dataclass

import numpy as np

from lynxbench.model.plain_numbers import plain
from lynxbench.model.quantities import format_rate
from lynxbench.model.samples import Float64, Int64
from lynxbench.model.workload import (
    Arrival,
    ConstantArrival,
    EmpiricalLength,
    FixedLength,
    GammaArrival,
    Length,
    LognormalLength,
    PoissonArrival,
    UniformLength,
)
from lynxbench.stats.autocorrelation import effective_count
from lynxbench.workload.lengths import longest
from lynxbench.workload.request_log import RequestLog

FAMILY_KS, FAMILY_TOKENS = 0.03, 0.05
"""A family is used where at most 3 % of requests lie on the wrong side of any length and 5 % of tokens are misplaced;
beyond either, the recorded lengths themselves are."""
KS_95 = 1.36
"""The Kolmogorov-Smirnov distance that 95 % of samples of n stay below, times √n (Smirnov 1948)."""
EMPIRICAL_VALUES = 500
"""Evenly spaced quantiles written into a contract: within 0.1 % of the recorded distribution, and readable."""
STEADY_GAPS = 0.1
"""Gaps that vary less than this are a clock's, not people's."""
POISSON_BAND = 0.05
"""A coefficient of variation this close to 1 is Poisson's."""
LOCAL_GAPS = 101
"""Gaps over which a slowly changing rate is taken as constant, so that a daily cycle is not read as burstiness."""
WINDOW_REQUESTS = 10.0
"""Mean arrivals in a window where coarse time stamps allow only counting."""
COARSE = 0.2
"""Share of simultaneous arrivals from which on the stamps are too coarse for gaps."""
PIECES = 10
"""Stretches of a log whose scatter gives the error of its burstiness."""
RATE_BINS = 24
VARYING = 3.0
"""Counts of 24 equal stretches scatter this many times more than the gaps explain: the rate itself moves."""


@dataclass(frozen=True, slots=True)
class LengthFit:
    """A distribution of lengths and its distance to the recorded ones."""

    length: Length
    requests: int
    ks: float
    """Largest share of requests on the wrong side of a length."""
    tokens: float
    """Share of tokens that would have to move (Wasserstein distance over the mean)."""


@dataclass(frozen=True, slots=True)
class Burstiness:
    """Coefficient of variation of the gaps between arrivals, with its standard error; 1 is Poisson."""

    variation: float
    error: float
    by: str


@dataclass(frozen=True, slots=True)
class ArrivalFit:
    """An arrival process, and what it leaves out."""

    arrival: Arrival
    rate_per_s: float
    burstiness: Burstiness
    slowest_per_s: float
    fastest_per_s: float
    """Mean rates of the quietest and the busiest of 24 equal stretches."""
    varies: bool


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Requests open at the same time, from recorded durations."""

    mean: float
    peak: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """A log as a contract's workload."""

    source: str
    requests: int
    span_s: float
    input: LengthFit
    output: LengthFit | None
    arrival: ArrivalFit
    concurrency: Concurrency | None
    notes: tuple[str, ...]

    def workload_keys(self) -> dict[str, object]:
        """The keys of a contract's workload that the log decides, as they are written."""
        keys: dict[str, object] = {"input_tokens": self.input.length.model_dump(mode="json", by_alias=True)}
        if self.output is not None:
            keys["output_tokens"] = self.output.length.model_dump(mode="json", by_alias=True)
        keys["arrival"] = self.arrival.arrival.model_dump(mode="json", by_alias=True)
        return keys

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the contract must know about where it comes from; no path, which would name a machine."""
        span = f"{self.span_s:.0f}" if self.span_s >= 10 else plain(self.span_s, 3)
        lines = [
            f"Fitted to a log of {self.requests} requests over {span} s at {plain(self.arrival.rate_per_s, 3)} /s "
            f"(coefficient of variation of the gaps {self.arrival.burstiness.variation:.2f})."
        ]
        for name, fit in (("input", self.input), ("output", self.output)):
            if fit is not None:
                lines.append(
                    f"{name} lengths: {fit.length.distribution}, {fit.tokens:.1%} of tokens misplaced, at most "
                    f"{fit.ks:.1%} of requests on the wrong side of a length."
                )
        if self.concurrency is not None:
            mean, peak = self.concurrency.mean, self.concurrency.peak
            lines.append(f"concurrency in the log: {mean:.3g} on average, {peak} at most.")
        return (*lines, *(f"note: {note}." for note in self.notes))

    def document(self) -> dict[str, object]:
        """Plain values."""
        burst = self.arrival.burstiness
        return {
            "requests": self.requests,
            "span_s": self.span_s,
            "rate_per_s": self.arrival.rate_per_s,
            "slowest_per_s": self.arrival.slowest_per_s,
            "fastest_per_s": self.arrival.fastest_per_s,
            "rate_varies": self.arrival.varies,
            "variation": burst.variation,
            "concurrency": {"mean": self.concurrency.mean, "peak": self.concurrency.peak} if self.concurrency else None,
            "workload": self.workload_keys(),
            "notes": list(self.notes),
        }


def fit_log(log: RequestLog) -> Fitted:
    """Lengths, arrivals and concurrency of a log, with notes on what a stationary workload cannot carry."""
    notes: list[str] = []
    output: LengthFit | None = None
    if log.output_tokens is not None:
        answered = log.output_tokens[log.output_tokens > 0]
        silent = len(log) - len(answered)
        if silent:
            notes.append(f"{silent} of {len(log)} requests have no output tokens; they count as arrivals only")
        output = fit_length(answered) if len(answered) else None
    arrival = fit_arrival(log)
    if arrival.varies:
        notes.append(
            f"the rate moves between {arrival.slowest_per_s:.3g} /s and {arrival.fastest_per_s:.3g} /s over the log; "
            f"the contract has its mean, {arrival.rate_per_s:.3g} /s"
        )
    if log.failed:
        notes.append(f"{log.failed} requests failed; those whose length the log does not say are left out")
    if log.reordered:
        notes.append(f"{log.reordered} rows stood after a later arrival; they were sorted")
    if log.session is not None:
        per_session = len(log) / len(np.unique(log.session))
        if per_session > 1.05:
            notes.append(f"sessions have {per_session:.1f} requests each; the contract asks for independent requests")
    return Fitted(
        log.source, len(log), log.span_s, fit_length(log.input_tokens), output, arrival, concurrency(log), tuple(notes)
    )


# --- lengths ----------------------------------------------------------------------------------------------------------


def fit_length(values: Int64) -> LengthFit:
    """The simplest of fixed, uniform and truncated log-normal that is near enough, or the recorded lengths."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return LengthFit(FixedLength(distribution="fixed", value=low), len(values), 0.0, 0.0)
    nearest = max(FAMILY_KS, KS_95 / math.sqrt(effective_count(values)))
    uniform = UniformLength(distribution="uniform", low=low, high=high)
    for family in (uniform, _fit_lognormal(values)):
        if family is None:
            continue
        ks, tokens = _ks(family, values), token_distance(family, values)
        if ks <= nearest and tokens <= FAMILY_TOKENS + nearest:
            return LengthFit(family, len(values), ks, tokens)
    places = (np.arange(min(EMPIRICAL_VALUES, len(values))) + 0.5) / min(EMPIRICAL_VALUES, len(values))
    quantiles = np.sort(values)[(places * len(values)).astype(np.int64)]
    length = EmpiricalLength(distribution="empirical", values=tuple(int(value) for value in quantiles))
    return LengthFit(length, len(values), _ks(length, values), token_distance(length, values))


def length_cdf(length: Length, at: Int64 | Float64) -> Float64:
    """P(length ≤ at) of a contract's distribution, as lengths are drawn: rounded, and cut off by redrawing."""
    points = np.floor(np.asarray(at, dtype=np.float64))
    if isinstance(length, FixedLength):
        return np.where(points >= length.value, 1.0, 0.0)
    if isinstance(length, UniformLength):
        return np.clip((points - length.low + 1) / (length.high - length.low + 1), 0.0, 1.0)
    if isinstance(length, EmpiricalLength):
        values = np.sort(np.asarray(length.values))
        share: Float64 = np.searchsorted(values, points, side="right") / len(values)
        return share
    below = _lognormal_below(length.median, length.sigma, np.array([length.low - 0.5, length.high + 0.5]))
    part = _lognormal_below(length.median, length.sigma, np.clip(points, length.low - 1, length.high) + 0.5)
    whole: Float64 = np.clip((part - below[0]) / max(below[1] - below[0], 1e-300), 0.0, 1.0)
    return whole


def token_distance(length: Length, values: Int64) -> float:
    """Wasserstein distance between a distribution and recorded lengths over their mean: the tokens misplaced."""
    highest = max(int(values.max()), longest(length))
    grid = np.arange(highest + 1)
    recorded = np.searchsorted(np.sort(values), grid, side="right") / len(values)
    return float(np.abs(length_cdf(length, grid) - recorded).sum() / values.mean())


def _ks(length: Length, values: Int64) -> float:
    lengths, counts = np.unique(values, return_counts=True)
    recorded = np.cumsum(counts) / len(values)
    after = np.abs(length_cdf(length, lengths) - recorded).max()
    before = np.abs(length_cdf(length, lengths - 1) - np.append(0.0, recorded[:-1])).max()
    return float(max(after, before))


def _lognormal_below(median: float, sigma: float, points: Float64) -> Float64:
    from scipy.special import ndtr

    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(points, 0.0))
    below: Float64 = ndtr((logs - math.log(median)) / sigma)
    return below


def _fit_lognormal(values: Int64) -> LognormalLength | None:
    """Maximum likelihood of a rounded log-normal, cut off at the shortest and the longest that were recorded."""
    from scipy.optimize import minimize

    lengths, counts = np.unique(values, return_counts=True)
    low, high = int(lengths[0]), int(lengths[-1])
    logs = np.log(values)

    def unpacked(parameters: Float64) -> tuple[float, float]:
        median, sigma = np.exp(np.clip(parameters, (-20, -8), (20, 3)))
        return float(median), float(sigma)

    def unlikely(parameters: Float64) -> float:
        median, sigma = unpacked(parameters)
        upper, lower = (_lognormal_below(median, sigma, lengths.astype(np.float64) + half) for half in (0.5, -0.5))
        ends = _lognormal_below(median, sigma, np.array([low - 0.5, high + 0.5]))
        inside = np.maximum((upper - lower) / max(ends[1] - ends[0], 1e-300), 1e-300)
        return float(-(counts * np.log(inside)).sum() / counts.sum())

    start = np.array([logs.mean(), math.log(max(logs.std(), 1e-3))])
    best = minimize(unlikely, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-8, "maxiter": 400})
    median, sigma = (float(f"{parameter:.4g}") for parameter in unpacked(best.x))
    if not low <= median <= high or sigma > 5:
        return None
    return LognormalLength(distribution="lognormal", median=median, sigma=sigma, low=low, high=high)


# --- arrivals ---------------------------------------------------------------------------------------------------------


def fit_arrival(log: RequestLog) -> ArrivalFit:
    """Constant, Poisson or gamma arrivals at the log's mean rate."""
    rate = (len(log) - 1) / log.span_s
    burst = arrival_burstiness(log)
    written = format_rate(float(f"{rate:.4g}"))
    arrival: Arrival
    if burst.variation < STEADY_GAPS:
        arrival = ConstantArrival.model_validate({"process": "constant", "rate": written})
    elif abs(burst.variation - 1) <= max(POISSON_BAND, 2 * burst.error):
        arrival = PoissonArrival.model_validate({"process": "poisson", "rate": written})
    else:
        variation = min(float(f"{burst.variation:.3g}"), 100.0)
        arrival = GammaArrival.model_validate({"process": "gamma", "rate": written, "variation": variation})
    bins = min(RATE_BINS, max(2, len(log) // 20))
    counts = np.histogram(log.arrival_s, bins=bins, range=(0.0, log.span_s))[0]
    scatter = float(((counts - counts.mean()) ** 2).sum() / counts.mean() / (bins - 1))
    width_s = log.span_s / bins
    return ArrivalFit(
        arrival,
        rate,
        burst,
        float(counts.min()) / width_s,
        float(counts.max()) / width_s,
        scatter > VARYING * max(1.0, burst.variation**2),
    )


def arrival_burstiness(log: RequestLog) -> Burstiness:
    """How uneven arrivals are beside a slowly changing rate: from gaps, or from counts where stamps are coarse."""
    gaps = np.diff(log.arrival_s)
    if (gaps <= 0).mean() > COARSE:
        return _from_counts(log)
    around = min(LOCAL_GAPS, len(gaps) | 1)
    padded = np.pad(gaps, around // 2, mode="reflect") if len(gaps) > around // 2 else gaps
    local = np.convolve(padded, np.ones(around) / around, mode="valid") if len(padded) >= around else gaps.mean()
    scaled = gaps / np.maximum(np.resize(local, len(gaps)), 1e-12)
    # A gap is part of the mean of m that it is divided by, which shrinks cv² to about (m - 1) cv² / (m + cv²); undone.
    squared = float(np.var(scaled) / np.mean(scaled) ** 2)
    squared = squared * around / max(around - 1 - squared, 1.0)
    if len(gaps) < 4 * PIECES:
        return Burstiness(math.sqrt(squared), math.inf, "gaps")
    parts = [part for part in np.array_split(scaled, PIECES) if part.mean() > 1e-6]
    pieces = np.array([np.var(part) / np.mean(part) ** 2 for part in parts])
    error = float(np.std(pieces, ddof=1) / math.sqrt(len(pieces))) if len(pieces) > 1 else math.inf
    variation = math.sqrt(squared)
    return Burstiness(variation, error / (2 * max(variation, 1e-9)), "gaps")


def _from_counts(log: RequestLog) -> Burstiness:
    """√(variance / mean) of counts, by successive differences, which a trend hardly touches (von Neumann 1941)."""
    rate = len(log) / log.span_s
    steps = np.diff(np.unique(log.arrival_s))
    window_s = max(WINDOW_REQUESTS / rate, 2 * float(np.median(steps)))
    bins = max(4, int(log.span_s / window_s))
    counts = np.histogram(log.arrival_s, bins=bins, range=(0.0, log.span_s))[0].astype(np.float64)
    squares = np.diff(counts) ** 2 / 2
    variation = math.sqrt(float(squares.mean()) / float(counts.mean()))
    error = float(np.std(squares, ddof=1) / math.sqrt(len(squares)) / counts.mean()) / (2 * max(variation, 1e-9))
    return Burstiness(variation, error, "counts")


def concurrency(log: RequestLog) -> Concurrency | None:
    """Mean (Little's law) and largest number of requests open at once; None without durations."""
    if log.duration_s is None:
        return None
    known = np.isfinite(log.duration_s)
    if not known.any():
        return None
    starts, lasts = log.arrival_s[known], log.duration_s[known]
    ends = starts + lasts
    moments = np.concatenate((ends, starts))  # at the same moment, one ends before the next starts
    steps = np.concatenate((-np.ones(len(ends)), np.ones(len(starts))))
    opened = np.cumsum(steps[np.argsort(moments, kind="stable")])
    return Concurrency(float(lasts.sum() / max(float(ends.max()), 1e-12)), int(opened.max()))
