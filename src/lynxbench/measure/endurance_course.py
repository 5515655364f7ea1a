"""How a figure held over hours: by the hour, its gaps, when it stopped being steady, throttling, memory, the inlet."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from lynxbench.measure.precision_figures import figure_of
from lynxbench.measure.rolled import RolledMeasurement, sketches_of
from lynxbench.measure.run_conditions import CLOCK_CHANGE, REGIME_SHARE
from lynxbench.model.activity import POWER_CAP, THROTTLE_REASONS
from lynxbench.model.contract import Contract
from lynxbench.model.endurance import (
    Endurance,
    InletCourse,
    MeasuredStretch,
    MemoryCourse,
    SustainedPeriod,
    ThrottlingEpisode,
    UnmeasuredGap,
)
from lynxbench.model.interval import Interval
from lynxbench.model.requests import Mask
from lynxbench.model.samples import Float64, Int64, Telemetry
from lynxbench.model.slices import Slice, slice_length_s
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.autocorrelation import effective_count
from lynxbench.stats.drift import noise_of, straight_line, total_drift
from lynxbench.stats.intervals import student_quantile
from lynxbench.stats.robust import running_median
from lynxbench.stats.sketch import RELATIVE_ERROR
from lynxbench.stats.steady import MIN_POINTS, judge_steady

HOUR_S = 3600.0
HOURS_FROM_S = 3 * HOUR_S
"""Shorter runs are shown by the twelfth: an hour would hide their course."""
TWELFTHS = 12
LOOKS = 12
"""Parts from the start that are asked for a steady state; the error is shared between them."""
JOINED_S = 10.0
"""Readings of one limit that are no further apart are one episode."""
SHORTEST_CLOCK_DIP_S = 5.0
"""Clocks jump from reading to reading; a dip that lasts is one."""
SMOOTHED_READINGS = 11
CONFIDENCE = 0.95
MOST_EPISODES = 100
"""The longest ones are kept."""
NO_SENSORS = "neither throttle reasons nor clocks can be read on this machine"


def describe_endurance(
    contract: Contract, result: RolledMeasurement, telemetry: Telemetry | None, unit: str
) -> Endurance:
    """Everything that an endurance run shows beside the figures of any run."""
    asked_s = contract.protocol.duration_s
    assert asked_s is not None
    rolled, counted = result.rolled, result.counted
    starts_ns, ends_ns, slices = rolled.starts_ns, rolled.ends_ns, rolled.slices
    period_s = HOUR_S if asked_s >= HOURS_FROM_S else asked_s / TWELFTHS
    periods = tuple(_periods(result, period_s, unit, contract.protocol.confidence))
    rates = [(place, p.throughput.estimate) for place, p in enumerate(periods) if p.throughput is not None]
    slowest = min((pair for pair in rates if pair[1] is not None), key=lambda pair: pair[1] or 0.0, default=None)
    longest = max(rolled.stretches, key=lambda stretch: len(stretch.slices)).slices
    watched = telemetry is not None and any(_tells_throttling(name, telemetry) for name in telemetry.columns)
    inlet = [each.inlet_c for each in slices if each.inlet_c is not None]
    return Endurance(
        asked_s=asked_s,
        measured_s=_stretch_s(result),
        slice_s=slice_length_s(asked_s),
        slices=len(slices),
        iterations=sum(each.latency.count for each in slices),
        excerpted=sum(len(excerpt.start_ns) for each in slices for excerpt in each.excerpts),
        relative_error=RELATIVE_ERROR,
        stretches=tuple(_stretches(result)),
        gaps=tuple(_gaps(result)),
        period_s=period_s,
        periods=periods,
        steady_until_s=_steady_until_s(result, contract.protocol.steady.drift),
        episodes=find_episodes(telemetry, starts_ns, ends_ns, _rates(slices), counted) if telemetry is not None else (),
        unwatched="" if watched else NO_SENSORS,
        memory=memory_course(longest, [each.resident_bytes for each in longest]),
        harness_memory=memory_course(longest, [each.harness_resident_bytes for each in longest]),
        inlet=InletCourse(lowest_c=min(inlet), mean_c=float(np.mean(inlet)), highest_c=max(inlet)) if inlet else None,
        worst_period=None if slowest is None else slowest[0],
    )


def _stretch_s(result: RolledMeasurement) -> float:
    starts, ends = result.rolled.starts_ns, result.rolled.ends_ns
    return sum(float(ends[last - 1] - starts[first]) / 1e9 for first, last in pairwise(result.rolled.bounds))


def _stretches(result: RolledMeasurement) -> Iterator[MeasuredStretch]:
    starts, ends = result.rolled.starts_ns, result.rolled.ends_ns
    for stretch, (first, last) in zip(result.rolled.stretches, pairwise(result.rolled.bounds), strict=True):
        yield MeasuredStretch(
            started_at=_moment(int(starts[first])),
            ended_at=_moment(int(ends[last - 1])),
            slices=last - first,
            measured_s=float(ends[last - 1] - starts[first]) / 1e9,
            ended=stretch.ended,
        )


def _gaps(result: RolledMeasurement) -> Iterator[UnmeasuredGap]:
    starts, ends = result.rolled.starts_ns, result.rolled.ends_ns
    for stretch, place in zip(result.rolled.stretches, result.rolled.bounds[1:-1], strict=False):
        gap_s = float(starts[place] - ends[place - 1]) / 1e9
        from_s = float(ends[place - 1] - starts[0]) / 1e9
        yield UnmeasuredGap(from_s=from_s, seconds=max(gap_s, 0.0), why=stretch.ended)


def _moment(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="seconds")


def _rates(slices: Sequence[Slice]) -> Float64:
    return np.array([each.units / max(each.latency.sum_ns, 1) * 1e9 for each in slices])


def _periods(result: RolledMeasurement, period_s: float, unit: str, confidence: float) -> Iterator[SustainedPeriod]:
    slices, counted = result.rolled.slices, result.counted
    since_s = (result.rolled.starts_ns - result.rolled.starts_ns[0]) / 1e9
    place = np.floor_divide(since_s, period_s).astype(np.int64)
    for period in np.unique(place).tolist():
        inside = [each for each, here in zip(slices, (place == period) & counted, strict=True) if here]
        latency = sketches_of(inside)["latency"] if inside else None
        yield SustainedPeriod(
            from_s=period * period_s,
            until_s=(period + 1) * period_s,
            iterations=sum(each.latency.count for each in inside),
            counted_s=sum(each.latency.sum_ns for each in inside) / 1e9,
            throughput=figure_of(_period_rate(inside, confidence), f"{unit}s/s") if inside else None,
            p50_ms=latency.quantile(0.5) / 1e6 if latency is not None else None,
            p99_ms=latency.quantile(0.99) / 1e6 if latency is not None else None,
        )


def _period_rate(slices: Sequence[Slice], confidence: float) -> Interval:
    """Mean rate with Student's interval over slices, on as many as they are worth."""
    rates = _rates(slices)
    mean = sum(each.units for each in slices) / max(sum(each.latency.sum_ns for each in slices), 1) * 1e9
    worth = effective_count(rates)
    if len(rates) < 3 or worth <= 1:
        return Interval(math.nan, mean, math.nan)
    reach = student_quantile((1 + confidence) / 2, worth - 1) * float(np.std(rates, ddof=1)) / math.sqrt(worth)
    return Interval(mean - reach, mean, mean + reach)


