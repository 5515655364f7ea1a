"""What a run comes to, from the evidence that it kept: the run calls this at its end, and `verify` calls it again.

Everything but what was read live follows from the folder; with the same live evidence the conclusion is the same.
"""

from dataclasses import dataclass, field
from pathlib import Path

from lynxbench.evidence.run_folder import RunFolder
from lynxbench.load.rolling import read_slices
from lynxbench.measure.context import assumptions_of, conditions_of
from lynxbench.measure.load_context import served_assumptions
from lynxbench.measure.telemetry import join_telemetry, read_telemetry
from lynxbench.measure.validity import SETTINGS, Doubt, combine_validity, judge_drift, judge_settings, without_figures
from lynxbench.model.attribution import Attribution, Ceiling
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, FieldChange
from lynxbench.model.result import RULES, Conditions, PrecisionResult, Validity, ValidityVerdict
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.model.serving import ServedEngine
from lynxbench.run.attempts import Attempt, kept_attempts
from lynxbench.run.attesting import with_attestation
from lynxbench.run.client_results import ServerCounts, conclude_clients
from lynxbench.run.process_results import conclude_precision, reference_outputs
from lynxbench.run.run_outcome import TELEMETRY_FILE

RESTARTED = "the server was restarted during the run"


@dataclass(frozen=True, slots=True)
class LiveEvidence:
    """What was read from the machine and the server while it ran; nobody can read it again."""

    executor: Executor
    """The host's layers and the server's, to which the measured processes add what they know."""
    drift: tuple[FieldChange, ...]
    restarted: bool = False
    server: ServerCounts = field(default_factory=lambda: ServerCounts({}, {}, shares_host=True))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Everything a result states that follows from its evidence."""

    attempts: tuple[Attempt, ...]
    telemetry: Telemetry | None
    executor: Executor
    per_precision: tuple[PrecisionResult, ...]
    processes: tuple[CountedProcess, ...]
    validity: Validity

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """What the processes measured of the machine itself."""
        return tuple(ceiling for attempt in self.attempts for ceiling in attempt.report.ceilings)


def conclude(run: RunFolder, live: LiveEvidence, rules: int = RULES) -> Conclusion:
    """Conclude from the attempts and the telemetry in a run's folder, by an edition of the rules."""
    return conclude_from(kept_attempts(run), telemetry_in(run.path), run, live, rules)


def conclude_from(
    attempts: tuple[Attempt, ...], telemetry: Telemetry | None, run: RunFolder, live: LiveEvidence, rules: int = RULES
) -> Conclusion:
    """The same where attempts and telemetry have been read."""
    contract = run.registration.contract
    if isinstance(contract.engine, ServedEngine):
        concluded = [conclude_clients(run, attempts, telemetry, live.server, live.executor, rules)]
    else:
        reference = reference_outputs(attempts)
        concluded = [
            conclude_precision(
                contract, precision, [a for a in attempts if a.slot.precision is precision], telemetry, reference, rules
            )
            for precision in contract.workload.precisions
        ]
    results = [result for result, _ in concluded]
    processes = sorted((p for _, counted in concluded for p in counted), key=lambda process: process.samples.process)
    attempted = [part for part in results if part.skipped is None or part.validity.verdict is ValidityVerdict.VOID]
    whole = [*judge_drift(live.drift), *_settings(contract, live.executor, rules)]
    whole += [Doubt(RESTARTED, void=True)] if live.restarted else []
    validity = combine_validity(whole, {part.precision.value: part.validity for part in attempted})
    if validity.verdict is ValidityVerdict.VOID:
        results = [_without_figures(result) for result in results]
    return Conclusion(
        attempts=attempts,
        telemetry=telemetry,
        executor=completed(live.executor, run, attempts),
        per_precision=tuple(results),
        processes=tuple(processes),
        validity=validity,
    )


def _settings(contract: Contract, executor: Executor, rules: int) -> list[Doubt]:
    """Settings of this process's own environment; a server's engine runs in another."""
    if rules < SETTINGS or isinstance(contract.engine, ServedEngine):
        return []
    return judge_settings(executor, contract.owner)


def telemetry_in(folder: Path) -> Telemetry | None:
    """What was read beside the run in a folder; of an endurance run by attempt, on the time of day its slices know."""
    file = folder / TELEMETRY_FILE
    if file.exists():
        return read_telemetry(file)
    rolled = [(attempt / TELEMETRY_FILE, read_slices(attempt)) for attempt in sorted((folder / "attempts").glob("*"))]
    return join_telemetry(
        [(read_telemetry(file), slices[0].unix_offset_ns) for file, slices in rolled if slices and file.exists()]
    )


def context_of(contract: Contract, threads: int, clients: int | None) -> tuple[Conditions, tuple[str, ...]]:
    """The conditions and assumptions that follow from a contract and how many took part."""
    served = isinstance(contract.engine, ServedEngine)
    return conditions_of(contract, threads, clients), (served_assumptions if served else assumptions_of)(contract)


def first_attribution(results: tuple[PrecisionResult, ...]) -> Attribution | None:
    """The run's attribution: that of the first precision that has one."""
    return next((result.attribution for result in results if result.attribution is not None), None)


def _without_figures(result: PrecisionResult) -> PrecisionResult:
    """A void run's figures are nobody's; what was sent and how the clients fared stays."""
    emptied = without_figures(result)
    if emptied.load is None:
        return emptied
    return emptied.model_copy(update={"load": emptied.load.without_figures()})


def completed(executor: Executor, run: RunFolder, attempts: tuple[Attempt, ...]) -> Executor:
    """The captured layers with what the hardware answered for the run, and what the measured processes themselves knew.

    The reference's process speaks first.
    """
    executor = with_attestation(executor, run.path)
    for attempt in reversed([attempt for attempt in attempts if attempt.done]):
        executor = executor.merged(attempt.report.fields)
    return executor
