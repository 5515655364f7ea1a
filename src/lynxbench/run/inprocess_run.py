"""Runs whose workload is executed on this machine: a fresh process for every precision and repetition."""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from lynxbench.errors import CannotRun
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.load.journal import read_journal
from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import CallableEngine, Contract, TorchEngine
from lynxbench.model.document import Document
from lynxbench.model.executor import Tier, difference
from lynxbench.model.interventions import InterventionScope
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.precision import Precision, reference_of
from lynxbench.model.result import PrecisionResult
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.model.workload import ClosedArrival
from lynxbench.run.attempts import Attempt, FreshProcess, measured_before_s
from lynxbench.run.concluding import Conclusion, LiveEvidence
from lynxbench.run.fresh_job import job_of
from lynxbench.run.intervening import WORKER, intervene
from lynxbench.run.run_outcome import Progress
from lynxbench.workload.model_files import cache_root

CEILINGS_FOLDER = "ceilings"


class InProcessStrategy:
    """The machine is captured before and after; `beside` names processes that are known to run at the same time."""

    repeats_failures = False
    """A model that failed fails again."""

    def __init__(
        self,
        declaration: Declaration | None,
        intervening: InterventionScope | None = None,
        around: Surroundings | None = None,
        beside: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        self._declaration, self._intervening = declaration, intervening
        self._around, self._beside = around, beside

    def register(self, contract: Contract, out: Path) -> RunFolder:
        """Capture the machine and fix the plan: restarts × precisions, one process each."""
        engine, arrival = contract.engine, contract.workload.arrival
        assert not isinstance(engine, ServedEngine)
        if not isinstance(arrival, ClosedArrival) or arrival.concurrency != 1:
            raise CannotRun(
                f"{contract.name}: engine {engine.name} runs in-process, one iteration after the other; "
                "use arrival closed with concurrency 1"
            )
        executor = capture_host(self._declaration)
        threads = engine.threads or len(os.sched_getaffinity(0))
        return RunFolder.create(out, contract, executor, threads, plan_of(contract), datetime.now(UTC), self._around)

    def resume(self, run: RunFolder) -> None:
        """The registration holds the machine as it was."""

    def prepare(self, run: RunFolder, progress: Progress) -> None:
        """Nothing comes before the first process."""

    def watching(self, run: RunFolder) -> AbstractContextManager[None]:
        """The worker is watched by the telemetry alone."""
        return nullcontext()

    def process(self, run: RunFolder, slot: Slot, attempts: Sequence[Attempt]) -> FreshProcess:
        """The worker of a slot; a precision's first process also takes what need not be taken in every one."""
        registration, first = run.registration, slot.restart == 0
        around = registration.surroundings
        engine = registration.contract.engine
        on_device = first and isinstance(engine, TorchEngine | CallableEngine)
        known = read_ceilings(registration.executor.executor_id) if on_device else ()
        # A function of a user takes whatever formats it likes; a named model takes its precision.
        known = ceilings_for(known, slot.precision, every=isinstance(engine, CallableEngine))
        job = job_of(registration, slot).model_copy(
            update={
                "take_outputs": first,
                "take_profile": first,
                "take_ceilings": first,
                "known_ceilings": known,
                "reference_step_s": _reference_step_s(attempts),
                "own_packages": around is not None and around.interpreter is not None,
                "measured_s": measured_before_s(run, slot),
            }
        )
        return FreshProcess(WORKER, job, job.threads, around, self._beside)

    def observe(self, run: RunFolder) -> LiveEvidence:
        """Capture the machine again: whether it is still the one that was registered."""
        registered = run.registration.executor
        drift = difference(registered, capture_host(self._declaration), (Tier.CONFIGURATION,))
        return LiveEvidence(registered, drift)

    def refine(self, run: RunFolder, conclusion: Conclusion, progress: Progress) -> tuple[PrecisionResult, ...]:
        """Keep what the device reached for the next run, and test verdicts by intervention where that was asked for."""
        reports = [attempt.report for attempt in conclusion.attempts]
        remember_ceilings(run.registration.executor.executor_id, reports)
        if self._intervening is None:
            return conclusion.per_precision
        return tuple(intervene(run, result, progress, self._intervening) for result in conclusion.per_precision)


def plan_of(contract: Contract) -> tuple[Slot, ...]:
    """Restarts × precisions, interleaved: the reference first of all, then the order turns with every restart."""
    reference = reference_of(contract.workload.precisions)
    first = sorted(contract.workload.precisions, key=lambda precision: precision is not reference)
    slots: list[Slot] = []
    for restart in range(contract.protocol.restarts):
        order = first if restart % 2 == 0 else first[::-1]
        slots += [Slot(index=len(slots) + i, restart=restart, precision=p) for i, p in enumerate(order)]
    return tuple(slots)


def _reference_step_s(attempts: Sequence[Attempt]) -> float | None:
    for attempt in attempts:
        if attempt.done:
            seconds = read_journal(attempt.folder)[0].seconds
            return float(sorted(seconds)[len(seconds) // 2]) if len(seconds) else None
    return None


# --- ceilings of devices from earlier runs: later ones re-check them instead of starting blind ------------------------


class KnownCeilings(Document):
    """What one executor's devices are known to reach; a CPU's ceilings move with whatever else runs."""

    executor_id: str
    ceilings: tuple[Ceiling, ...] = ()


def ceilings_file(executor_id: str) -> Path:
    """Where an executor's ceilings are kept."""
    return cache_root() / CEILINGS_FOLDER / f"{executor_id}.json"


def read_ceilings(executor_id: str) -> tuple[Ceiling, ...]:
    """The ceilings known of an executor; nothing where none are, or where the file is damaged (it is made anew)."""
    try:
        known = KnownCeilings.model_validate_json(ceilings_file(executor_id).read_bytes())
    except (OSError, ValidationError):
        return ()
    return known.ceilings if known.executor_id == executor_id else ()


def ceilings_for(known: Iterable[Ceiling], precision: Precision, *, every: bool = False) -> tuple[Ceiling, ...]:
    """Those that a process at that precision measures: its own product, and what has no precision; () without one.

    With `every`, products of other precisions too.
    """
    mine = tuple(ceiling for ceiling in known if every or ceiling.precision in (precision, None))
    return mine if any(ceiling.precision is precision for ceiling in mine) else ()


def _on_device(report: JobReport) -> bool:
    """Whether its ceilings are a device's: the engine names it, or there are launches among them, which no CPU has."""
    named = str(report.facts.get("runtime.device", "")).startswith("cuda")
    return named or any(ceiling.name == "launch" for ceiling in report.ceilings)


def remember_ceilings(executor_id: str, reports: Iterable[JobReport]) -> None:
    """Keep what the processes of a run measured on a device; a cache that cannot be written costs nothing but time."""
    fresh: dict[tuple[str, Precision | None], Ceiling] = {}
    for report in reports:
        if report.status is JobStatus.DONE and _on_device(report):
            for ceiling in report.ceilings:
                key = ceiling.name, ceiling.precision
                fresh[key] = max(ceiling, fresh.get(key, ceiling), key=lambda measured: measured.per_s)
    if not fresh:
        return
    # What was measured now replaces what was known: a limit that has come down must not be believed for ever.
    merged = {(ceiling.name, ceiling.precision): ceiling for ceiling in read_ceilings(executor_id)} | fresh
    path = ceilings_file(executor_id)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, KnownCeilings(executor_id=executor_id, ceilings=tuple(merged.values())).model_dump_json())
