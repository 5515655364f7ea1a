"""The search for saturation from a fresh client: a ceiling, open-loop probes, and what was at its limit."""

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import psutil

from lynxbench.attribute.read.launch_arguments import slots_of
from lynxbench.engines.served import Exchange
from lynxbench.errors import CannotRun
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.server import is_this_host
from lynxbench.executor.server_on_host import find_server_process, read_server_command
from lynxbench.load import send_schedule as schedule
from lynxbench.load.completion_ceiling import CompletionCeiling
from lynxbench.load.load_record import LoadRecord, RequestEnd, merge
from lynxbench.load.plan import OpenLoop, parse_target
from lynxbench.load.probe_stream import ProbeStream
from lynxbench.load.record_parts import unpaced_rows
from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_judge import LatencyBound
from lynxbench.load.saturation_result import Saturation
from lynxbench.load.search_rule import SearchRule
from lynxbench.model.contract import Contract, SloMetric
from lynxbench.model.load_figures import ClosedLoopPoint, CurvePoint, SaturationRecord
from lynxbench.model.plain_numbers import plain
from lynxbench.model.serving import OpenAiEngine, ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.asked_facts import CacheResets
from lynxbench.run.ceiling_loops import measure_ceiling
from lynxbench.run.client_job import SATURATION_FILE, ClientJob, plan_of, seed_of
from lynxbench.run.fresh_job import FINISHED_FILE, PROBING, say_stage
from lynxbench.run.search_so_far import forget_so_far, keep_so_far

FIRST_PROBE = 1000
"""Probes of a search are numbered from here, so that none asks what a run asks."""
MOST_UNSEEN = 0.1
"""Of the answers at the ceiling, those that may show no time per token; some are read together by a busy client."""
NEAR = 0.9
"""Probes from this share of the rate that failed on are near the limit."""
REFUSALS = (
    *(RequestEnd.HTTP_ERROR, RequestEnd.STREAM_ERROR, RequestEnd.EMPTY_ANSWER, RequestEnd.MALFORMED),
    *(RequestEnd.CONNECT_ERROR, RequestEnd.RESET),
)
"""Ends of requests that were turned away, and did not wait for too long."""
BUSY = 0.9
"""A resource this busy is at its limit (the client is held to the same)."""


