"""Requests of all runs against a server → throughput, latencies, goodput and whether the objective held."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.measure.load_phases import LoadPhases, find_load_phases, is_stationary, phase_of, work_stamps, work_units
from lynxbench.measure.precision_figures import (
    PERCENTILES,
    MeasuredPrecision,
    bounded_percentiles,
    figure_of,
    judge_slo,
    verdict_words,
)
from lynxbench.model.contract import Contract, Regime, Slo, SloMetric
from lynxbench.model.figures import Figure
from lynxbench.model.precision import Precision
from lynxbench.model.requests import Mask, Requests
from lynxbench.model.result import RULES, Excluded, SloOutcome, Steady
from lynxbench.model.samples import CountedProcess, Float64, Int64, Iterations, Marks, Phase, ProcessSamples
from lynxbench.model.serving import KserveEngine, OpenAiEngine
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
    contract: Contract,
    runs: Sequence[ServedRun],
    *,
    coalesced: bool,
    has_tokens: bool = True,
    counted: str = "request",
    rules: int = RULES,
) -> MeasuredLoad:
    """Find the phases of each run, count the steady ones, and put intervals over restarts. Needs one run.

    `coalesced` says that too many events were read together for single distances to be resolved; `counted` is what is
    counted of work that has no tokens.
    """
    protocol, slos = contract.protocol, contract.objective.slo
    stationary = is_stationary(contract.workload.arrival)
    leads = contract.regime is Regime.LATENCY
    judged = [
        _JudgedRun(
            run,
            run.requests,
            find_load_phases(run.requests, protocol, stationary_open_loop=stationary, latency_leads=leads, rules=rules),
        )
        for run in runs
    ]
    unit = unit_of([run.requests for run in runs]) if has_tokens else counted
    means = tuple(run.completed_per_s(unit) for run in judged)
    throughput = figure_of(log_mean_interval(np.array(means), protocol.confidence), f"{unit}s/s")
    steady = _steady(judged)
    engine = contract.engine
    # Of a streamed inference, the first of its answers stands where the first token does.
    several = isinstance(engine, KserveEngine) and engine.stream
    streamed = several or (isinstance(engine, OpenAiEngine) and engine.stream and has_tokens)
    latencies = _latencies(judged, streamed)
    resolved = [() if coalesced and metric == INTER_EVENT else parts for metric, parts in latencies.items()]
    bounded = bounded_percentiles([(parts, PERCENTILES) for parts in resolved], protocol.confidence, rules)
    percentiles = {metric: tuple(known.values()) for metric, known in zip(latencies, bounded, strict=True)}
    precision = contract.workload.precisions[0]
    measured = MeasuredPrecision(
        processes=tuple(run.samples(precision, unit) for run in judged),
        throughput=throughput,
        sustained=throughput if steady.verdict is SteadyVerdict.STEADY else None,
        peak=Figure(low=None, estimate=max(run.best_per_s(unit) for run in judged), high=None, unit=f"{unit}s/s"),
        latency_ms=percentiles,
        steady=steady,
        slo=tuple(_judge_slo(slo, judged, protocol.confidence, rules) for slo in slos),
        run_means=means,
    )

    def over_runs(values: Iterable[float]) -> Figure:
        return figure_of(log_mean_interval(np.array(list(values)), protocol.confidence), "requests/s")

    good = (run.per_s(within_bounds(run.requests, slos) & run.ended_inside) for run in judged)
    return MeasuredLoad(
        measured=measured,
        unit=unit,
        offered_per_s=over_runs(run.per_s(run.due_inside) for run in judged),
        requests_per_s=over_runs(run.per_s(run.requests.ok & run.ended_inside) for run in judged),
        goodput_per_s=over_runs(good) if slos else None,
        in_flight_mean=float(np.mean([run.mean_in_flight() for run in judged])),
    )


def request_latency_ms(requests: Requests, metric: SloMetric) -> Float64:
    """One latency a request in milliseconds, from the scheduled arrival; infinite where it failed, NaN where unknown.

    Time per token is a request's own mean after its first token: right in the sum however its events were read.
    """
    value = np.full(len(requests), np.inf)
    value[requests.cancelled] = np.nan  # nobody waited for the rest
    ok = requests.ok
    if metric is SloMetric.LATENCY:
        value[ok] = (requests.last_ns - requests.scheduled_ns)[ok] / 1e6
        return value
    spoke = ok & (requests.first_token_ns > 0)
    value[ok & ~spoke] = np.nan
    if metric in (SloMetric.TIME_TO_FIRST_TOKEN, SloMetric.TIME_TO_FIRST_ANSWER):
        is_token = metric is SloMetric.TIME_TO_FIRST_TOKEN
        first_ns = requests.first_token_ns if is_token else requests.first_answer_ns
        came = (ok | requests.cancelled) & (first_ns > 0)  # one that only thought never answered
        value[came] = (first_ns - requests.scheduled_ns)[came] / 1e6
        # Who left without a token waited at least so long: to leave them out would flatter a slow server.
        left = requests.cancelled & ~came & (requests.last_ns > 0)
        value[left] = (requests.last_ns - requests.scheduled_ns)[left] / 1e6
        return value
    value[spoke & ((requests.output_tokens < 2) | requests.unpaced)] = np.nan
    several = spoke & (requests.output_tokens >= 2) & ~requests.unpaced
    last_event_ns = requests.last_ns.copy()
    if len(requests.event_row):
        np.maximum.at(last_event_ns := np.zeros_like(requests.last_ns), requests.event_row, requests.event_ns)
    took = (last_event_ns - requests.first_token_ns)[several] / 1e6
    value[several] = took / requests.tokens_after_first()[several]
    return value


def within_bounds(requests: Requests, slo: Sequence[Slo]) -> Mask:
    """Which requests met every bound by themselves; a failed one met none, one without the figure is not held to it."""
    good = requests.ok.copy()  # a request that was given up is no good one, and none that failed
    for bound in slo:
        value = request_latency_ms(requests, bound.metric)
        good &= np.isnan(value) | (value <= bound.at_most_s * 1e3)
    return good


@dataclass(frozen=True, slots=True)
class _JudgedRun:
    """One run with the phases that were found in it."""

    run: ServedRun
    requests: Requests
    phases: LoadPhases

    @property
    def counted(self) -> Mask:
        """Requests due from the start of what counts on."""
        return np.asarray(self.requests.scheduled_ns >= self.phases.cut_ns)

    @property
    def due_inside(self) -> Mask:
        """Requests due while counting."""
        return self._inside(self.requests.scheduled_ns)

    @property
    def ended_inside(self) -> Mask:
        """Requests that ended while counting."""
        return self._inside(self.requests.last_ns)

    def _inside(self, at_ns: Int64) -> Mask:
        return np.asarray((at_ns > self.phases.cut_ns) & (at_ns <= self.phases.end_ns))

    def per_s(self, rows: Mask) -> float:
        """How many of these requests there were in a second of what counts."""
        return float(np.count_nonzero(rows)) / self.phases.counted_s if self.phases.counted_s > 0 else math.nan

    def completed_per_s(self, unit: str) -> float:
        """Work that came out while counting, over the wall time of it."""
        if self.phases.counted_s <= 0:
            return math.nan
        if unit == "request":
            return self.per_s(self.requests.ok & self.ended_inside)
        stamps, work = work_stamps(self.requests)
        return float(work[self._inside(stamps)].sum()) / self.phases.counted_s

    def best_per_s(self, unit: str) -> float:
        """The rate of the best window."""
        requests, phases = self.requests, self.phases
        if unit == "request" and requests.knows_tokens:
            edges = requests.start_ns + np.arange(len(phases.rate_per_s) + 1) * phases.window_s * 1e9
            return float(np.histogram(requests.last_ns[requests.ok], edges)[0].max(initial=0)) / phases.window_s
        return float(phases.rate_per_s.max(initial=0.0))

    def mean_in_flight(self) -> float:
        """Time average of the requests open while counting."""
        requests, phases = self.requests, self.phases
        if phases.counted_s <= 0:
            return math.nan
        ended = np.where(requests.last_ns > 0, requests.last_ns, requests.scheduled_ns)
        inside = np.minimum(ended, phases.end_ns) - np.maximum(requests.scheduled_ns, phases.cut_ns)
        return float(np.maximum(inside, 0).sum()) / 1e9 / phases.counted_s

    def samples(self, precision: Precision, unit: str) -> CountedProcess:
        """The answered requests as iterations of one process."""
        requests = self.requests
        rows = np.flatnonzero(requests.ok)
        units = work_units(requests)[rows] if unit != "request" else np.ones(len(rows))
        place = np.full(len(requests), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        return CountedProcess(
            samples=ProcessSamples(
                process=self.run.process,
                precision=precision.value,
                setup_ns=self.run.setup_ns,
                compile_ns=None,
                iterations=Iterations(requests.scheduled_ns[rows], requests.last_ns[rows], units.astype(np.int64)),
                marks=Marks(place[requests.event_row], requests.event_ns),
            ),
            phase=phase_of(requests, self.phases)[rows],
        )

    def excluded_rows(self, phase: Phase) -> int:
        """Requests that were due in a phase and do not count."""
        return int(np.count_nonzero((phase_of(self.requests, self.phases) == phase) & ~self.counted))


def _steady(runs: Sequence[_JudgedRun]) -> Steady:
    judged = [run.phases for run in runs]
    worst = min(judged, key=lambda phases: WORST_FIRST.index(phases.verdict))
    setup_s = sum((run.run.setup_ns[1] - run.run.setup_ns[0]) / 1e9 for run in runs)
    loaded_s = sum((run.phases.end_ns - run.requests.start_ns) / 1e9 for run in runs)
    drained_s = sum(max(0.0, (int(run.requests.last_ns.max(initial=0)) - run.phases.end_ns) / 1e9) for run in runs)
    warm_s = sum((run.phases.warm_ns - run.requests.start_ns) / 1e9 for run in runs)
    settling_s = sum((phases.cut_ns - phases.warm_ns) / 1e9 for phases in judged)
    excluded = [Excluded(phase=Phase.SETUP.word, seconds=setup_s, iterations=0)]
    for phase, span_s in ((Phase.WARMUP, warm_s), (Phase.TRANSIENT, settling_s)):
        rows = sum(run.excluded_rows(phase) for run in runs)
        excluded.append(Excluded(phase=phase.word, seconds=max(span_s, 0.0), iterations=rows))
    excluded.append(Excluded(phase="drain", seconds=drained_s, iterations=0))
    return Steady(
        verdict=worst.verdict,
        reason=worst.reason,
        drift=worst.judgement.drift,
        counted_s=sum(phases.counted_s for phases in judged),
        counted_iterations=sum(int(run.counted.sum()) for run in runs),
        executed_s=setup_s + loaded_s + drained_s,
        excluded=tuple(excluded),
        per_process=tuple(verdict_words(phases.verdict, phases.reason) for phases in judged),
    )


def _latencies(runs: Sequence[_JudgedRun], streamed: bool) -> dict[str, list[Float64]]:
    """Latencies of the good requests that were due while counting, one array a run, by arrival."""
    latencies: dict[str, list[Float64]] = {}
    thinks = any((run.requests.first_answer_ns > run.requests.first_token_ns).any() for run in runs)
    for metric in SloMetric if streamed else (SloMetric.LATENCY,):
        if metric is SloMetric.TIME_TO_FIRST_ANSWER and not thinks:
            continue  # it is the first token
        parts = [request_latency_ms(run.requests, metric)[run.counted] for run in runs]
        known = [part[np.isfinite(part)] for part in parts]
        if any(len(part) for part in known):
            latencies[metric.value] = known
    if not streamed:
        return latencies
    gaps = [run.requests.gap_s[run.counted[run.requests.gap_row]] * 1e3 for run in runs]
    if any(len(part) for part in gaps):
        latencies[INTER_EVENT] = gaps
    return latencies


def _judge_slo(slo: Slo, runs: Sequence[_JudgedRun], confidence: float, rules: int) -> SloOutcome:
    """A request that failed took for ever: it counts against the bound."""
    values = [request_latency_ms(run.requests, slo.metric)[run.counted] for run in runs]
    known = [value[~np.isnan(value)] for value in values]
    outcome = judge_slo(slo, [np.where(np.isinf(value), NEVER_MS, value) for value in known], confidence, rules)
    measured = outcome.measured
    bounds = {name: _answered(getattr(measured, name)) for name in ("low", "estimate", "high")}
    shown = measured.model_copy(update={**bounds, "resolved": measured.resolved and None not in bounds.values()})
    return outcome.model_copy(update={"measured": shown})


def _answered(value: float | None) -> float | None:
    return None if value is None or value >= NEVER_MS else value
