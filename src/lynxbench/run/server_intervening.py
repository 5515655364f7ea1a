"""Proof by intervention on a server: started again with other launch arguments, and asked for the same work.

Unchanged and changed servers take turns, and the order turns with every round: what drifts meanwhile is no gain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.attribute.judge.server_changes import (
    ANSWERS_CHANGE,
    ServerChange,
    judge_server_change,
    propose_server_changes,
    with_server_changes,
)
from lynxbench.errors import BadInput, BadResult, CannotRun
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.evidence.whole_files import write_text
from lynxbench.load.load_record import read_record, requests_of
from lynxbench.measure.responses import process_response
from lynxbench.measure.served_load import ServedRun, measure_load
from lynxbench.model.attribution import Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.fields import Scalar
from lynxbench.model.interval import UNKNOWN_INTERVAL
from lynxbench.model.interventions import InterventionChoice
from lynxbench.model.launching import Anew, options_of
from lynxbench.model.result import PrecisionResult
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import ClosedArrival, SaturatingArrival
from lynxbench.run.attempts import Attempt, FreshProcess, read_attempt, run_attempt
from lynxbench.run.client_job import RECORD_FILE, ClientFacts, ClientJob
from lynxbench.run.contract_server import ContractServer
from lynxbench.run.fresh_job import JOB_FILE, REPORT_FILE
from lynxbench.run.intervening import CONTROL, FOLDER
from lynxbench.run.run_outcome import Progress
from lynxbench.run.served_run import CLIENT_PROGRAM

ROUNDS = 2
"""Fresh servers that each change, and no change, is measured on: the fewest that give an interval."""
LATENCY = "latency-p50"
INAPPLICABLE = "does not apply: "
ENDED_FILE = "server-ended.txt"
"""In the folder of a visit: how the server ended under its client, which makes its figure none."""


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """What kept visits come to, and whether each says with which arguments its server was launched."""

    result: PrecisionResult
    all_told: bool


def intervene_on_server(
    run: RunFolder,
    result: PrecisionResult,
    server: ContractServer,
    choice: InterventionChoice,
    progress: Progress,
    *,
    clients: int,
) -> PrecisionResult:
    """Test what holds a server back by launch arguments; measured gains beside predictions."""
    contract = asked_again(run.registration.contract)
    changes = propose_server_changes(
        result.attribution, server.kind, server.launch.arguments, choice, options_of(list(server.command))
    )
    speeds = _visit_all(run, contract, server, changes, progress, clients)
    baseline = _baseline(run.registration.contract, result, speeds[CONTROL])
    confidence = contract.protocol.confidence
    done: list[tuple[ServerChange, Intervention]] = []
    for change in changes:
        measured = [speed for speed in speeds.get(change.name, ()) if isinstance(speed, float)]
        why = next((speed for speed in speeds.get(change.name, ()) if isinstance(speed, str)), "")
        if why and not measured:
            done.append((change, change.not_measured(f"not measured: {why}")))
        else:
            done.append((change, judge_server_change(change, baseline, measured, confidence)))
    return result.model_copy(update={"attribution": with_server_changes(result.attribution, done, baseline)})


def _baseline(contract: Contract, result: PrecisionResult, control: Sequence[float | str]) -> list[float]:
    """Work per second without a change: of the visits to unchanged servers, and of the runs where these compare."""
    engine = contract.engine
    anew = isinstance(engine, ServedEngine) and engine.serve is not None and engine.serve.restart is Anew.SERVER
    runs = result.run_means if anew and isinstance(contract.workload.arrival, ClosedArrival) else ()
    return [*runs, *(speed for speed in control if isinstance(speed, float))]  # each run on a server of its own, too


def changes_again(run: RunFolder, result: PrecisionResult, stated: Sequence[Intervention]) -> KeptChanges:
    """What the visits that a run kept make of its attribution, by the changes that are stated.

    Names, predictions and reasons why a change could not be tried are taken as stated: the table that they are from is
    that of the server's kind, which was told by the machine. BadResult where a visit is not here, or was told another.
    """
    contract = asked_again(run.registration.contract)
    tried = [one for one in stated if not one.note.startswith(INAPPLICABLE)]
    for name in kept_visits(run):
        if name.split("-")[1] not in {f"{place:02d}" for place in range(len(tried) + 1)}:
            raise BadResult(f"{FOLDER}/{name} is of a change that is not stated")
    control = _kept_visits(run, contract, 0, "") if tried else []
    baseline = _baseline(run.registration.contract, result, [speed for speed, _ in control])
    foreseen = result.attribution.gain_if_removed if result.attribution is not None else UNKNOWN_INTERVAL
    untold = [told for _, told in control if not told]
    done: list[tuple[ServerChange, Intervention]] = []
    for one in stated:
        decides = one.predicted.known
        predicted = foreseen if decides else UNKNOWN_INTERVAL
        change = ServerChange({}, predicted=predicted, decides=decides, answers=one.note.endswith(ANSWERS_CHANGE))
        measured = one.measured, one.note
        if one in tried:
            visits = _kept_visits(run, contract, 1 + tried.index(one), one.name)
            speeds = [speed for speed, _ in visits if isinstance(speed, float)]
            untold += [told for _, told in visits if not told]
            if not speeds and one.measured.known:
                raise BadResult(f"{one.name}: no visit of it that gave a figure is here")
            if speeds:
                judged = judge_server_change(change, baseline, speeds, contract.protocol.confidence)
                measured = judged.measured, judged.note
        update = {"predicted": predicted, "measured": measured[0], "note": measured[1]}
        done.append((change, one.model_copy(update=update)))
    return KeptChanges(
        result.model_copy(update={"attribution": with_server_changes(result.attribution, done, baseline)}),
        all_told=not untold,
    )


def kept_visits(run: RunFolder) -> tuple[str, ...]:
    """The names of the visits that are kept."""
    return tuple(sorted(path.name for path in (run.path / FOLDER).glob("server-*")))


def _kept_visits(run: RunFolder, contract: Contract, place: int, name: str) -> list[tuple[float | str, bool]]:
    """Work per second of the visits to one setting, and whether each was told what it is; up to the first failure."""
    visits: list[tuple[float | str, bool]] = []
    for turn in range(ROUNDS):
        folder = run.path / FOLDER / f"server-{place:02d}-{turn}"
        if not (folder / JOB_FILE).is_file():
            continue  # its server did not come up, or was not started again after that
        job = read_document(folder / JOB_FILE, ClientJob, "what its client was told")
        where = f"{FOLDER}/{folder.name}"
        for part in ("workload", "protocol", "objective"):
            if getattr(job.contract, part) != getattr(contract, part):
                raise BadResult(f"{where}: its client was told another {part} than the intervention has")
        if job.launched is not None and _named(job.launched) != name:
            raise BadResult(f"{where}: its server was launched otherwise ({_named(job.launched) or 'unchanged'})")
        slot = Slot(index=len(run.registration.plan), restart=0, precision=contract.workload.precisions[0])
        visits.append((_kept_response(contract, read_attempt(slot, folder)), job.launched is not None))
        if isinstance(visits[-1][0], str):
            break
    return visits


def _named(arguments: Mapping[str, Scalar]) -> str:
    return ServerChange(arguments).name if arguments else ""


def asked_again(contract: Contract) -> Contract:
    """The contract's work where a change can show: a search for saturation becomes the closed loop that it begins with.

    At a fixed rate every server that keeps up has the same throughput; there a change shows in latency.
    """
    arrival = contract.workload.arrival
    if not isinstance(arrival, SaturatingArrival):
        return contract
    closed = ClosedArrival(process="closed", concurrency=arrival.concurrency)
    return contract.model_copy(update={"workload": contract.workload.model_copy(update={"arrival": closed})})


def _visit_all(
    run: RunFolder,
    contract: Contract,
    server: ContractServer,
    changes: tuple[ServerChange, ...],
    progress: Progress,
    clients: int,
) -> dict[str, list[float | str]]:
    """Work per second of every visit by change, or why there is none."""
    possible = [change for change in changes if change.inapplicable is None]
    settings: list[tuple[str, Mapping[str, Scalar]]] = [(change.name, change.arguments) for change in possible]
    speeds: dict[str, list[float | str]] = {CONTROL: []}
    for turn in range(ROUNDS if possible else 0):
        order = [(CONTROL, {}), *settings]
        for name, arguments in order if turn % 2 == 0 else reversed(order):
            if any(isinstance(speed, str) for speed in speeds.get(name, ())):
                continue  # it did not come up once, and would not a second time
            progress.note(f"intervention {turn + 1}/{ROUNDS}: {name}")
            place = 0 if name == CONTROL else 1 + [one for one, _ in settings].index(name)
            speeds.setdefault(name, []).append(
                _speed(run, f"server-{place:02d}-{turn}", contract, server, arguments, progress, clients)
            )
    return speeds


def _speed(
    run: RunFolder,
    name: str,
    contract: Contract,
    server: ContractServer,
    arguments: Mapping[str, Scalar],
    progress: Progress,
    clients: int,
) -> float | str:
    """Work per second of one fresh client on one fresh server; a finished one of an interrupted run is taken."""
    folder = run.path / FOLDER / name
    slot = Slot(index=len(run.registration.plan), restart=0, precision=contract.workload.precisions[0])
    if (folder / REPORT_FILE).exists():
        return _kept_response(contract, read_attempt(slot, folder))
    try:
        greeting = server.start(arguments)
    except (BadInput, CannotRun) as error:
        return str(error)
    job = ClientJob(
        index=slot.index,
        restart=0,
        contract=server.reached(contract),
        clients=clients,
        salt=int(run.registration.nonce[:8], 16) + len(list((run.path / FOLDER).glob("*"))),
        calibration=None if greeting is None else greeting.calibration,
        launched=dict(arguments),
    )
    folder.mkdir(parents=True, exist_ok=True)
    process = FreshProcess(CLIENT_PROGRAM, job, run.registration.threads, beside=lambda: (server.running.pid,))
    attempt = run_attempt(folder, slot, process, progress, label=f"{name}: ")
    if ended := server.running.ended:
        write_text(folder / ENDED_FILE, ended)
    return _kept_response(contract, attempt)


def _kept_response(contract: Contract, attempt: Attempt) -> float | str:
    """Work per second of a visit that is over, or why there is none: its server may have ended under it."""
    ended = attempt.folder / ENDED_FILE
    return ended.read_text(encoding="utf-8") if ended.exists() else _response(contract, attempt)


def _response(contract: Contract, attempt: Attempt) -> float | str:
    """More is better: throughput of a closed loop, else the inverse of the median latency."""
    if not attempt.done or attempt.report.setup_ns is None:
        return attempt.why or "its client did not finish"
    requests = requests_of(read_record(attempt.folder / RECORD_FILE))
    if not requests.ok.any() or requests.load_end_ns <= requests.start_ns:
        return "no request was answered"
    facts = ClientFacts.model_validate(attempt.report.facts, strict=False)
    served = ServedRun(attempt.slot.index, attempt.report.setup_ns, requests)
    measured = measure_load(
        contract, [served], coalesced=False, has_tokens=facts.has_tokens, counted=facts.unit
    ).measured
    if isinstance(contract.workload.arrival, ClosedArrival):
        (speed,) = measured.run_means
    else:
        speed = 1e3 / process_response(measured.processes[0], LATENCY)
    return speed if speed > 0 else "no request of it was counted"