def search(
    job: ClientJob, exchange: Exchange, folder: Path, resets: CacheResets | None = None
) -> tuple[LoadRecord, str]:
    """Find the pair and write it down; every probe's requests, and what was at its limit."""
    contract, arrival = job.contract, job.contract.workload.arrival
    assert isinstance(arrival, SaturatingArrival)
    engine = contract.engine
    assert isinstance(engine, ServedEngine)
    bounds = [LatencyBound(slo.at_most_s, 1 - slo.percentile / 100, slo.metric.value) for slo in contract.objective.slo]
    metrics = [slo.metric for slo in contract.objective.slo]
    only_latency = all(metric is SloMetric.LATENCY for metric in metrics)
    slowest_s = max(slo.at_most_s for slo in contract.objective.slo)
    # A request that is not answered within twice the bound is late, whatever becomes of it; a token's time is not known
    # before the answer ends, so there the client's own patience is the bound.
    patience_s = 2 * slowest_s + 1.0 if only_latency else engine.timeouts.total_s

    def say_loop(in_flight: int) -> None:
        say_stage(folder, f"{PROBING}completions at {in_flight} in flight")

    refuse = partial(_refuse_unseen_tokens, contract)
    target = parse_target(engine.url)
    port = target.port if is_this_host(target.host) else None  # who listens on that port here is another server
    slots = None
    if port is not None and isinstance(engine, OpenAiEngine):
        slots = slots_of(engine.dialect, read_server_command(port))
    ceiling = measure_ceiling(job, exchange, arrival, folder, say_loop, refuse, slots)
    watch = ServerWatch(port)
    streams: list[ProbeStream] = []
    rates: list[float] = []

    def records() -> list[LoadRecord]:
        return [stream.record for stream in streams if stream.record is not None]

    def start(rate_per_s: float) -> ProbeStream:
        (folder / FINISHED_FILE).write_text(str(sum(len(record) for record in records())))
        say_stage(folder, f"{PROBING}probe {len(streams) + 1} at {plain(rate_per_s, 3)} requests/s")
        span_s = 1.2 * arrival.budget_s + 5.0
        offsets = schedule.poisson(rate_per_s, span_s, seed_of(contract, FIRST_PROBE + len(streams)))
        plan = plan_of(contract, exchange, OpenLoop(offsets), span_s, job.clients)
        plan = replace(plan, script=exchange.script_of(job.salt + FIRST_PROBE + len(streams)))
        if resets is not None:
            resets.reset()
        streams.append(ProbeStream(plan, metrics, patience_s))
        rates.append(rate_per_s)
        watch.begin(rate_per_s)
        return streams[-1]

    rule = SearchRule(
        tolerance=arrival.tolerance, max_seconds=arrival.budget_s, min_seconds=min(1.0, arrival.budget_s / 100)
    )

    def so_far(reached: Saturation) -> None:
        keep_so_far(folder, saturation_record(reached, ceiling, "unknown: the search did not end", slots))

    saturation = find_saturation(start, ceiling.rate_per_s, bounds, rule, so_far, is_highest=ceiling.is_highest)
    failed_per_s = saturation.failed_per_s
    near = [s.record for s, rate in zip(streams, rates, strict=True) if _is_near(rate, failed_per_s)]
    refused = describe_refusals([record for record in near if record is not None], min(b.violations for b in bounds))
    saturated = refused if refused and failed_per_s is not None else watch.describe(failed_per_s)
    document = saturation_record(saturation, ceiling, saturated, slots)
    write_text(folder / SATURATION_FILE, document.model_dump_json(indent=1))
    forget_so_far(folder)
    return merge(records()), saturated


def saturation_record(
    saturation: Saturation, ceiling: CompletionCeiling, saturated: str, slots: int | None = None
) -> SaturationRecord:
    """What a search found, as a result keeps it."""
    return SaturationRecord(
        passed_per_s=saturation.passed_per_s,
        failed_per_s=saturation.failed_per_s,
        failed_outcome=None if saturation.failed_outcome is None else saturation.failed_outcome.value,
        confirmed=saturation.confirmed,
        goodput_per_s=saturation.goodput_per_s(),
        knee_per_s=None if (knee := saturation.knee()) is None else knee.rate_per_s,
        ceiling_per_s=ceiling.rate_per_s,
        is_ceiling_highest=ceiling.is_highest,
        loops=tuple(ClosedLoopPoint(in_flight=loop.in_flight, rate_per_s=loop.rate_per_s) for loop in ceiling.loops),
        slots=slots,
        probe_s=saturation.seconds,
        note=saturation.note,
        saturated=saturated,
        curve=tuple(
            CurvePoint(
                rate_per_s=p.rate_per_s,
                outcome=p.outcome.value,
                why=p.why,
                scout=p.scout,
                requests=p.requests,
                seconds=p.seconds,
                p50_s=_known(p.p50_s),
                p99_s=_known(p.p99_s),
                goodput_per_s=p.goodput_per_s,
            )
            for p in saturation.curve()
        ),
        undecided_per_s=saturation.undecided_per_s,
        watched_s=saturation.watched_s,
        rarest_s=saturation.rarest_s,
        at_least_per_s=saturation.at_least_per_s,
    )


