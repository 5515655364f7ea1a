"""When requests are due: absolute offsets from the start of the run, in nanoseconds, ascending.

A schedule is fixed before the first request is sent, so a slow answer never moves the next arrival (no coordinated
omission: latency counts from these moments, not from when the client came round to sending).
"""

import math

import numpy as np

from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.model.samples import Float64, Int64
from lynxbench.model.workload import (
    Arrival,
    BurstArrival,
    ClosedArrival,
    ConstantArrival,
    GammaArrival,
    PoissonArrival,
    RampArrival,
    ReplayArrival,
)

NS_PER_S = 1_000_000_000
BLOCK = 4096
"""Gaps drawn at a time."""
LARGEST_SCHEDULE = 50_000_000
"""Rows a schedule may have: 400 MB of offsets. More is a typing error in a rate or a duration."""
RAMP_UP_S = 1.0
"""A closed loop's first requests are spread over this: all at once, servers answer in lockstep for the whole run.
That is asked for with `start: together`."""
RAMP_UP_SHARE = 0.05
"""… but over no more than this share of the run."""


def load_of(
    arrival: Arrival, *, duration_s: float, shortest_s: float, seed: int, trace_s: Float64 | None = None
) -> ClosedLoop | OpenLoop:
    """When requests are due, for at most that long; `trace_s` holds the arrivals of a replayed trace."""
    match arrival:
        case ClosedArrival():
            at_once = arrival.concurrency == 1 or arrival.start == "together"
            spread_s = 0.0 if at_once else min(RAMP_UP_S, RAMP_UP_SHARE * shortest_s)
            return ClosedLoop(arrival.concurrency, ramp_up_s=spread_s)
        case ConstantArrival():
            return OpenLoop(constant(arrival.rate_per_s, duration_s))
        case PoissonArrival():
            return OpenLoop(poisson(arrival.rate_per_s, duration_s, seed))
        case GammaArrival():
            return OpenLoop(gamma(arrival.rate_per_s, arrival.variation, duration_s, seed))
        case BurstArrival():
            return OpenLoop(bursts(arrival.rate_per_s, arrival.size, arrival.spread_s, duration_s, seed))
        case RampArrival():
            # A ramp is the same ramp however long the run may be extended, so it takes the shortest.
            return OpenLoop(ramp(arrival.from_per_s, arrival.to_per_s, shortest_s, seed))
        case ReplayArrival():
            if trace_s is None:
                raise CannotRun(f"{arrival.path}: the trace to replay was not read")
            return OpenLoop(replay(trace_s, arrival.speed))
        case _:
            raise CannotRun(f"arrival {arrival.process} has no schedule of its own; it is searched for")


def constant(rate_per_s: float, duration_s: float) -> Int64:
    """Arrivals at equal distances; the k-th is at k / rate, so rounding never adds up."""
    _check(rate_per_s, duration_s)
    count = max(0, math.ceil(rate_per_s * duration_s - 1e-9))
    return _to_ns(np.arange(count) / rate_per_s, duration_s)


def poisson(rate_per_s: float, duration_s: float, seed: int) -> Int64:
    """Independent arrivals: exponential gaps with mean 1 / rate."""
    return gamma(rate_per_s, 1.0, duration_s, seed)


def gamma(rate_per_s: float, variation: float, duration_s: float, seed: int) -> Int64:
    """Gamma gaps with mean 1 / rate and the given coefficient of variation (1 is Poisson, above 1 is burstier)."""
    _check(rate_per_s, duration_s)
    if not (math.isfinite(variation) and variation > 0):
        raise BadInput(f"arrival variation {variation} must be a positive number; 1 is Poisson")
    shape = 1 / variation**2
    rng = np.random.default_rng(seed)
    return _to_ns(_renewals(rng, shape, 1 / (rate_per_s * shape), rate_per_s, duration_s), duration_s)


