"""Requests of all runs against a server → throughput, latencies, goodput and whether the objective held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.measure.load_phases import LoadPhases, find_load_phases, is_stationary, phase_of, work_stamps, work_units
from lynxbench.measure.precision_figures import PERCENTILES, MeasuredPrecision, bounded_percentile, figure_of
from lynxbench.model.contract import Contract, Slo, SloMetric
from lynxbench.model.figures import Figure
from lynxbench.model.precision import Precision
from lynxbench.model.requests import Mask, Requests
from lynxbench.model.result import Excluded, Percentile, SloOutcome, Steady
from lynxbench.model.samples import CountedProcess, Float64, Iterations, Marks, Phase, ProcessSamples
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.verdicts import WORST_FIRST, SteadyVerdict
from lynxbench.stats.intervals import log_mean_interval

INTER_EVENT = "time-between-events"
"""Distances of single events that were seen alone; an event is not a token, so this is no time per token."""
NEVER_MS = 1e15
"""Stands for a request that was never answered where latencies are put in order."""


@dataclass(frozen=True, slots=True)
class ServedRun:
    """One fresh client's requests, and where they stand in the plan."""

    process: int
    setup_ns: tuple[int, int]
    requests: Requests


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """What the requests say."""

    measured: MeasuredPrecision
    unit: str
    offered_per_s: Figure
    requests_per_s: Figure
    goodput_per_s: Figure | None
    in_flight_mean: float


def unit_of(runs: Sequence[Requests]) -> str:
    """Tokens where every run's are known, else requests."""
    return "token" if runs and all(requests.knows_tokens for requests in runs) else "request"


def measure_load(
    contract: Contract, runs: Sequence[ServedRun], *, coalesced: bool, has_tokens: bool = True
) -> MeasuredLoad:
    """Find the phases of each run, count the steady ones, and put intervals over restarts. Needs one run.

    `coalesced` says that too many events were read together for single distances to be resolved.
    """
    protocol = contract.protocol
    arrival = contract.workload.arrival
    requests = [run.requests for run in runs]
    found = [find_load_phases(r, protocol, stationary_open_loop=is_stationary(arrival)) for r in requests]
    unit = unit_of(requests) if has_tokens else "request"
    means = tuple(_completed(r, f, unit) for r, f in zip(requests, found, strict=True))
    throughput = figure_of(log_mean_interval(np.array(means), protocol.confidence), f"{unit}s/s")
    steady = _steady(runs, found)
    counted = [_counted(r, f) for r, f in zip(requests, found, strict=True)]
    streamed = isinstance(contract.engine, OpenAiEngine) and contract.engine.stream and has_tokens
    latencies = _latencies(requests, counted, streamed)
    percentiles = {
        metric: tuple(bounded_percentile(parts, p, protocol.confidence) for p in PERCENTILES)
        for metric, parts in latencies.items()
    }
    if coalesced and INTER_EVENT in percentiles:
        percentiles[INTER_EVENT] = tuple(_unresolved(p) for p in PERCENTILES)
    outcomes = tuple(_judge_slo(slo, requests, counted, protocol.confidence) for slo in contract.objective.slo)
    precision = contract.workload.precisions[0]
    measured = MeasuredPrecision(
        processes=tuple(_samples(run, f, precision, unit) for run, f in zip(runs, found, strict=True)),
        throughput=throughput,
        sustained=throughput if steady.verdict is SteadyVerdict.STEADY else None,
        peak=Figure(low=None, estimate=max(_best(r, f, unit) for r, f in _pairs(requests, found)), high=None,
                    unit=f"{unit}s/s"),
        latency_ms=percentiles,
        steady=steady,
        slo=outcomes,
        run_means=means,
    )  # fmt: skip
    per_s = [_per_s(r, f, r.ok & _ended_inside(r, f)) for r, f in _pairs(requests, found)]
    due = [_per_s(r, f, _due_inside(r, f)) for r, f in _pairs(requests, found)]
    within = [within_bounds(r, contract.objective.slo) for r in requests]
    good = [_per_s(r, f, w & _ended_inside(r, f)) for (r, f), w in zip(_pairs(requests, found), within, strict=True)]
    return MeasuredLoad(
        measured=measured,
        unit=unit,
        offered_per_s=_over_runs(due, protocol.confidence),
        requests_per_s=_over_runs(per_s, protocol.confidence),
        goodput_per_s=_over_runs(good, protocol.confidence) if contract.objective.slo else None,
        in_flight_mean=float(np.mean([_mean_in_flight(r, f) for r, f in _pairs(requests, found)])),
    )


