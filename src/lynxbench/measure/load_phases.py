"""Which part of a load run counts: warm-up and transient are found in the completions, not assumed.

A closed loop is judged by what it completes in each window. An open loop completes what arrives, so its windows carry
the arrivals' own noise; the arrivals are known, and what they explain is taken out (a control variate with coefficient
one): left is what the server did. A server that falls behind completes steadily while its queue grows: tested apart.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.measure.phases import warmup_length
from lynxbench.model.contract import Protocol
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Float64, Int64, Phase
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.model.workload import (
    Arrival,
    BurstArrival,
    ConstantArrival,
    GammaArrival,
    PoissonArrival,
    SaturatingArrival,
)
from lynxbench.stats.steady import SteadyJudgement, judge_steady

FEWEST_STAMPS = 4
"""Windows with fewer completions on average would mostly show how completions fall into windows; they are widened."""
BACKLOG_SIGMA = 3.0
"""A queue has grown when what is open at the end exceeds the start by so many standard deviations of its own noise."""
PROFILE_POINTS = 8
"""A streamed answer comes out over this many equal steps, where its arrival alone would explain it."""
GROWING = "the queue grows"


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


def find_load_phases(requests: Requests, protocol: Protocol, *, stationary_open_loop: bool) -> LoadPhases:
    """Mark warm-up, transient and steady time by the contract's rule."""
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
    judged = _without_arrival_noise(requests, edges, rate, window_s) if stationary_open_loop else rate
    horizon = int(count * max(protocol.limit_s / span_s, 1.0))
    judgement = judge_steady(judged, drift_bound=rule.drift, horizon=horizon)
    warm_ns = int(edges[warmup_length(judged)])
    cut_ns = int(edges[judgement.truncate]) if judgement.verdict is SteadyVerdict.STEADY else warm_ns
    verdict, reason = judgement.verdict, judgement.reason.value
    if stationary_open_loop and _backlog_grows(requests, cut_ns, end, rule.drift):
        verdict, reason = SteadyVerdict.NOT_STEADY, GROWING
    return LoadPhases(min(warm_ns, cut_ns), cut_ns, end, judgement, verdict, reason, window_s, rate)


def phase_of(requests: Requests, phases: LoadPhases) -> npt.NDArray[np.int8]:
    """The phase each request was due in."""
    phase = np.full(len(requests), Phase.TRANSIENT, dtype=np.int8)
    phase[requests.scheduled_ns < phases.warm_ns] = Phase.WARMUP
    if phases.steady:
        phase[requests.scheduled_ns >= phases.cut_ns] = Phase.STEADY
    return phase


def in_flight(requests: Requests, at_ns: int) -> int:
    """Requests due and not yet ended at a moment."""
    ended = np.where(requests.last_ns > 0, requests.last_ns, requests.scheduled_ns)
    ended = np.where(requests.ok, ended, np.maximum(ended, requests.scheduled_ns))
    return int(np.count_nonzero((requests.scheduled_ns <= at_ns) & (ended > at_ns)))


def _without_arrival_noise(requests: Requests, edges: Int64, rate: Float64, window_s: float) -> Float64:
    """Completions less what the arrivals explain at the run's usual delays; plus the mean."""
    rows = np.flatnonzero(requests.ok)
    if not len(rows):
        return rate
    units, due = work_units(requests)[rows], requests.scheduled_ns[rows]
    delay = float(np.median(requests.last_ns[rows] - due))
    stretch = np.zeros(len(rows))
    if len(requests.event_row) and requests.knows_tokens:
        first, last = requests.first_token_ns[rows] - due, requests.last_ns[rows] - due
        delay = float(np.median(first))
        stretch = (units - 1) * float(np.median((last - first) / np.maximum(units - 1, 1)))
    parts = np.linspace(0, 1, PROFILE_POINTS)
    moments = due[:, None] + delay + stretch[:, None] * parts[None, :]
    weights = np.repeat(units / PROFILE_POINTS, PROFILE_POINTS)
    expected = np.histogram(moments.ravel(), edges, weights=weights)[0] / window_s
    return np.asarray(rate - expected + float(expected.mean()), dtype=np.float64)


def _backlog_grows(requests: Requests, cut_ns: int, end_ns: int, bound: float) -> bool:
    """Whether more was open at the end than at the start of what counts, beyond noise and beyond the drift bound."""
    before, after = in_flight(requests, cut_ns), in_flight(requests, end_ns - 1)
    arrived = int(np.count_nonzero((requests.scheduled_ns > cut_ns) & (requests.scheduled_ns <= end_ns)))
    grown = after - before
    return grown > bound * max(arrived, 1) and grown > BACKLOG_SIGMA * math.sqrt(before + after + 1)
