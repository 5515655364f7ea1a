"""A contract's arrivals as the load of a probe."""

from __future__ import annotations

from lynxbench.errors import CannotRun
from lynxbench.load import send_schedule as schedule
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.model.samples import Float64
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

RAMP_UP_S = 1.0
"""A closed loop's first requests are spread over this: all at once, servers answer in lockstep for the whole run."""
RAMP_UP_SHARE = 0.05
"""… but over no more than this share of the run."""


def load_of(
    arrival: Arrival, *, duration_s: float, shortest_s: float, seed: int, trace_s: Float64 | None = None
) -> ClosedLoop | OpenLoop:
    """When requests are due, for at most that long; `trace_s` holds the arrivals of a replayed trace."""
    match arrival:
        case ClosedArrival():
            spread_s = 0.0 if arrival.concurrency == 1 else min(RAMP_UP_S, RAMP_UP_SHARE * shortest_s)
            return ClosedLoop(arrival.concurrency, ramp_up_s=spread_s)
        case ConstantArrival():
            return OpenLoop(schedule.constant(arrival.rate_per_s, duration_s))
        case PoissonArrival():
            return OpenLoop(schedule.poisson(arrival.rate_per_s, duration_s, seed))
        case GammaArrival():
            return OpenLoop(schedule.gamma(arrival.rate_per_s, arrival.variation, duration_s, seed))
        case BurstArrival():
            return OpenLoop(schedule.bursts(arrival.rate_per_s, arrival.size, arrival.spread_s, duration_s, seed))
        case RampArrival():
            # A ramp is the same ramp however long the run may be extended, so it takes the shortest.
            return OpenLoop(schedule.ramp(arrival.from_per_s, arrival.to_per_s, shortest_s, seed))
        case ReplayArrival():
            if trace_s is None:
                raise CannotRun(f"{arrival.path}: the trace to replay was not read")
            return OpenLoop(schedule.replay(trace_s, arrival.speed))
        case _:
            raise CannotRun(f"arrival {arrival.process} has no schedule of its own; it is searched for")
