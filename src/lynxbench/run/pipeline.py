"""The order of a run: register, prepare, measure in fresh processes, conclude, seal. The one file that knows it.

What differs between a workload of this machine and a server that is asked is a strategy (`inprocess_run.py`,
`served_run.py`); a process is started and watched in `attempts.py`, and what it comes to is said in `concluding.py`.
"""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from lynxbench import __version__
from lynxbench.errors import BadInput, CannotRun, DiskFull, Interrupted, OwnCodeFailed, Refused
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder, Slot, find_unfinished
from lynxbench.evidence.sample_file import write_samples
from lynxbench.executor.declaration import Declaration
from lynxbench.load.rolling import SLICES_FOLDER
from lynxbench.measure.rolled import reading_interval_s
from lynxbench.measure.telemetry import CPU_INTERVAL_S, TelemetrySampler
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import ArgumentChange, InterventionChoice
from lynxbench.model.job import FailureKind
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, PrecisionResult, Result
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import Surroundings, take_over
from lynxbench.run.attempts import Attempt, earlier_attempt, kept_samples, run_attempt
from lynxbench.run.attesting import attest
from lynxbench.run.concluding import Conclusion, LiveEvidence, conclude, context_of, first_attribution
from lynxbench.run.contract_server import serving
from lynxbench.run.greeting import Greeting
from lynxbench.run.inprocess_run import InProcessStrategy
from lynxbench.run.launched_run import LaunchedStrategy
from lynxbench.run.run_outcome import SAMPLES_FILE, TELEMETRY_FILE, Finished, Progress, Recorder, recorded
from lynxbench.run.search_so_far import said_so_far
from lynxbench.run.served_accuracy import ReferenceAnswers, ask_answers
from lynxbench.run.served_run import RemoteClients, ServedStrategy
from lynxbench.run.task_scoring import check_asked

RunStrategy = InProcessStrategy | ServedStrategy
"""What differs between kinds of runs: how one is registered, its processes, and what is read live at its end."""


def run_contract(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    progress: Progress,
    intervening: InterventionChoice | None = None,
    recorder: Recorder | None = None,
    greeting: Greeting | None = None,
    around: Surroundings | None = None,
    remote: RemoteClients | None = None,
    reference: ReferenceAnswers | None = None,
    *,
    resume: bool = False,
) -> Finished:
    """Run a contract, or go on with its newest unfinished run; `intervening` also tests the verdict by what it blames.

    `greeting` is what its server, where it has one, has answered already, and `remote` where its clients are when they
    are not processes of this machine; `around` is given to in-process ones, and to a server that the contract starts;
    `reference` is what its answers are held against.
    """
    check_asked(contract)
    unfinished = find_unfinished(out, contract.contract_id) if resume else None
    if resume and unfinished is None:
        raise BadInput(f"{out}: no unfinished run of {contract.name}; start one without --resume")
    if unfinished is not None:
        _refuse_surroundings(unfinished, around)
    with serving(contract, around, progress, out) as server:
        strategy: RunStrategy
        if server is not None:
            strategy = LaunchedStrategy(declaration, server, around, remote, intervening)
        elif isinstance(intervening, ArgumentChange):
            raise BadInput(f"{contract.name}: --intervene: its contract starts no server (engine.serve) to change")
        elif isinstance(contract.engine, ServedEngine):
            strategy = ServedStrategy(declaration, greeting, remote)
        else:
            strategy = InProcessStrategy(declaration, intervening, around)
        if unfinished is None:
            run = strategy.register(contract, out)
            if reference is not None:
                reference.lay_into(run)
            attest(run)
            return _carry_out(run, strategy, progress, recorder)
        strategy.resume(unfinished)
        return _carry_out(unfinished, strategy, progress, recorder)


def _refuse_surroundings(run: RunFolder, asked: Surroundings | None) -> None:
    """A folder may be a stranger's: what its registration gives to processes must be asked for, or any document's."""
    around = run.registration.surroundings
    if around is not None and around == asked:
        return
    left_out = take_over(around, os.environ, os.sched_getaffinity(0)).left_out
    if left_out:
        raise Refused(
            f"{run.path}: its registration sets {', '.join(left_out)}, which is not taken from a document; "
            "start a new run without --resume"
        )


# --- in pieces: an experiment takes its cells' processes in turn -----------------------------------------------------


def begin_contract(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    recorder: Recorder | None = None,
    around: Surroundings | None = None,
) -> RunFolder:
    """Register a run without taking a sample of it yet; `take_restart` and `end_contract` go on with it."""
    run = InProcessStrategy(declaration, around=around).register(contract, out)
    attest(run)
    if recorder is not None:
        recorder.register(run)
    return run


def take_restart(
    run: RunFolder, restart: int, progress: Progress, beside: Callable[[], tuple[int, ...]] = tuple
) -> list[Attempt]:
    """The processes of one repetition, each in its own time; one that came to an end earlier is not repeated.

    `beside` names processes that are known to run at the same time, on CPUs or devices of their own.
    """
    slots = [slot for slot in run.registration.plan if slot.restart == restart]
    return _measure(run, slots, InProcessStrategy(None, beside=beside), progress)


