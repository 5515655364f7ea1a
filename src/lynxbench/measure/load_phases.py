"""Which part of a load run counts: warm-up and transient are found in the completions, not assumed.

A closed loop is judged by what it completes in each window. An open loop completes what arrives, so its windows carry
the arrivals' own noise; the arrivals are known, and what they explain is taken out (a control variate with coefficient
one): left is what the server did. It begins empty: until one long answer has passed, what comes out says nothing. It
completes steadily while answers take longer and longer: latency by arrival is judged beside it, and the queue apart.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.measure.phases import warmup_length
from lynxbench.model.contract import Protocol
from lynxbench.model.requests import Requests
from lynxbench.model.result import RULES
from lynxbench.model.samples import Float64, Int64, Phase
from lynxbench.model.verdicts import WORST_FIRST, SteadyVerdict
from lynxbench.model.workload import (
    Arrival,
    BurstArrival,
    ConstantArrival,
    GammaArrival,
    PoissonArrival,
    SaturatingArrival,
)
from lynxbench.stats.drift import LATEST
from lynxbench.stats.steady import MIN_POINTS, SteadyJudgement, SteadyReason, judge_steady

FEWEST_STAMPS = 4
"""Windows with fewer completions on average would mostly show how completions fall into windows; they are widened."""
BACKLOG_SIGMA = 3.0
"""A queue has grown when what is open at the end exceeds the start by so many standard deviations of its own noise."""
PROFILE_POINTS = 8
"""A streamed answer comes out over this many equal steps, where its arrival alone would explain it."""
GROWING = "the queue grows"
FILLING = "an answer takes longer than half of the run"
FILL_PERCENTILE = 99
"""Of latency: after so long, an open loop that began empty holds what it will hold."""
LATENCY_MARGIN = 0.3
"""Change of latency over what counts that must be excluded; less is `not steady` where the requests can show it."""
LATENCY_PERCENTILE = 90
"""The upper tail of a window of requests; the bulk is their mean with values beyond this clipped to it."""
WINDOW_ARRIVALS, FEWEST_ARRIVALS = 20, 5
"""Requests in a window of latencies, and where they are few."""
SHOWN = 1.6
"""Half widths of a 90 % interval that make one of about 99 %: four changes are looked for in each run."""
IMPLIED_SHARE = 1 / 3
"""Of the delay that a grown backlog means, by which later answers must be slower."""


@dataclass(frozen=True, slots=True)
class LoadPhases:
    """What counts of one run, and why."""

    warm_ns: int
    """End of the warm-up."""
    cut_ns: int
    """Start of what counts: the steady part, or what follows the warm-up where there is none."""
    end_ns: int
    judgement: SteadyJudgement
    verdict: SteadyVerdict
    reason: str
    window_s: float
    rate_per_s: Float64

    @property
    def steady(self) -> bool:
        """Whether the run reached a steady state."""
        return self.verdict is SteadyVerdict.STEADY

    @property
    def counted_s(self) -> float:
        """Length of what counts."""
        return max(0.0, (self.end_ns - self.cut_ns) / 1e9)


def is_stationary(arrival: Arrival) -> bool:
    """Whether an open loop's mean rate is constant, so that its own noise may be taken out."""
    return isinstance(arrival, ConstantArrival | PoissonArrival | GammaArrival | BurstArrival | SaturatingArrival)


def work_stamps(requests: Requests) -> tuple[Int64, Float64]:
    """Moments at which work came out, and how much: tokens over the events that carried them, else whole answers."""
    rows = np.flatnonzero(requests.ok)
    units = work_units(requests)
    if not requests.knows_tokens or not len(requests.event_row):
        return requests.last_ns[rows], units[rows]
    events = np.bincount(requests.event_row, minlength=len(requests))
    share = units[requests.event_row] / np.maximum(events[requests.event_row], 1)
    silent = rows[events[rows] == 0]
    return np.concatenate([requests.event_ns, requests.last_ns[silent]]), np.concatenate([share, units[silent]])


def work_units(requests: Requests) -> Float64:
    """Work of each good request: its output tokens where all are known, else 1; nothing for the others."""
    units = requests.output_tokens.astype(np.float64) if requests.knows_tokens else np.ones(len(requests))
    return np.where(requests.ok, units, 0.0)