def request_latency_ms(requests: Requests, metric: SloMetric) -> Float64:
    """One latency a request in milliseconds, from the scheduled arrival; infinite where it failed, NaN where unknown.

    Time per token is a request's own mean after its first token: right in the sum however its events were read.
    """
    value = np.full(len(requests), np.inf)
    ok = requests.ok
    if metric is SloMetric.LATENCY:
        value[ok] = (requests.last_ns - requests.scheduled_ns)[ok] / 1e6
        return value
    spoke = ok & (requests.first_token_ns > 0)
    value[ok & ~spoke] = np.nan
    if metric is SloMetric.TIME_TO_FIRST_TOKEN:
        value[spoke] = (requests.first_token_ns - requests.scheduled_ns)[spoke] / 1e6
        return value
    value[spoke & (requests.output_tokens < 2)] = np.nan
    several = spoke & (requests.output_tokens >= 2)
    last_event_ns = requests.last_ns.copy()
    if len(requests.event_row):
        np.maximum.at(last_event_ns := np.zeros_like(requests.last_ns), requests.event_row, requests.event_ns)
    took = (last_event_ns - requests.first_token_ns)[several] / 1e6
    value[several] = took / (requests.output_tokens[several] - 1)
    return value


def within_bounds(requests: Requests, slo: Sequence[Slo]) -> Mask:
    """Which requests met every bound by themselves; a failed one met none, one without the figure is not held to it."""
    good = requests.ok.copy()
    for bound in slo:
        value = request_latency_ms(requests, bound.metric)
        good &= np.isnan(value) | (value <= bound.at_most_s * 1e3)
    return good


# --- one run ---------------------------------------------------------------------------------------------------------


def _pairs(requests: Sequence[Requests], found: Sequence[LoadPhases]) -> list[tuple[Requests, LoadPhases]]:
    return list(zip(requests, found, strict=True))


def _counted(requests: Requests, phases: LoadPhases) -> Mask:
    return np.asarray(requests.scheduled_ns >= phases.cut_ns)


def _due_inside(requests: Requests, phases: LoadPhases) -> Mask:
    return np.asarray((requests.scheduled_ns > phases.cut_ns) & (requests.scheduled_ns <= phases.end_ns))


def _ended_inside(requests: Requests, phases: LoadPhases) -> Mask:
    return np.asarray((requests.last_ns > phases.cut_ns) & (requests.last_ns <= phases.end_ns))


def _per_s(requests: Requests, phases: LoadPhases, rows: Mask) -> float:
    return float(np.count_nonzero(rows)) / phases.counted_s if phases.counted_s > 0 else math.nan


def _completed(requests: Requests, phases: LoadPhases, unit: str) -> float:
    """Work that came out while counting, over the wall time of it."""
    if phases.counted_s <= 0:
        return math.nan
    if unit == "request":
        return _per_s(requests, phases, requests.ok & _ended_inside(requests, phases))
    stamps, work = work_stamps(requests)
    inside = (stamps > phases.cut_ns) & (stamps <= phases.end_ns)
    return float(work[inside].sum()) / phases.counted_s


def _best(requests: Requests, phases: LoadPhases, unit: str) -> float:
    if unit == "request" and requests.knows_tokens:
        edges = requests.start_ns + np.arange(len(phases.rate_per_s) + 1) * phases.window_s * 1e9
        return float(np.histogram(requests.last_ns[requests.ok], edges)[0].max(initial=0)) / phases.window_s
    return float(phases.rate_per_s.max(initial=0.0))


def _mean_in_flight(requests: Requests, phases: LoadPhases) -> float:
    """Time average of the requests open while counting."""
    if phases.counted_s <= 0:
        return math.nan
    ended = np.where(requests.last_ns > 0, requests.last_ns, requests.scheduled_ns)
    inside = np.minimum(ended, phases.end_ns) - np.maximum(requests.scheduled_ns, phases.cut_ns)
    return float(np.maximum(inside, 0).sum()) / 1e9 / phases.counted_s


