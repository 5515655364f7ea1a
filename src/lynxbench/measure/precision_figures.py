"""Samples of all processes at one precision → what was measured, with intervals and doubts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.measure.phases import FoundPhases, busy_time, find_phases, mark_steady
from lynxbench.model.contract import Contract, Slo
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.requests import Mask
from lynxbench.model.result import RULES, Excluded, Percentile, SloOutcome, Steady
from lynxbench.model.samples import CountedProcess, Float64, Phase, ProcessSamples
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.autocorrelation import effective_count
from lynxbench.stats.batches import best_rates
from lynxbench.stats.intervals import log_mean_interval
from lynxbench.stats.pooled import PooledJudgement, judge_together
from lynxbench.stats.tails import percentile_interval, percentiles_of_several

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class MeasuredPrecision:
    """What the samples of one precision say."""

    processes: tuple[CountedProcess, ...]
    throughput: Figure
    sustained: Figure | None
    peak: Figure
    latency_ms: dict[str, tuple[Percentile, ...]]
    steady: Steady
    slo: tuple[SloOutcome, ...]
    run_means: tuple[float, ...]


def measure_precision(
    contract: Contract, samples: Sequence[ProcessSamples], unit: str, rules: int = RULES
) -> MeasuredPrecision:
    """Find the phases of each process, count the steady ones, and put intervals on what they say. Needs one process.

    `rules` is the edition of the rules: a kept result is verified by its own.
    """
    return measure_precisions(contract, [(samples, unit)], rules)[0]


def measure_precisions(
    contract: Contract, several: Sequence[tuple[Sequence[ProcessSamples], str]], rules: int = RULES
) -> list[MeasuredPrecision]:
    """The same of several precisions, each with the unit that it counts; what is alike of them is computed together."""
    protocol, asked = contract.protocol, _asked_percentiles(contract.objective.slo)
    found = [_found(contract, samples, rules) for samples, _ in several]
    latencies = [_latencies(each.samples, each.counted) for each in found]
    of_each = [(parts, asked.get(metric, PERCENTILES)) for known in latencies for metric, parts in known.items()]
    bounded = iter(bounded_percentiles(of_each, protocol.confidence, rules))
    busy = [(*busy_time(each.iterations), each.iterations.units) for samples, _ in several for each in samples]
    rates = iter(best_rates(busy, protocol.steady.window_s))
    peaks = [max(next(rates) for _ in samples) for samples, _ in several]
    return [
        _measured(contract, each, unit, peak, {metric: next(bounded) for metric in known})
        for (_, unit), each, peak, known in zip(several, found, peaks, latencies, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Found:
    """The phases of each process, what all of them together come to, and the iterations that count."""

    samples: Sequence[ProcessSamples]
    judged: Sequence[FoundPhases]
    together: PooledJudgement
    seconds: Sequence[Float64]
    """How long each iteration took, by process."""
    counted: Sequence[Mask]


def _found(contract: Contract, samples: Sequence[ProcessSamples], rules: int) -> _Found:
    protocol = contract.protocol
    judged = [find_phases(process.iterations, protocol, rules) for process in samples]
    together = judge_together([phases.judgement for phases in judged], protocol.steady.drift)
    if together.pooled:
        judged = [mark_steady(process.iterations, phases) for process, phases in zip(samples, judged, strict=True)]
    seconds, counted = [each.iterations.seconds for each in samples], [phases.counted for phases in judged]
    return _Found(samples, judged, together, seconds, counted)


def _measured(
    contract: Contract,
    found: _Found,
    unit: str,
    peak: float,
    bounded: Mapping[str, Mapping[float, Percentile]],
) -> MeasuredPrecision:
    run_means = tuple(map(mean_rate, found.samples, found.counted))
    overall = log_mean_interval(np.array(run_means), contract.protocol.confidence)
    steady = _steady(found)
    figure = figure_of(overall, f"{unit}s/s")
    return MeasuredPrecision(
        processes=tuple(
            CountedProcess(process, phases.phase) for process, phases in zip(found.samples, found.judged, strict=True)
        ),
        throughput=figure,
        sustained=figure if steady.verdict is SteadyVerdict.STEADY else None,
        peak=Figure(low=None, estimate=peak, high=None, unit=f"{unit}s/s"),
        latency_ms={metric: tuple(known[p] for p in PERCENTILES) for metric, known in bounded.items()},
        steady=steady,
        slo=tuple(
            slo_outcome(slo, bounded.get(slo.metric.value, {}).get(slo.percentile, _unmeasured(slo.percentile)))
            for slo in contract.objective.slo
        ),
        run_means=run_means,
    )


def figure_of(interval: Interval, unit: str) -> Figure:
    """An interval with its unit, NaN as null."""
    return Figure(
        low=_or_none(interval.low), estimate=_or_none(interval.estimate), high=_or_none(interval.high), unit=unit
    )


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def mean_rate(process: ProcessSamples, counted: Mask) -> float:
    """Units a second over the counted iterations; NaN where there are none."""
    seconds = float(process.iterations.seconds[counted].sum())
    return float(process.iterations.units[counted].sum()) / seconds if seconds > 0 else math.nan


def _steady(found: _Found) -> Steady:
    together, samples = found.together, found.samples
    counted_s = sum(float(seconds[c].sum()) for seconds, c in zip(found.seconds, found.counted, strict=True))
    executed_s = sum(float(seconds.sum()) for seconds in found.seconds)
    return Steady(
        verdict=together.verdict,
        reason=together.reason,
        drift=together.drift,
        counted_s=counted_s,
        counted_iterations=sum(int(c.sum()) for c in found.counted),
        executed_s=executed_s + sum(_span_s(p.setup_ns) + _span_s(p.compile_ns) for p in samples),
        excluded=_excluded(found),
        per_process=tuple(verdict_words(f.judgement.verdict, f.judgement.reason.value) for f in found.judged),
    )


def verdict_words(verdict: SteadyVerdict, reason: str) -> str:
    """`not steady (drift)`, or the bare verdict where there is nothing to add."""
    return f"{verdict.value} ({reason})" if reason else verdict.value


def _excluded(found: _Found) -> tuple[Excluded, ...]:
    samples = found.samples
    excluded = [
        Excluded(phase=Phase.SETUP.word, seconds=sum(_span_s(p.setup_ns) for p in samples), iterations=0),
        Excluded(phase=Phase.COMPILE.word, seconds=sum(_span_s(p.compile_ns) for p in samples), iterations=0),
    ]
    for phase in (Phase.WARMUP, Phase.TRANSIENT):
        masks = [(f.phase == phase) & ~counted for f, counted in zip(found.judged, found.counted, strict=True)]
        excluded.append(
            Excluded(
                phase=phase.word,
                seconds=sum(float(seconds[m].sum()) for seconds, m in zip(found.seconds, masks, strict=True)),
                iterations=sum(int(m.sum()) for m in masks),
            )
        )
    return tuple(excluded)


def _span_s(span_ns: tuple[int, int] | None) -> float:
    return 0.0 if span_ns is None else (span_ns[1] - span_ns[0]) / 1e9


def _latencies(samples: Sequence[ProcessSamples], counted: Sequence[Mask]) -> dict[str, list[Float64]]:
    """Counted latencies in milliseconds by metric, one array a process (their order matters for autocorrelation)."""
    latencies: dict[str, list[Float64]] = {}
    for process, mine in zip(samples, counted, strict=True):
        for metric, values in latencies_ms(process, mine).items():
            latencies.setdefault(metric, []).append(values)
    return latencies


def latencies_ms(process: ProcessSamples, counted: Mask) -> dict[str, Float64]:
    """Latencies of the counted iterations of one process by metric; those of tokens where it marked any."""
    latencies = {"latency": process.iterations.seconds[counted] * 1e3}
    marks, rows = process.marks.at_ns, process.marks.iteration
    if len(marks):
        inside, follows = counted[rows], np.zeros(len(rows), dtype=bool)
        np.equal(rows[1:], rows[:-1], out=follows[1:])
        first = inside & ~follows
        latencies["time-to-first-token"] = (marks[first] - process.iterations.start_ns[rows[first]]) / 1e6
        follows &= inside
        between = (marks[1:] - marks[:-1])[follows[1:]] / 1e6
        if len(between):
            latencies["time-per-token"] = between
    return latencies


def _asked_percentiles(slos: Sequence[Slo]) -> dict[str, tuple[float, ...]]:
    """By metric of the objective: the percentiles that are always told, and those that its bounds are on."""
    asked: dict[str, tuple[float, ...]] = {}
    for slo in slos:
        before = asked.get(slo.metric.value, PERCENTILES)
        asked[slo.metric.value] = before if slo.percentile in before else (*before, slo.percentile)
    return asked


def _unmeasured(percentile: float) -> Percentile:
    return Percentile(percentile=percentile, low=None, estimate=None, high=None, resolved=False)


def bounded_percentile(
    parts: Sequence[Float64], percentile: float, confidence: float, rules: int = RULES
) -> Percentile:
    """A percentile over the samples of all processes, with bounds that cover what differs between these."""
    return bounded_percentiles([(parts, [percentile])], confidence, rules)[0][percentile]


def bounded_percentiles(
    several: Sequence[tuple[Sequence[Float64], Sequence[float]]], confidence: float, rules: int = RULES
) -> list[dict[float, Percentile]]:
    """The same of several sets of samples, each with the percentiles that are asked of it."""
    filled = [([part for part in parts if len(part)], percentiles) for parts, percentiles in several]
    known = [each for each in filled if each[0]]
    if rules < 3:  # as if all had been samples of one process
        intervals = [_as_of_one_process(*each, confidence) for each in known]
    else:
        intervals = percentiles_of_several(known, confidence)
    found = iter(intervals)
    return [_percentiles(percentiles, next(found) if parts else None) for parts, percentiles in filled]


def _as_of_one_process(parts: Sequence[Float64], percentiles: Sequence[float], confidence: float) -> list[Interval]:
    n_eff, pooled = sum(effective_count(part) for part in parts), np.concatenate(parts)
    return [percentile_interval(pooled, percentile, confidence, n_eff=n_eff) for percentile in percentiles]


def _percentiles(percentiles: Sequence[float], intervals: Sequence[Interval] | None) -> dict[float, Percentile]:
    if intervals is None:
        return {percentile: _unmeasured(percentile) for percentile in percentiles}
    return {
        percentile: Percentile(
            percentile=percentile,
            low=_or_none(bounds.low),
            estimate=_or_none(bounds.estimate),
            high=_or_none(bounds.high),
            resolved=bounds.known,
        )
        for percentile, bounds in zip(percentiles, intervals, strict=True)
    }


def judge_slo(slo: Slo, parts: Sequence[Float64], confidence: float, rules: int = RULES) -> SloOutcome:
    """Whether one bound of the objective held for latencies in milliseconds, one array a process."""
    return slo_outcome(slo, bounded_percentile(parts, slo.percentile, confidence, rules))


def slo_outcome(slo: Slo, measured: Percentile) -> SloOutcome:
    """Whether one bound of the objective held, by a percentile in milliseconds."""
    limit_ms = slo.at_most_s * 1e3
    met = measured.high is not None and measured.high <= limit_ms
    missed = measured.low is not None and measured.low > limit_ms
    return SloOutcome(
        metric=slo.metric.value,
        percentile=slo.percentile,
        at_most_ms=limit_ms,
        measured=measured,
        verdict="met" if met else "missed" if missed else "unresolved",
    )