def find_load_phases(
    requests: Requests,
    protocol: Protocol,
    *,
    stationary_open_loop: bool,
    latency_leads: bool = False,
    rules: int = RULES,
) -> LoadPhases:
    """Mark warm-up, transient and steady time by the contract's rule.

    Where latency leads (the regime), the drift that is stated is that of latency.
    """
    rule = protocol.steady
    start, end = requests.start_ns, requests.load_end_ns
    stamps, work = work_stamps(requests)
    inside = (stamps > start) & (stamps <= end)
    span_s = max((end - start) / 1e9, 1e-9)
    finished = int(np.count_nonzero(requests.ok & (requests.last_ns <= end)))
    wide = math.ceil(FEWEST_STAMPS * span_s / max(finished, 1) / rule.window_s - 1e-9)
    window_s = rule.window_s * max(wide, 1)
    count = int(span_s / window_s)
    if count < 1:
        none = np.zeros(0)
        judgement = judge_steady(none, drift_bound=rule.drift)
        return LoadPhases(start, start, end, judgement, judgement.verdict, judgement.reason.value, window_s, none)
    edges = start + (np.arange(count + 1) * window_s * 1e9).astype(np.int64)
    rate = np.histogram(stamps[inside], edges, weights=work[inside])[0] / window_s
    judged = _without_arrival_noise(requests, edges, rate, window_s, rules) if stationary_open_loop else rate
    horizon = int(count * max(protocol.limit_s / span_s, 1.0))
    begins_empty = stationary_open_loop and rules >= 3
    fill_s = _fill_up_s(requests) if begins_empty else 0.0
    full = int(min(fill_s, LATEST * span_s) / window_s)
    full_ns = start + round(min(fill_s, LATEST * span_s) * 1e9)
    judgement = judge_steady(judged[full:], drift_bound=rule.drift, horizon=horizon, judge_outliers=rules >= 3)
    verdict, reason, stated = judgement.verdict, judgement.reason.value, judgement
    settled_ns = max(full_ns, int(edges[full + judgement.truncate]))
    warm_ns = max(full_ns, int(edges[warmup_length(judged)]))
    if begins_empty:
        # What is due within a fill-up of the end may not have been answered yet.
        bulk, tail = _judge_latency(requests, full_ns, end - round(fill_s * 1e9), window_s, rule.drift)
        for latency in (bulk, tail):
            settled_ns = max(settled_ns, latency.settled_ns)
            if WORST_FIRST.index(latency.verdict) < WORST_FIRST.index(verdict):
                verdict, reason = latency.verdict, f"latency {latency.judgement.reason.value or SteadyReason.DRIFT}"
        if latency_leads:
            stated = bulk.judgement
        if fill_s > LATEST * span_s and verdict is SteadyVerdict.STEADY:
            verdict, reason = SteadyVerdict.INCONCLUSIVE, FILLING
    cut_ns = settled_ns if verdict is SteadyVerdict.STEADY else warm_ns
    if stationary_open_loop and _backlog_grows(requests, cut_ns, end, rule.drift, fill_s if begins_empty else None):
        verdict, reason = SteadyVerdict.NOT_STEADY, GROWING
    return LoadPhases(min(warm_ns, cut_ns), cut_ns, end, stated, verdict, reason, window_s, rate)


def phase_of(requests: Requests, phases: LoadPhases) -> npt.NDArray[np.int8]:
    """The phase each request was due in."""
    phase = np.full(len(requests), Phase.TRANSIENT, dtype=np.int8)
    phase[requests.scheduled_ns < phases.warm_ns] = Phase.WARMUP
    if phases.steady:
        phase[requests.scheduled_ns >= phases.cut_ns] = Phase.STEADY
    return phase


def in_flight(requests: Requests, at_ns: int, due_until_ns: int | None = None) -> int:
    """Requests due, by then or by an earlier moment, and not yet ended at a moment."""
    ended = np.where(requests.last_ns > 0, requests.last_ns, requests.scheduled_ns)
    ended = np.where(requests.ok, ended, np.maximum(ended, requests.scheduled_ns))
    due_until_ns = at_ns if due_until_ns is None else due_until_ns
    return int(np.count_nonzero((requests.scheduled_ns <= due_until_ns) & (ended > at_ns)))


