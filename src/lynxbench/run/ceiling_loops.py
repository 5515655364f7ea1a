"""Closed loops against a server, with as many in flight as it takes to know what it completes at most."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

from lynxbench.engines.served import Exchange
from lynxbench.errors import CannotRun
from lynxbench.load.completion_ceiling import (
    WARM_UP,
    CompletionCeiling,
    completion_rate,
    find_ceiling,
    ladder_s,
    window_needed_s,
)
from lynxbench.load.load_record import LoadRecord, RequestEnd, write_record
from lynxbench.load.plan import ClosedLoop
from lynxbench.load.processes import drive
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.asked_facts import without_texts
from lynxbench.run.client_job import CEILING_FILE, ClientJob, plan_of

BUDGET_SHARE = 0.02
SPAN_S = (2.0, 15.0)
"""The first loop takes this share of the budget, within these bounds, or longer where answers do."""
LONGEST_S = 20.0
"""No loop beside the first lasts longer."""
OVERRUN = 1.25
"""A loop whose answers turned out to need so many times its span is not believed."""
FIRST_LOOP = 500
"""Prompts of the loops are numbered from here, so that none asks what another, a probe or a run asks."""
MOST_IN_FLIGHT = 512
"""More are not asked for unless the contract does: each is an open connection."""

Loop = tuple[LoadRecord, float, float]
"""What was sent, completions a second, and how long the loop should have lasted by its answers."""


def measure_ceiling(
    job: ClientJob,
    exchange: Exchange,
    arrival: SaturatingArrival,
    folder: Path,
    say: Callable[[int], None],
    refuse: Callable[[LoadRecord], None],
    slots: int | None = None,
) -> CompletionCeiling:
    """The most that is completed, where the first loop, with the contract's own number in flight, is not refused.

    `slots`: how many requests the server works on at once, where that is known.
    """
    loops = _Loops(job, exchange)
    say(arrival.concurrency)
    record, own_rate_per_s, needed_s = _first_loop(loops, arrival, folder)
    refuse(record)
    until = monotonic() + ladder_s(arrival.budget_s)

    def complete(in_flight: int) -> float | None:
        if in_flight == arrival.concurrency:
            return own_rate_per_s
        # answers take in proportion where no more are completed; they end after the loop does
        span_s = max(needed_s * in_flight / arrival.concurrency, SPAN_S[0])
        if span_s > LONGEST_S or monotonic() + span_s + span_s / 3 > until:
            return None
        say(in_flight)
        _, rate_per_s, asked_s = loops.run(in_flight, span_s)
        return rate_per_s if rate_per_s > 0 and asked_s <= OVERRUN * span_s else None

    return find_ceiling(complete, arrival.concurrency, max(MOST_IN_FLIGHT, 2 * arrival.concurrency), slots)


class _Loops:
    """Loops of one contract, each with prompts of its own."""

    def __init__(self, job: ClientJob, exchange: Exchange) -> None:
        self.job, self.exchange = job, exchange
        self._run = 0

    def run(self, in_flight: int, span_s: float) -> Loop:
        plan = plan_of(self.job.contract, self.exchange, ClosedLoop(in_flight, ramp_up_s=0.1), span_s, self.job.clients)
        script = self.exchange.script_of(self.job.salt + FIRST_LOOP + self._run)
        self._run += 1
        record = without_texts(drive(replace(plan, script=script)), self.job.contract)
        good = record.kind == RequestEnd.OK
        first_ns, end_ns = (record.start_ns + int(part * span_s * 1e9) for part in (WARM_UP, 1.0))
        rate_per_s = completion_rate(record.sent_ns, record.last_ns, good, first_ns, end_ns)
        return record, rate_per_s, window_needed_s(record.sent_ns, record.last_ns, good)


def _first_loop(loops: _Loops, arrival: SaturatingArrival, folder: Path) -> Loop:
    """With the contract's number in flight, over a span that holds whole answers."""
    shortest, longest = SPAN_S
    span_s = min(max(BUDGET_SHARE * arrival.budget_s, shortest), longest)
    while True:
        record, rate_per_s, needed_s = loop = loops.run(arrival.concurrency, span_s)
        write_record(record, folder / CEILING_FILE)
        if rate_per_s > 0 and (needed_s <= span_s or span_s >= longest):
            return loop
        if span_s >= longest:
            why = "; ".join(list(record.notes)[:2]) or "no answer in time"
            raise CannotRun(f"no request was completed in {span_s:.0f} s at {arrival.concurrency} in flight ({why})")
        span_s = min(max(2 * span_s, needed_s), longest)  # a slow server: its answers take as long as the span