def bursts(rate_per_s: float, size: int, spread_s: float, duration_s: float, seed: int) -> Int64:
    """Bursts of `size` requests, spread evenly over `spread_s`; bursts start as Poisson and the mean rate is kept."""
    _check(rate_per_s, duration_s)
    if size < 1:
        raise BadInput(f"burst size {size} must be at least 1")
    if not (math.isfinite(spread_s) and spread_s >= 0):
        raise BadInput(f"burst spread {spread_s} s must be zero or more")
    starts = _renewals(np.random.default_rng(seed), 1.0, size / rate_per_s, rate_per_s / size, duration_s)
    inside = np.arange(size) * (spread_s / size)
    return _to_ns(np.sort((starts[:, None] + inside[None, :]).ravel()), duration_s)


def ramp(from_per_s: float, to_per_s: float, duration_s: float, seed: int) -> Int64:
    """Poisson arrivals at a rate that changes linearly.

    By inversion: with L(t) the arrivals expected until t, arrivals are where L(t) crosses a unit-rate process.
    """
    if from_per_s < 0 or to_per_s < 0 or from_per_s + to_per_s <= 0:
        raise BadInput(
            f"ramp from {from_per_s} /s to {to_per_s} /s: rates must not be negative, and one must be positive"
        )
    _check((from_per_s + to_per_s) / 2, duration_s)
    expected = (from_per_s + to_per_s) / 2 * duration_s
    points = _renewals(np.random.default_rng(seed), 1.0, 1.0, 1.0, expected)
    slope = (to_per_s - from_per_s) / duration_s
    if abs(slope) < 1e-12:
        return _to_ns(points / from_per_s, duration_s)
    # The stable form of the root of slope/2 t^2 + from t - L = 0.
    root = np.sqrt(np.maximum(from_per_s**2 + 2 * slope * points, 0.0))
    denominator = from_per_s + root
    return _to_ns(np.divide(2 * points, denominator, out=np.zeros_like(points), where=denominator > 0), duration_s)


def replay(arrivals_s: Float64, speed: float = 1.0) -> Int64:
    """A recorded trace's own moments, from its first arrival; `speed` 2 plays it twice as fast."""
    times = np.asarray(arrivals_s, dtype=np.float64)
    if times.ndim != 1 or not np.isfinite(times).all():
        raise BadInput("trace arrivals must be one column of finite seconds")
    if not (math.isfinite(speed) and speed > 0):
        raise BadInput(f"replay speed {speed} must be positive")
    if len(times) == 0:
        return np.zeros(0, dtype=np.int64)
    if (np.diff(times) < 0).any():
        at = int(np.flatnonzero(np.diff(times) < 0)[0]) + 1
        raise BadInput(f"trace arrivals go back in time at row {at}; sort the trace by arrival first")
    offsets: Int64 = np.round((times - times[0]) / speed * NS_PER_S).astype(np.int64)
    return offsets


def _renewals(rng: np.random.Generator, shape: float, scale: float, rate_per_s: float, duration_s: float) -> Float64:
    """Sums of gamma gaps past the duration, drawn in blocks: a longer schedule begins with the shorter one."""
    blocks: list[Float64] = []
    total = 0.0
    while total < duration_s:
        blocks.append(total + np.cumsum(rng.gamma(shape, scale, BLOCK)))
        total = float(blocks[-1][-1])
        if len(blocks) * BLOCK > LARGEST_SCHEDULE:
            raise _too_many(rate_per_s, duration_s)
    return np.concatenate(blocks)


def _check(rate_per_s: float, duration_s: float) -> None:
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise BadInput(f"arrival rate {rate_per_s} /s must be positive")
    if not (math.isfinite(duration_s) and duration_s > 0):
        raise BadInput(f"load duration {duration_s} s must be positive")
    if rate_per_s * duration_s > LARGEST_SCHEDULE:
        raise _too_many(rate_per_s, duration_s)


def _too_many(rate_per_s: float, duration_s: float) -> BadInput:
    most = f"{LARGEST_SCHEDULE:,}"
    return BadInput(f"{rate_per_s} /s over {duration_s} s makes more than {most} arrivals; lower one of them")


def _to_ns(times_s: Float64, duration_s: float) -> Int64:
    return np.round(times_s[times_s < duration_s] * NS_PER_S).astype(np.int64)