def _without_arrival_noise(requests: Requests, edges: Int64, rate: Float64, window_s: float, rules: int) -> Float64:
    """Completions less what the arrivals explain at the run's usual delays; plus the mean."""
    rows = np.flatnonzero(requests.ok)
    if not len(rows):
        return rate
    units, due = work_units(requests)[rows], requests.scheduled_ns[rows]
    # A whole answer is expected in equal parts at the run's usual delays; before edition 3, at their median.
    shares = (np.arange(PROFILE_POINTS) + 0.5) / PROFILE_POINTS if rules >= 3 else np.full(PROFILE_POINTS, 0.5)
    delay = np.quantile(requests.last_ns[rows] - due, shares)
    stretch = np.zeros(len(rows))
    if len(requests.event_row) and requests.knows_tokens:
        first, last = requests.first_token_ns[rows] - due, requests.last_ns[rows] - due
        delay = np.full(PROFILE_POINTS, np.median(first))
        stretch = (units - 1) * float(np.median((last - first) / np.maximum(units - 1, 1)))
    parts = np.linspace(0, 1, PROFILE_POINTS)
    moments = due[:, None] + delay[None, :] + stretch[:, None] * parts[None, :]
    weights = np.repeat(units / PROFILE_POINTS, PROFILE_POINTS)
    expected = np.histogram(moments.ravel(), edges, weights=weights)[0] / window_s
    return np.asarray(rate - expected + float(expected.mean()), dtype=np.float64)


def _fill_up_s(requests: Requests) -> float:
    """How long an open loop fills: a long answer of its first half, since a growing queue makes later ones longer."""
    early = requests.ok & (requests.scheduled_ns <= (requests.start_ns + requests.load_end_ns) // 2)
    took = (requests.last_ns - requests.scheduled_ns)[early]
    return float(np.percentile(took, FILL_PERCENTILE)) / 1e9 if len(took) else 0.0


@dataclass(frozen=True, slots=True)
class _LatencyJudgement:
    """What windows of one figure of latency, by arrival, say."""

    judgement: SteadyJudgement
    verdict: SteadyVerdict
    settled_ns: int
    """When the first request was due that belongs to the settled part."""


def _judge_latency(
    requests: Requests, begin_ns: int, end_ns: int, window_s: float, bound: float
) -> tuple[_LatencyJudgement, _LatencyJudgement]:
    """The bulk and the upper tail of latency over windows of equally many requests, by arrival."""
    rows = np.flatnonzero(requests.ok & (requests.scheduled_ns >= begin_ns) & (requests.scheduled_ns <= end_ns))
    count = min(int((end_ns - begin_ns) / 1e9 / window_s), len(rows) // WINDOW_ARRIVALS)
    count = max(count, min(MIN_POINTS, len(rows) // FEWEST_ARRIVALS))
    rows = rows[len(rows) % max(count, 1) :]
    due_ns = requests.scheduled_ns[rows]
    took = (requests.last_ns[rows] - due_ns) / 1e9
    windows = took.reshape(count, -1) if count else np.zeros((0, 1))
    high = np.percentile(took, LATENCY_PERCENTILE) if len(took) else 0.0
    figures = np.minimum(windows, high).mean(axis=1), np.percentile(windows, LATENCY_PERCENTILE, axis=1)

    def judged(figure: Float64) -> _LatencyJudgement:
        judgement = judge_steady(figure, drift_bound=max(bound, LATENCY_MARGIN))
        changes = (judgement.drift, judgement.tail_shift)
        moved = any(abs(change.estimate) - SHOWN * change.half_width > bound for change in changes)
        first = judgement.truncate * windows.shape[1]
        settled_ns = int(due_ns[first]) if first else begin_ns
        return _LatencyJudgement(judgement, SteadyVerdict.NOT_STEADY if moved else judgement.verdict, settled_ns)

    return judged(figures[0]), judged(figures[1])


def _backlog_grows(requests: Requests, cut_ns: int, end_ns: int, bound: float, fill_s: float | None) -> bool:
    """Whether more was open at the end than at the start of what counts, beyond noise and beyond the drift bound.

    Since edition 3 of the rules (a fill-up is known) answers must also come later and later, or stay out for longer
    than any usual one: a server that is merely slow to answer fills up without falling behind.
    """
    before, after = in_flight(requests, cut_ns), in_flight(requests, end_ns - 1)
    arrived = max(1, int(np.count_nonzero((requests.scheduled_ns > cut_ns) & (requests.scheduled_ns <= end_ns))))
    grown = after - before
    if grown <= bound * arrived or grown <= BACKLOG_SIGMA * math.sqrt(before + after + 1):
        return False
    if fill_s is None:
        return True
    long_open = in_flight(requests, end_ns - 1, due_until_ns=end_ns - round(fill_s * 1e9))
    rows = np.flatnonzero(requests.ok)
    if not len(rows):
        return True
    third = max(1, len(rows) // 3)
    due, took = requests.scheduled_ns[rows], (requests.last_ns - requests.scheduled_ns)[rows]
    apart, slower = (float(np.median(values[-third:]) - np.median(values[:third])) for values in (due, took))
    return long_open > bound * arrived or slower > IMPLIED_SHARE * grown / arrived * apart
