"""Was the client the limit? A verdict from how the client fared; where it says void, no figure is the server's."""

from dataclasses import dataclass

import numpy as np

from lynxbench.load.load_record import LoadRecord, RequestEnd
from lynxbench.model.serving import InstrumentBounds

LARGEST_BUSY_SHARE_OF_RUN = 0.05
"""Windows that may be busier: start-up bursts, not the run."""
LARGEST_WAIT = 0.25
"""Of the time, ready to run without a core. A client that shares its core with a neighbour of equal weight waits about
as long as it runs; whatever arrives meanwhile is stamped when it gets the core back."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """How the client fared over a probe, and whether its figures may be read as the server's."""

    void: bool
    reasons: tuple[str, ...]
    """Why it is void."""
    cautions: tuple[str, ...]
    """What may not be read from a run that is otherwise good."""
    mean_lateness_s: float
    p99_lateness_s: float
    p99_lag_s: float
    largest_lag_s: float
    cpu_share: float
    wait_share: float
    busiest_share: float
    """The 95th percentile of the windows of the busiest process: running plus waiting to run."""
    coalesced_share: float
    retries: int


def judge(record: LoadRecord, bounds: InstrumentBounds | None = None) -> Instrument:
    """The verdict on the client; the worst process decides."""
    bounds = bounds or InstrumentBounds()
    nan = float("nan")
    late = record.lateness_ns() / 1e9
    mean_late, p99_late = (float(late.mean()), float(np.quantile(late, 0.99))) if len(late) else (nan, nan)
    lag_p99 = max((float(np.quantile(h.lag_ns, 0.99)) / 1e9 for h in record.health if len(h.lag_ns)), default=nan)
    lag_most = max((float(h.lag_ns.max()) / 1e9 for h in record.health if len(h.lag_ns)), default=nan)
    busy = [h.cpu_share + np.nan_to_num(h.wait_share) for h in record.health if len(h.cpu_share)]
    busiest = max((float(np.quantile(shares, 1 - LARGEST_BUSY_SHARE_OF_RUN)) for shares in busy), default=nan)
    waited = _mean([h.wait_share for h in record.health])
    coalesced = record.coalesced_share

    reasons = []
    if mean_late > bounds.mean_lateness_s:
        reasons.append(f"requests went out {_ms(mean_late)} late on average (bound {_ms(bounds.mean_lateness_s)})")
    if p99_late > bounds.p99_lateness_s:
        reasons.append(
            f"1 % of the requests went out more than {_ms(p99_late)} late (bound {_ms(bounds.p99_lateness_s)})"
        )
    if lag_p99 > bounds.p99_lag_s:
        reasons.append(f"the client's event loop came round {_ms(lag_p99)} late at p99 (bound {_ms(bounds.p99_lag_s)})")
    if busiest > bounds.busy:
        reasons.append(
            f"the client needed {busiest:.0%} of a core (bound {bounds.busy:.0%}): it was the limit, or near it"
        )
    if waited > LARGEST_WAIT and bounds.busy < 1:  # a contract that allows a whole core has waived this
        bound = f"bound {LARGEST_WAIT:.0%}"
        reasons.append(f"the client waited for a core {waited:.0%} of the time ({bound}): it was starved")
    unsent = int(np.count_nonzero(record.kind == RequestEnd.UNSENT))
    if unsent:
        reasons.append(f"{unsent} of {len(record)} requests were due and never sent")
    if record.lost_processes:
        reasons.append(f"client process {', '.join(map(str, record.lost_processes))} was lost")
    if not record.health and not record.lost_processes:
        reasons.append("the client left no record of its own health")

    cautions = []
    if coalesced > bounds.coalesced:
        cautions.append(
            f"{coalesced:.1%} of the output events were read together: inter-token percentiles are not resolved"
        )
    retries = int(record.retries.sum())
    if retries:
        cautions.append(f"{retries} requests met a connection that the server had closed, and were sent again")
    return Instrument(
        void=bool(reasons),
        reasons=tuple(reasons),
        cautions=tuple(cautions),
        mean_lateness_s=mean_late,
        p99_lateness_s=p99_late,
        p99_lag_s=lag_p99,
        largest_lag_s=lag_most,
        cpu_share=_mean([h.cpu_share for h in record.health]),
        wait_share=waited,
        busiest_share=busiest,
        coalesced_share=coalesced,
        retries=retries,
    )


def _mean(columns: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> float:
    values = np.concatenate(columns) if columns else np.zeros(0)
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float("nan")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
