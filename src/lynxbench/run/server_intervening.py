"""Proof by intervention on a server: started again with other launch arguments, and asked for the same work.

Unchanged and changed servers take turns, and the order turns with every round: what drifts meanwhile is no gain.
"""

from collections.abc import Mapping

from lynxbench.attribute.judge.server_changes import (
    ServerChange,
    judge_server_change,
    propose_server_changes,
    with_server_changes,
)
from lynxbench.errors import BadInput, CannotRun
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.load_record import read_record, requests_of
from lynxbench.measure.responses import process_response
from lynxbench.measure.served_load import ServedRun, measure_load
from lynxbench.model.attribution import Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.fields import Scalar
from lynxbench.model.interventions import InterventionChoice
from lynxbench.model.launching import Anew, options_of
from lynxbench.model.result import PrecisionResult
from lynxbench.model.workload import ClosedArrival, SaturatingArrival
from lynxbench.run.attempts import Attempt, FreshProcess, read_attempt, run_attempt
from lynxbench.run.client_job import RECORD_FILE, ClientFacts, ClientJob
from lynxbench.run.contract_server import ContractServer
from lynxbench.run.fresh_job import REPORT_FILE
from lynxbench.run.intervening import CONTROL, FOLDER
from lynxbench.run.run_outcome import Progress
from lynxbench.run.served_run import CLIENT_PROGRAM

ROUNDS = 2
"""Fresh servers that each change, and no change, is measured on: the fewest that give an interval."""
LATENCY = "latency-p50"


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
    baseline = [speed for speed in speeds[CONTROL] if isinstance(speed, float)]
    if server.launch.restart is Anew.SERVER and isinstance(run.registration.contract.workload.arrival, ClosedArrival):
        baseline = [*result.run_means, *baseline]  # each of them on a server of its own, too
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
        return _response(contract, read_attempt(slot, folder))
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
    )
    folder.mkdir(parents=True, exist_ok=True)
    process = FreshProcess(CLIENT_PROGRAM, job, run.registration.threads, beside=lambda: (server.running.pid,))
    attempt = run_attempt(folder, slot, process, progress, label=f"{name}: ")
    return server.running.ended or _response(contract, attempt)


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