def _steady_until_s(result: RolledMeasurement, bound: float) -> float | None:
    """The end of the longest part from the start that is steady by itself."""
    starts, ends = result.rolled.starts_ns, result.rolled.ends_ns
    if result.measured.steady.verdict is SteadyVerdict.STEADY:
        return float(ends[-1] - starts[0]) / 1e9
    settled = np.ones(len(starts), dtype=bool)
    settled[list(result.rolled.bounds[1:-1])] = False
    places = np.flatnonzero(settled)
    rates = _rates(result.rolled.slices)[places]
    for look in range(LOOKS - 1, 0, -1):
        count = len(rates) * look // LOOKS
        if count < MIN_POINTS:
            return None
        if judge_steady(rates[:count], drift_bound=bound, looks=LOOKS).verdict is SteadyVerdict.STEADY:
            return float(ends[places[count - 1]] - starts[0]) / 1e9
    return None


def memory_course(slices: Sequence[Slice], resident: Sequence[int | None]) -> MemoryCourse | None:
    """What a process held over time, with its growth by the hour; None where too little was read."""
    known = [(each.end_ns, held) for each, held in zip(slices, resident, strict=True) if held is not None]
    if len(known) < MIN_POINTS:
        return None
    values = np.array([held for _, held in known], dtype=np.float64)
    span_h = (known[-1][0] - known[0][0]) / 1e9 / HOUR_S
    tenth = max(1, len(values) // 10)
    # The first tenth is left out of the line: what a process takes while it warms up is not growth.
    settled = values[tenth:]
    growth = total_drift(settled, noise_of(straight_line(settled)[1]), CONFIDENCE)
    return MemoryCourse(
        first_bytes=int(np.median(values[:tenth])),
        last_bytes=int(np.median(values[-tenth:])),
        highest_bytes=int(values.max()),
        growth_bytes=growth.scaled(len(values) / len(settled)),
        hours=span_h,
    )


# --- throttling ------------------------------------------------------------------------------------------------------


def find_episodes(
    telemetry: Telemetry, starts_ns: Int64, ends_ns: Int64, rates: Float64, counted: Mask
) -> tuple[ThrottlingEpisode, ...]:
    """Stretches in which a limit was active or a clock lay below its middle, with the rate of the slices they touch."""
    inside = np.zeros(len(telemetry.at_ns), dtype=bool)
    for start, end in zip(starts_ns, ends_ns, strict=True):
        inside |= (telemetry.at_ns >= start) & (telemetry.at_ns <= end)
    episodes: list[ThrottlingEpisode] = []
    for cause, active in _limits(telemetry, inside):
        for first_ns, last_ns in _runs(telemetry.at_ns[inside], active):
            touched = counted & (starts_ns <= last_ns) & (ends_ns >= first_ns)
            others = counted & ~touched
            ratio = float(rates[touched].mean() / rates[others].mean()) if touched.any() and others.any() else None
            seconds = (last_ns - first_ns) / 1e9
            from_s = (first_ns - int(starts_ns[0])) / 1e9
            episodes.append(ThrottlingEpisode(cause=cause, from_s=from_s, seconds=seconds, rate=ratio))
    longest = sorted(episodes, key=lambda episode: -episode.seconds)[:MOST_EPISODES]
    return tuple(sorted(longest, key=lambda episode: (episode.from_s, episode.cause)))


def _tells_throttling(name: str, telemetry: Telemetry) -> bool:
    told = name.endswith("_throttle_reasons") or _is_clock(name)
    return told and bool(np.isfinite(telemetry.columns[name]).any())


def _is_clock(name: str) -> bool:
    return name == "cpu_clock_mhz" or name.endswith("_sm_clock_mhz")


def _limits(telemetry: Telemetry, inside: Mask) -> Iterator[tuple[str, Mask]]:
    """Limits by name, and the readings in which each was active."""
    for name, column in sorted(telemetry.columns.items()):
        read = column[inside]
        known = np.isfinite(read)
        if not known.any():
            continue
        if name.endswith("_throttle_reasons"):
            bits = np.where(known, read, 0).astype(np.int64)
            device = name.removesuffix("_throttle_reasons")
            for bit, reason in THROTTLE_REASONS.items():
                active = (bits & bit) != 0
                # A cap that holds all the time is the regime, and no episode of it.
                if active.any() and not (bit == POWER_CAP and float(active[known].mean()) >= REGIME_SHARE):
                    yield f"{device} {reason}", active
        elif _is_clock(name):
            middle = float(np.median(read[known]))
            smooth = running_median(np.where(known, read, middle), SMOOTHED_READINGS)
            low = smooth < (1 - CLOCK_CHANGE) * middle
            lasting = np.zeros(len(low), dtype=bool)
            at_ns = telemetry.at_ns[inside]
            for first_ns, last_ns in _runs(at_ns, low):
                if (last_ns - first_ns) / 1e9 >= SHORTEST_CLOCK_DIP_S:
                    lasting |= (at_ns >= first_ns) & (at_ns <= last_ns)
            if lasting.any():
                what = name.removesuffix("_clock_mhz").replace("_", " ")
                yield f"{what} clock more than {CLOCK_CHANGE:.0%} below its middle of {middle:.0f} MHz", lasting


def _runs(at_ns: Int64, active: Mask) -> list[tuple[int, int]]:
    """First and last moment of each run of active readings; short breaks do not end one."""
    moments = at_ns[active]
    if not len(moments):
        return []
    breaks = np.flatnonzero(np.diff(moments) > JOINED_S * 1e9)
    firsts, lasts = np.r_[0, breaks + 1], np.r_[breaks, len(moments) - 1]
    return [(int(moments[a]), int(moments[b])) for a, b in zip(firsts, lasts, strict=True)]
