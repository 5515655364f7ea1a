"""Slices of an endurance run → what was measured. A slice is a row where a run of minutes has an iteration.

Steady state, mean, peak and drift are those of any run, with slices for windows; percentiles are read from the merged
sketches, and their bounds from how the slices differ.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from lynxbench.measure.energy import counted_span_ns
from lynxbench.measure.interruptions import LONG, LONGEST_PAUSE_S, RARE, STANDSTILL_S, judge_watch
from lynxbench.measure.precision_figures import PERCENTILES, MeasuredPrecision, measure_precision, slo_outcome
from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.measure.validity import UNWATCHED, Doubt, judge_precision
from lynxbench.model.contract import Contract
from lynxbench.model.interval import Interval
from lynxbench.model.requests import Mask
from lynxbench.model.result import RULES, Excluded, Percentile
from lynxbench.model.samples import CountedProcess, Int64, Iterations, Marks, Phase, ProcessSamples, Telemetry
from lynxbench.model.slices import Slice
from lynxbench.stats.sketch import SketchTable

MOST_READINGS = 14_400
"""Of the telemetry of one process: half a second apart in two hours, a minute in ten days."""
LATE_READINGS = 4.0
"""Intervals between readings after which they are missing, and not merely late."""


@dataclass(frozen=True, slots=True)
class RolledStretch:
    """The slices of one process, and how it ended."""

    slices: tuple[Slice, ...]
    ended: str


@dataclass(frozen=True, slots=True)
class RolledProcess:
    """One process of the plan: the stretches that its attempts measured, one after another, on the time of day."""

    process: int
    precision: str
    setup_ns: tuple[int, int]
    compile_ns: tuple[int, int] | None
    stretches: tuple[RolledStretch, ...]

    @property
    def slices(self) -> tuple[Slice, ...]:
        """Of all stretches."""
        return tuple(each for stretch in self.stretches for each in stretch.slices)

    @property
    def starts_ns(self) -> Int64:
        """When each slice began, since 1970."""
        return np.array([each.start_ns + each.unix_offset_ns for each in self.slices], dtype=np.int64)

    @property
    def ends_ns(self) -> Int64:
        """When each slice ended, since 1970."""
        return np.array([each.end_ns + each.unix_offset_ns for each in self.slices], dtype=np.int64)

    @property
    def bounds(self) -> tuple[int, ...]:
        """Where stretches begin and end among the slices."""
        return (0, *np.cumsum([len(stretch.slices) for stretch in self.stretches]).tolist())

    def samples(self) -> ProcessSamples:
        """A row a slice, as long as its iterations took together."""
        starts = self.starts_ns
        busy = np.array([each.latency.sum_ns for each in self.slices], dtype=np.int64)
        units = np.array([each.units for each in self.slices], dtype=np.int64)
        none = np.empty(0, dtype=np.int64)
        # The set-up that is known is the last process's, on its own clock: it is drawn right before the first slice.
        lacks_ns = int(starts[0]) - (self.compile_ns or self.setup_ns)[1]
        setup, compiled = (
            None if span is None else (span[0] + lacks_ns, span[1] + lacks_ns)
            for span in (self.setup_ns, self.compile_ns)
        )
        assert setup is not None
        rows = Iterations(starts, starts + busy, units)
        return ProcessSamples(self.process, self.precision, setup, compiled, rows, Marks(none, none))


@dataclass(frozen=True, slots=True)
class RolledMeasurement:
    """What the slices say, and which of them count."""

    measured: MeasuredPrecision
    counted: Mask
    rolled: RolledProcess

    @property
    def stretches(self) -> tuple[CountedProcess, ...]:
        """The counted process in the pieces that were measured without a break."""
        whole = self.measured.processes[0]
        return tuple(
            CountedProcess(
                replace(whole.samples, iterations=whole.samples.iterations.part(first, last)), whole.phase[first:last]
            )
            for first, last in pairwise(self.rolled.bounds)
            if (whole.phase[first:last] >= Phase.TRANSIENT).any()
        )


def reading_interval_s(duration_s: float, usual_s: float) -> float:
    """How far apart telemetry is read beside a run of that duration."""
    return max(usual_s, duration_s / MOST_READINGS)


def measure_rolled(contract: Contract, rolled: RolledProcess, unit: str, rules: int = RULES) -> RolledMeasurement:
    """Figures of one process from its slices; the first slice of a process that took over is its warm-up."""
    protocol = contract.protocol
    assert protocol.duration_s is not None
    whole = rolled.samples()
    kept = np.ones(len(whole.iterations), dtype=bool)
    kept[list(rolled.bounds[1:-1])] = False
    rows = whole.iterations
    settled = replace(whole, iterations=Iterations(rows.start_ns[kept], rows.end_ns[kept], rows.units[kept]))
    asked = contract.model_copy(update={"protocol": protocol.model_copy(update={"limit_s": protocol.duration_s})})
    measured = measure_precision(asked, [settled], unit, rules)
    phase = np.full(len(kept), Phase.WARMUP, dtype=np.int8)
    phase[kept] = measured.processes[0].phase
    process = CountedProcess(whole, phase)
    counted = process.counted
    sketches = sketches_of([each for each, counts in zip(rolled.slices, counted, strict=True) if counts])
    latency_ms = {
        metric: tuple(_percentile(table, wanted, protocol.confidence) for wanted in PERCENTILES)
        for metric, table in sketches.items()
    }
    objective = [
        (slo, _percentile(sketches[slo.metric.value], slo.percentile, protocol.confidence))
        for slo in contract.objective.slo
        if slo.metric.value in sketches
    ]
    many = np.array([each.latency.count for each in rolled.slices])
    steady = measured.steady.model_copy(
        update={
            "counted_iterations": int(many[counted].sum()),
            "counted_s": float(rows.seconds[counted].sum()),
            "executed_s": measured.steady.executed_s + float(rows.seconds[~kept].sum()),
            "excluded": (*measured.steady.excluded[:2], *_excluded(process, many)),
        }
    )
    figures = replace(
        measured,
        processes=(process,),
        latency_ms=latency_ms,
        slo=tuple(slo_outcome(slo, percentile) for slo, percentile in objective),
        steady=steady,
    )
    return RolledMeasurement(figures, counted, rolled)


def sketches_of(slices: Sequence[Slice]) -> dict[str, SketchTable]:
    """The distributions of slices by metric; one that has none of a metric has no part in it."""
    metrics = dict.fromkeys(metric for each in slices for metric in each.durations)
    return {
        metric: SketchTable(each.durations[metric].buckets for each in slices if metric in each.durations)
        for metric in metrics
    }


def judge_rolled(
    result: RolledMeasurement,
    telemetry: Telemetry | None,
    contract: Contract,
    failures: Sequence[str],
    rules: int = RULES,
) -> list[Doubt]:
    """Everything that slices and telemetry give reason to doubt."""
    protocol = contract.protocol
    assert protocol.duration_s is not None
    spans = [span for span in map(counted_span_ns, result.stretches) if span[1] > span[0]]
    reasons = [*_interruptions(result, protocol.steady.drift)]
    if telemetry is None:
        reasons.append(UNWATCHED)
    else:
        late_s = max(LONGEST_PAUSE_S, LATE_READINGS * reading_interval_s(protocol.duration_s, 0.0))
        reasons += judge_conditions(telemetry, spans, protocol, contract.owner, rules)
        reasons += judge_watch(telemetry, spans, late_s)
    return [*judge_precision(result.measured, protocol, failures), *(Doubt(reason) for reason in reasons)]


def _interruptions(result: RolledMeasurement, bound: float) -> Iterator[str]:
    """Single long iterations that the mean hangs on, and time in which the process stood still between iterations."""
    slices = [each for each, counts in zip(result.rolled.slices, result.counted, strict=True) if counts]
    counted_s = sum(each.latency.sum_ns for each in slices) / 1e9
    if not slices:
        return
    table = sketches_of(slices)["latency"]
    counts, long_ns = table.beyond(max(LONG * table.quantile(0.5), STANDSTILL_S * 1e9))
    long_s = np.repeat(long_ns / 1e9, np.minimum(counts, RARE + 1))
    if 0 < len(long_s) <= RARE and 2 * math.sqrt(float(np.sum(long_s**2))) > bound * counted_s:
        yield (
            f"stalls: {len(long_s)} iterations took more than {LONG:g} times the median (longest about "
            f"{long_s.max():.2f} s): the mean hangs on them"
        )
    paused_s = sum(each.paused_ns for each in slices) / 1e9
    if paused_s > bound * counted_s:
        yield f"standstill: the process did nothing for {paused_s:.1f} s between iterations; it was stopped"


def _excluded(process: CountedProcess, many: Int64) -> Iterator[Excluded]:
    for phase in (Phase.WARMUP, Phase.TRANSIENT):
        mask = (process.phase == phase) & ~process.counted
        seconds = float(process.samples.iterations.seconds[mask].sum())
        yield Excluded(phase=phase.word, seconds=seconds, iterations=int(many[mask].sum()))


def _percentile(table: SketchTable, percentile: float, confidence: float) -> Percentile:
    bounds = table.percentile(percentile, confidence)
    in_ms = Interval(*(value / 1e6 for value in (bounds.low, bounds.estimate, bounds.high)))
    low, estimate, high = (value if math.isfinite(value) else None for value in (in_ms.low, in_ms.estimate, in_ms.high))
    return Percentile(percentile=percentile, low=low, estimate=estimate, high=high, resolved=in_ms.known)
