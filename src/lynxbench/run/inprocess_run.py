"""Runs whose workload is executed on this machine: a fresh process for every precision and repetition."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lynxbench.errors import CannotRun
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.load.journal import read_journal
from lynxbench.model.contract import ClosedArrival, Contract, ServedEngine, TorchEngine
from lynxbench.model.executor import Tier, difference
from lynxbench.model.interventions import InterventionScope
from lynxbench.model.job import Job
from lynxbench.model.precision import reference_of
from lynxbench.model.result import PrecisionResult
from lynxbench.model.surroundings import Surroundings
from lynxbench.run.attempts import Attempt, FreshProcess
from lynxbench.run.concluding import Conclusion, LiveEvidence
from lynxbench.run.intervening import WORKER, intervene
from lynxbench.run.known_ceilings import ceilings_for, read_ceilings, remember_ceilings
from lynxbench.run.run_outcome import Progress


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

    def process(self, run: RunFolder, slot: Slot, attempts: Sequence[Attempt]) -> FreshProcess:
        """The worker of a slot; a precision's first process also takes what need not be taken in every one."""
        registration, first = run.registration, slot.restart == 0
        around = registration.surroundings
        torch = isinstance(registration.contract.engine, TorchEngine)
        known = read_ceilings(registration.executor.executor_id) if first and torch else ()
        job = Job(
            index=slot.index,
            restart=slot.restart,
            contract=registration.contract,
            precision=slot.precision,
            threads=registration.threads,
            take_outputs=first,
            take_profile=first,
            take_ceilings=first,
            known_ceilings=ceilings_for(known, slot.precision),
            reference_step_s=_reference_step_s(attempts),
            own_packages=around is not None and around.interpreter is not None,
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