def end_contract(
    run: RunFolder, declaration: Declaration | None, progress: Progress, recorder: Recorder | None = None
) -> Finished:
    """Conclude a run from the repetitions that were taken, and measure those that were not."""
    return _carry_out(run, InProcessStrategy(declaration), progress, recorder)


# --- the order -------------------------------------------------------------------------------------------------------


def _carry_out(run: RunFolder, strategy: RunStrategy, progress: Progress, recorder: Recorder | None) -> Finished:
    """What every run does once it is registered."""
    with recorded(run, recorder):
        started = perf_counter()
        progress.begin(run)
        strategy.prepare(run, progress)
        try:
            attempts = _measure(run, run.registration.plan, strategy, progress)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; {kept_samples(run)} samples kept in {run.path}. {said_so_far(run.path)}"
                "Go on with the same command and --resume"
            ) from None
        contract = run.registration.contract
        if _given_up(attempts) >= set(contract.workload.precisions):
            raise unmeasured(contract, attempts[-1])
        progress.note("capturing again, comparing and attributing")
        live = strategy.observe(run)
        if isinstance(strategy, ServedStrategy):
            ask_answers(run, progress)
            strategy.profile(run, attempts, progress)
        conclusion = conclude(run, live)
        results = strategy.refine(run, conclusion, progress)
        return _seal(run, live, conclusion, results, perf_counter() - started)


def _measure(run: RunFolder, slots: Sequence[Slot], strategy: RunStrategy, progress: Progress) -> list[Attempt]:
    duration_s = run.registration.contract.protocol.duration_s
    if duration_s is not None:
        return _endure(run, slots, strategy, progress, duration_s)
    attempts: list[Attempt] = []
    with TelemetrySampler(run.path / TELEMETRY_FILE) as sampler, strategy.watching(run):
        for slot in slots:
            process = None if slot.precision in _given_up(attempts) else strategy.process(run, slot, attempts)
            if process is None:
                continue
            attempt = earlier_attempt(run, slot, repeats_failures=strategy.repeats_failures)
            attempts.append(attempt or run_attempt(run.new_attempt(slot), slot, process, progress, sampler))
    return attempts


def _endure(
    run: RunFolder, slots: Sequence[Slot], strategy: RunStrategy, progress: Progress, duration_s: float
) -> list[Attempt]:
    """Processes of hours: one that died is taken over by another, and each has telemetry on its own boot's clock."""
    attempts: list[Attempt] = []
    for slot in slots:
        process = None if slot.precision in _given_up(attempts) else strategy.process(run, slot, attempts)
        attempt = earlier_attempt(run, slot, repeats_failures=True)
        if attempt is None and process is not None:
            folder = run.new_attempt(slot)
            interval_s = reading_interval_s(duration_s, CPU_INTERVAL_S)
            with TelemetrySampler(folder / TELEMETRY_FILE, interval_s=interval_s) as sampler:
                attempt = run_attempt(folder, slot, process, progress, sampler)
        attempts += [attempt] if attempt is not None else []
    return attempts


def _given_up(attempts: Sequence[Attempt]) -> set[Precision]:
    """Precisions whose first repetition gave nothing: the others would give nothing either."""
    return {attempt.slot.precision for attempt in attempts if attempt.slot.restart == 0 and not attempt.done}


def unmeasured(contract: Contract, attempt: Attempt) -> CannotRun:
    """Why nothing was measured: the user's code, a full disk, or else what this executor lacks."""
    match attempt.report.failure:
        case FailureKind.OWN_CODE:
            return OwnCodeFailed(f"{contract.name}: {attempt.why}")
        case FailureKind.FULL_DISK:
            return DiskFull(f"{contract.name}: {attempt.why}")
    if contract.protocol.duration_s is not None and any((attempt.folder / SLICES_FOLDER).glob("*.json")):
        kept = f"what it measured is kept in {attempt.folder}; go on with the same command and --resume"
        return CannotRun(f"{contract.name}: {attempt.why}; {kept}")
    return CannotRun(f"{contract.name}: nothing could be measured here: {attempt.why}")


def _seal(
    run: RunFolder, live: LiveEvidence, conclusion: Conclusion, results: tuple[PrecisionResult, ...], spent_s: float
) -> Finished:
    """The result document and the manifest of everything it rests on, written last."""
    registration, contract, executor = run.registration, run.registration.contract, conclusion.executor
    conditions, assumptions = context_of(contract, registration.threads, registration.clients)
    result = Result(
        lynxbench_version=__version__,
        run_id=registration.run_id,
        started_at=registration.registered_at,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        measuring_s=round(spent_s, 3),
        contract_id=contract.contract_id,
        executor_id=executor.executor_id,
        instance_id=executor.instance_id,
        contract=contract,
        executor=executor,
        executor_drift=live.drift,
        conditions=conditions,
        per_precision=results,
        attribution=first_attribution(results),
        validity=conclusion.validity,
        ceilings=conclusion.ceilings,
        assumptions=assumptions,
        samples=write_samples(run.path / SAMPLES_FILE, conclusion.processes),
        rules=RULES,
    ).sealed()
    write_result(run.path / RESULT_FILE, result)
    write_manifest(run.path)
    return Finished(result, run.path, conclusion.processes, conclusion.telemetry)