def _refuse_unseen_tokens(contract: Contract, record: LoadRecord) -> None:
    """Answers that show no time per token would meet every bound on it; CannotRun where they are not few."""
    if all(slo.metric is not SloMetric.TIME_PER_TOKEN for slo in contract.objective.slo):
        return
    good = record.kind == RequestEnd.OK
    uncounted, unseen = good & (record.output_tokens < 0), unpaced_rows(record)
    share = float((uncounted | unseen)[good].mean())
    if share > MOST_UNSEEN:
        why = "the server sends no usage" if uncounted.sum() > unseen.sum() else "their tokens come all at once"
        raise CannotRun(
            f"objective.slo bounds time-per-token, which {share:.0%} of the answers do not show ({why}); bound latency "
            "or time-to-first-token instead"
        )


def describe_refusals(records: Sequence[LoadRecord], allowed: float) -> str:
    """In words, where more requests were refused than may be late; empty where waiting alone broke the bound."""
    counts: Counter[str] = Counter()
    for record in records:
        for kind in REFUSALS:
            of_kind = record.kind == kind
            for status in np.unique(record.http_status[of_kind]).tolist():
                name = f"{kind.word.replace('_', ' ')} {status}" if kind is RequestEnd.HTTP_ERROR else kind.word
                counts[name.replace("_", " ")] += int((record.http_status[of_kind] == status).sum())
    offered, refused = sum(map(len, records)), counts.total()
    if not offered or refused <= allowed * offered:
        return ""
    kinds = ", ".join(f"{kind}: {count}" for kind, count in counts.most_common(3))
    return f"what the server lets in: of {offered} requests at the highest rates {refused} were refused ({kinds})"


def _is_near(rate_per_s: float, failed_per_s: float | None) -> bool:
    """Whether a probe came near the limit, as far as one was found."""
    return failed_per_s is None or rate_per_s >= NEAR * failed_per_s


class ServerWatch:
    """How busy the server's processes are during probes, where they run on this host."""

    def __init__(self, port: int | None) -> None:
        server = find_server_process(port) if port is not None else None
        self._tree = server.tree if server is not None else ()
        self._open: tuple[float, int, float, dict[int, float]] | None = None
        self._probes: list[tuple[float, float, float]] = []

    def begin(self, rate_per_s: float) -> None:
        """A probe at that rate starts; the one before has ended."""
        self._close()
        if self._tree:
            cpu_s, threads = self._spent()
            self._open = (rate_per_s, perf_counter_ns(), cpu_s, threads)

    def describe(self, failed_per_s: float | None) -> str:
        """What was at its limit at the highest rates, in words."""
        self._close()
        if not self._tree:
            return "unknown: the server's processes cannot be seen from here"
        high = [probe for probe in self._probes if _is_near(probe[0], failed_per_s)]
        if not high:
            return "unknown: no probe came near the limit"
        cores = max(probe[1] for probe in high)
        thread = max(probe[2] for probe in high)
        here = len(os.sched_getaffinity(0))
        if cores >= BUSY * here:
            return f"the CPUs: the server used {cores:.1f} of {here} cores"
        if thread >= BUSY:
            return (
                f"one thread of the server, busy {min(thread, 1):.0%} of the time ({cores:.1f} of {here} cores in all)"
            )
        spent = f"not the CPUs ({cores:.1f} of {here} cores, its busiest thread {min(thread, 1):.0%})"
        if failed_per_s is None:
            return f"{spent}: no rate was shown to fail, so that nothing is known to be at its limit"
        return f"{spent}: requests wait inside the server, for slots, a batch or a device"

    def _close(self) -> None:
        if self._open is None:
            return
        rate, began_ns, cpu_s, threads = self._open
        span_s = (perf_counter_ns() - began_ns) / 1e9
        now_s, now = self._spent()
        if span_s > 0:
            busiest = max((now[t] - threads.get(t, 0.0) for t in now), default=0.0)
            self._probes.append((rate, (now_s - cpu_s) / span_s, busiest / span_s))
        self._open = None

    def _spent(self) -> tuple[float, dict[int, float]]:
        total, threads = 0.0, {}
        for pid in self._tree:
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                total += times.user + times.system
                threads.update({t.id: t.user_time + t.system_time for t in process.threads()})
            except psutil.Error:
                continue
        return total, threads


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
