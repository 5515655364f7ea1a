"""Traces of many ranks, analysed where there is room: the same result as on one machine, one trace at a time a worker.

A folder is read where it lies, so it must be one that the workers see (a shared file system, or this machine). An
object store's prefix is listed here; every worker fetches its own trace, and nothing of it is left behind.
"""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from time import process_time
from typing import Any

from lynxbench.attribute.attributing import TraceAnalysis, TraceSettings
from lynxbench.attribute.rank_traces import SUFFIXES, RankReport, find_traces, gather_ranks, try_rank
from lynxbench.errors import BadInput, CannotRun
from lynxbench.fleet.cluster import Fleet, one_line
from lynxbench.ledger.blobs import open_store

CALLS_A_WORKER = 500
"""A worker process is replaced after so many traces: what an allocator keeps for itself does not add up. Fewer would
spend more on imports than is won: a trace takes a tenth of a second, a fresh worker a few."""
MOST_ATTEMPTS = 3
AHEAD = 2
"""Traces handed out a worker: one at work, one waiting. The others wait here, not in the cluster's memory."""


@dataclass(frozen=True, slots=True)
class RankDone:
    """One trace's analysis, and the memory of the worker that made it."""

    analysis: TraceAnalysis | str
    peak_rss_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class FleetTrace:
    """All ranks compared, and what it took."""

    report: RankReport
    workers: int
    peak_rss_bytes: int
    """Of the largest worker process."""
    cpu_s: float
    """What the analyses took of the workers' cores, start-up not counted."""


def list_traces(named: Sequence[str]) -> list[str]:
    """Traces by path or address: files, folders, and prefixes of an object store; of several ranks, or no fleet."""
    traces: list[str] = []
    for name in named:
        traces += _list_prefix(name) if "://" in name else [str(p.resolve()) for p in find_traces([Path(name)])]
    if len(traces) < 2:
        raise CannotRun("one trace needs no fleet: lynxbench trace FILE")
    return traces


def analyse_fleet(
    fleet: Fleet,
    traces: Sequence[str],
    settings: TraceSettings,
    workers: int | None = None,
) -> FleetTrace:
    """Analyse every trace on the cluster's CPUs; a worker that is lost is replaced and its trace tried again."""
    ray = fleet.ray
    room = max(1, int(sum(node.cpus for node in fleet.nodes())))
    workers = min(workers or room, room, len(traces))
    remote = ray.remote(num_cpus=1, max_retries=MOST_ATTEMPTS - 1, max_calls=CALLS_A_WORKER)(analyse_here)
    shared = ray.put(settings)
    results: dict[int, RankDone] = {}
    open_: dict[Any, int] = {}
    waiting = list(enumerate(traces))[::-1]
    while waiting or open_:
        while waiting and len(open_) < workers * (AHEAD if workers == room else 1):
            place, trace = waiting.pop()
            open_[remote.remote(trace, shared)] = place
        ready, _ = ray.wait(list(open_), num_returns=1)
        for reference in ready:
            place = open_.pop(reference)
            try:
                results[place] = ray.get(reference)
            except ray.exceptions.RayError as error:
                why = f"{traces[place]}: its worker was lost {MOST_ATTEMPTS} times: {one_line(error)}"
                results[place] = RankDone(why, 0, 0.0)
    ordered = [results[place] for place in range(len(traces))]
    sources = [Path(trace.partition("://")[2] or trace) for trace in traces]
    report = gather_ranks(sources, [rank.analysis for rank in ordered])
    peak = max(rank.peak_rss_bytes for rank in ordered)
    return FleetTrace(report, workers, peak, sum(rank.cpu_s for rank in ordered))


def analyse_here(trace: str, settings: TraceSettings) -> RankDone:
    """One trace in this process."""
    began_s = process_time()
    if "://" not in trace:
        analysis = try_rank(Path(trace), settings)
    else:
        with tempfile.TemporaryDirectory(prefix="lynxbench-trace-") as folder:
            analysis = _fetched(trace, Path(folder), settings)
    return RankDone(analysis, peak_rss_bytes(), process_time() - began_s)


def peak_rss_bytes() -> int:
    """The most memory this process has held; ru_maxrss would carry over what its parent held before it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _fetched(trace: str, folder: Path, settings: TraceSettings) -> TraceAnalysis | str:
    system, path = open_store(trace)
    local = folder / PurePosixPath(path).name
    try:
        system.get_file(path, str(local))
    except Exception as error:  # every store has errors of its own
        return f"{trace}: {one_line(f'{type(error).__name__}: {error}')}"
    return try_rank(local, settings)


def _list_prefix(url: str) -> list[str]:
    system, path = open_store(url)
    scheme = url.partition("://")[0]
    try:
        listed: Iterable[str] = system.find(path)
    except Exception as error:
        raise BadInput(f"{url}: {one_line(f'{type(error).__name__}: {error}')}") from None
    traces = [system.unstrip_protocol(name) for name in sorted(listed) if str(name).lower().endswith(SUFFIXES)]
    if not traces:
        raise BadInput(f"{url}: holds no traces ({', '.join(SUFFIXES)}); give the prefix they were exported to")
    return [trace if "://" in trace else f"{scheme}://{trace}" for trace in traces]
