"""Which iterations count: warm-up and transient are found in the series, not assumed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.contract import Protocol
from lynxbench.model.result import RULES
from lynxbench.model.samples import Float64, Int64, Iterations, Phase, counted_rows
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.arrays import median_of
from lynxbench.stats.batches import window_means
from lynxbench.stats.robust import MAD_TO_SIGMA
from lynxbench.stats.steady import SteadyJudgement, judge_steady

WARMUP_BAND_SIGMA = 4.0
"""Warm-up ends when the rate first enters this band around the later half's median (robust sigma from its MAD)."""

ITERATIONS_PER_WINDOW = 4
"""Windows that hold fewer iterations than this would mostly show how iterations fall into windows."""


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Units per second along the busy time of a process, with the busy time at the end of each stretch."""

    until_ns: Int64
    rate_per_s: Float64


@dataclass(frozen=True, slots=True)
class FoundPhases:
    """A phase for every iteration, and the judgement that led to it."""

    phase: npt.NDArray[np.int8]
    judgement: SteadyJudgement
    series: RateSeries

    @property
    def steady(self) -> bool:
        """Whether the process reached a steady state."""
        return self.judgement.verdict is SteadyVerdict.STEADY

    @property
    def counted(self) -> npt.NDArray[np.bool_]:
        """The iterations that count."""
        return counted_rows(self.phase)


def busy_time(iterations: Iterations) -> tuple[Int64, Int64]:
    """Starts and ends on a clock that runs only inside iterations: what the harness does between them leaves no dip."""
    lasted_ns = iterations.end_ns - iterations.start_ns
    ends_ns = np.cumsum(lasted_ns)
    return ends_ns - lasted_ns, ends_ns


def rate_series(iterations: Iterations, window_s: float) -> RateSeries:
    """Rates in windows of the given length, or by iteration where a window would hold too few of them."""
    return _rate_series(iterations, busy_time(iterations), window_s)


def _rate_series(iterations: Iterations, busy: tuple[Int64, Int64], window_s: float) -> RateSeries:
    starts_ns, ends_ns = busy
    seconds = iterations.seconds
    typical_s = median_of(seconds)
    if typical_s * ITERATIONS_PER_WINDOW > window_s:
        return RateSeries(ends_ns, iterations.units / np.maximum(seconds, 1e-9))
    windows = window_means(starts_ns, ends_ns, iterations.units, window_s)
    until_ns = ((windows.centre_s + windows.width_s / 2) * 1e9).astype(np.int64)
    return RateSeries(until_ns, windows.rate_per_s)


def find_phases(iterations: Iterations, protocol: Protocol, rules: int = RULES) -> FoundPhases:
    """Mark warm-up, transient and steady iterations by the contract's rule.

    Drift is judged over the contract's limit, however early the run stopped: a run that is looked at several times
    while it grows could otherwise pass merely because it was still too short to drift.
    """
    rule, busy = protocol.steady, busy_time(iterations)
    series = _rate_series(iterations, busy, rule.window_s)
    busy_s = float(series.until_ns[-1]) / 1e9
    horizon = int(len(series.rate_per_s) * max(protocol.limit_s / busy_s, 1.0))
    judgement = judge_steady(series.rate_per_s, drift_bound=rule.drift, horizon=horizon, judge_outliers=rules >= 3)
    _, ends_ns = busy
    phase = np.full(len(iterations), Phase.TRANSIENT, dtype=np.int8)
    phase[ends_ns <= _end_of(series, warmup_length(series.rate_per_s))] = Phase.WARMUP
    phases = FoundPhases(phase, judgement, series)
    return _mark_steady(ends_ns, phases) if judgement.verdict is SteadyVerdict.STEADY else phases


def mark_steady(iterations: Iterations, phases: FoundPhases) -> FoundPhases:
    """The same phases with everything after the cut counted as steady."""
    return _mark_steady(busy_time(iterations)[1], phases)


def _mark_steady(ends_ns: Int64, phases: FoundPhases) -> FoundPhases:
    phase = phases.phase.copy()
    phase[ends_ns > _end_of(phases.series, phases.judgement.truncate)] = Phase.STEADY
    return FoundPhases(phase, phases.judgement, phases.series)


def _end_of(series: RateSeries, stretches: int) -> int:
    """The busy time at which the first so many stretches are over."""
    return int(series.until_ns[stretches - 1]) if stretches > 0 else 0


def warmup_length(rate_per_s: Float64) -> int:
    """How many stretches lie before the rate first enters the band of the later half."""
    later = rate_per_s[len(rate_per_s) // 2 :]
    centre = median_of(later)
    sigma = MAD_TO_SIGMA * median_of(np.abs(later - centre))
    inside = np.abs(rate_per_s - centre) <= WARMUP_BAND_SIGMA * sigma + 1e-12 * abs(centre)
    return int(np.argmax(inside)) if inside.any() else 0