def _samples(run: ServedRun, phases: LoadPhases, precision: Precision, unit: str) -> CountedProcess:
    requests = run.requests
    rows = np.flatnonzero(requests.ok)
    units = work_units(requests)[rows] if unit == "token" else np.ones(len(rows))
    place = np.full(len(requests), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return CountedProcess(
        samples=ProcessSamples(
            process=run.process,
            precision=precision.value,
            setup_ns=run.setup_ns,
            compile_ns=None,
            iterations=Iterations(requests.scheduled_ns[rows], requests.last_ns[rows], units.astype(np.int64)),
            marks=Marks(place[requests.event_row], requests.event_ns),
        ),
        phase=phase_of(requests, phases)[rows],
    )


# --- all runs --------------------------------------------------------------------------------------------------------


def _over_runs(values: Sequence[float], confidence: float) -> Figure:
    return figure_of(log_mean_interval(np.array(values), confidence), "requests/s")


def _steady(runs: Sequence[ServedRun], found: Sequence[LoadPhases]) -> Steady:
    worst = min(range(len(found)), key=lambda i: WORST_FIRST.index(found[i].verdict))
    setup_s = sum((run.setup_ns[1] - run.setup_ns[0]) / 1e9 for run in runs)
    loaded_s = sum((f.end_ns - run.requests.start_ns) / 1e9 for run, f in zip(runs, found, strict=True))
    drained_s = sum(
        max(0.0, (int(run.requests.last_ns.max(initial=0)) - f.end_ns) / 1e9)
        for run, f in zip(runs, found, strict=True)
    )
    excluded = [Excluded(phase=Phase.SETUP.word, seconds=setup_s, iterations=0)]
    for phase, span_s in (
        (Phase.WARMUP, sum((f.warm_ns - r.requests.start_ns) / 1e9 for r, f in zip(runs, found, strict=True))),
        (Phase.TRANSIENT, sum((f.cut_ns - f.warm_ns) / 1e9 for f in found)),
    ):
        rows = sum(
            int(np.count_nonzero((phase_of(r.requests, f) == phase) & ~_counted(r.requests, f)))
            for r, f in zip(runs, found, strict=True)
        )
        excluded.append(Excluded(phase=phase.word, seconds=max(span_s, 0.0), iterations=rows))
    excluded.append(Excluded(phase="drain", seconds=drained_s, iterations=0))
    return Steady(
        verdict=found[worst].verdict,
        reason=found[worst].reason,
        drift=found[worst].judgement.drift,
        counted_s=sum(f.counted_s for f in found),
        counted_iterations=sum(int(_counted(r.requests, f).sum()) for r, f in zip(runs, found, strict=True)),
        executed_s=setup_s + loaded_s + drained_s,
        excluded=tuple(excluded),
        per_process=tuple(f"{f.verdict.value} ({f.reason})" if f.reason else f.verdict.value for f in found),
    )


def _latencies(requests: Sequence[Requests], counted: Sequence[Mask], streamed: bool) -> dict[str, list[Float64]]:
    """Latencies of the good requests that were due while counting, one array a run, by arrival."""
    latencies: dict[str, list[Float64]] = {}
    for metric in SloMetric if streamed else (SloMetric.LATENCY,):
        parts = [request_latency_ms(r, metric)[c] for r, c in zip(requests, counted, strict=True)]
        known = [part[np.isfinite(part)] for part in parts]
        if any(len(part) for part in known):
            latencies[metric.value] = known
    if not streamed:
        return latencies
    gaps = [r.gap_s[c[r.gap_row]] * 1e3 for r, c in zip(requests, counted, strict=True)]
    if any(len(part) for part in gaps):
        latencies[INTER_EVENT] = gaps
    return latencies


def _judge_slo(slo: Slo, requests: Sequence[Requests], counted: Sequence[Mask], confidence: float) -> SloOutcome:
    """A request that failed took for ever: it counts against the bound."""
    parts = []
    for r, c in zip(requests, counted, strict=True):
        value = request_latency_ms(r, slo.metric)[c]
        value = value[~np.isnan(value)]
        parts.append(np.where(np.isinf(value), NEVER_MS, value))
    measured = bounded_percentile(parts, slo.percentile, confidence)
    limit_ms = slo.at_most_s * 1e3
    if measured.high is not None and measured.high <= limit_ms:
        verdict = "met"
    elif measured.low is not None and measured.low > limit_ms:
        verdict = "missed"
    else:
        verdict = "unresolved"
    bounds = {name: _answered(getattr(measured, name)) for name in ("low", "estimate", "high")}
    shown = measured.model_copy(update={**bounds, "resolved": measured.resolved and None not in bounds.values()})
    fields: Mapping[str, object] = {
        "metric": slo.metric.value,
        "percentile": slo.percentile,
        "at_most_ms": limit_ms,
        "measured": shown,
        "verdict": verdict,
    }
    return SloOutcome.model_validate(fields)


def _answered(value: float | None) -> float | None:
    return None if value is None or value >= NEVER_MS else value


def _unresolved(percentile: float) -> Percentile:
    return Percentile(percentile=percentile, low=None, estimate=None, high=None, resolved=False)
