"""Endurance runs that nobody waited for: iterations with made stamps, rolled up by the same journal as real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lynxbench.contract.loader import parse_contract
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.rolling import RollingJournal, SliceReadings, read_slices
from lynxbench.measure.rolled import RolledProcess, RolledStretch
from lynxbench.model.contract import Contract
from lynxbench.model.job import ExecutedAs, JobReport, JobStatus
from lynxbench.model.precision import Native
from lynxbench.model.samples import Iterations
from lynxbench.run.attempts import TO_ITS_END
from lynxbench.run.fresh_job import JOB_FILE, REPORT_FILE, job_of
from lynxbench.run.run_outcome import TELEMETRY_FILE

SECOND = 10**9
NOON_NS = 1_790_000_000 * SECOND
STEP_S = 0.1
"""Ten iterations a second: an hour of them is quick to make."""

ENDURANCE = """
lynxbench: 1
name: endures
question: Does it hold?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "lynxbench.workload.examples:one_millisecond"}
  precisions: [fp32]
engine: {name: callable, threads: 1}
protocol: {restarts: 1, duration: %s}
"""


def endurance_contract(duration: str = "10 min") -> Contract:
    """A contract that asks for that duration."""
    return parse_contract(ENDURANCE % duration)


def made_iterations(
    seconds: float,
    seed: int = 0,
    speed: Callable[[np.ndarray], np.ndarray] = np.ones_like,
    begun_ns: int = SECOND,
) -> Iterations:
    """So many seconds of iterations with a little noise; `speed` is their rate at a moment, relative to the usual."""
    rng = np.random.default_rng(seed)
    usual = STEP_S * np.exp(rng.normal(0, 0.02, int(seconds / STEP_S)))
    lasted = usual / speed(np.cumsum(usual))
    ends = begun_ns + np.cumsum(((lasted + 1e-6) * 1e9).astype(np.int64))
    kept = ends <= begun_ns + seconds * 1e9
    starts = ends - (lasted * 1e9).astype(np.int64)
    return Iterations(starts[kept], ends[kept], np.ones(int(kept.sum()), dtype=np.int64))


def roll_up(
    folder: Path,
    iterations: Iterations,
    slice_s: float = 5.0,
    unix_offset_ns: int = NOON_NS,
    resident: Callable[[int], int] = lambda number: 100 << 20,
    killed: bool = False,
) -> None:
    """Write the slices of a process into its folder; a killed one never closes its last."""
    number = 0

    def read() -> SliceReadings:
        nonlocal number
        number += 1
        return SliceReadings(resident(number), 50 << 20, None)

    journal = RollingJournal(folder, slice_s, unix_offset_ns, read)
    for row in zip(iterations.start_ns.tolist(), iterations.end_ns.tolist(), iterations.units.tolist(), strict=True):
        journal.append(*row)
    if not killed:
        journal.close()


def rolled(*folders: Path, ends: Sequence[str] = ()) -> RolledProcess:
    """A process of which these folders hold the stretches."""
    words = [*ends, *[TO_ITS_END] * (len(folders) - len(ends))]
    stretches = tuple(RolledStretch(read_slices(folder), end) for folder, end in zip(folders, words, strict=True))
    return RolledProcess(0, "fp32", (0, SECOND), None, stretches)


def leave_attempt(run: RunFolder, slot: Slot, iterations: Iterations, *, offset_ns: int, killed: bool) -> Path:
    """What one attempt leaves in a run's folder: job, slices, telemetry on its own clock, a report unless it died."""
    folder = run.new_attempt(slot)
    (folder / JOB_FILE).write_text(job_of(run.registration, slot).model_dump_json(by_alias=True))
    roll_up(folder, iterations, unix_offset_ns=offset_ns, killed=killed)
    stamps = np.arange(iterations.start_ns[0], iterations.end_ns[-1], SECOND // 5)
    rows = [f"{stamp},0.0,2000,10000000000,20000000000" for stamp in stamps]
    head = "at_ns,cpu_busy_foreign,cpu_clock_mhz,memory_available_bytes,memory_total_bytes"
    (folder / TELEMETRY_FILE).write_text("\n".join([head, *rows]) + "\n")
    if not killed:
        begun = int(iterations.start_ns[0])
        report = JobReport(
            status=JobStatus.DONE,
            setup_ns=(begun - SECOND, begun),
            unit="call",
            executed=ExecutedAs(native=Native.NATIVE, how="as written"),
            peak_memory_bytes=100 << 20,
        )
        (folder / REPORT_FILE).write_text(report.model_dump_json())
    return folder
