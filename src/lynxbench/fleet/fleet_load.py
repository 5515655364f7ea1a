"""A served contract whose load comes from clients on many hosts: the order of every served run, with other clients."""

from __future__ import annotations

from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.evidence.run_folder import find_unfinished
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.cluster import Fleet, choose
from lynxbench.model.contract import Contract
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.client.client_job import ClientFleet
from lynxbench.run.run_outcome import Finished, Progress, Recorder
from lynxbench.run.served_run import RemoteClients, resume_served, run_served

CLIENT_PROGRAM = "lynxbench.fleet.load_client_process"


def run_load(
    fleet: Fleet,
    address: str,
    contract: Contract,
    out: Path,
    *,
    nodes: str | None,
    clients: int | None,
    declaration: Declaration | None,
    progress: Progress,
    recorder: Recorder | None,
    resume: bool = False,
) -> Finished:
    """Run a served contract with one schedule split over clients of a fleet; one client a node by default."""
    if not isinstance(contract.engine, ServedEngine):
        raise BadInput(f"{contract.name}: engine {contract.engine.name} is no server; use lynxbench fleet run")
    if isinstance(contract.workload.arrival, SaturatingArrival):
        raise BadInput(
            f"{contract.name}: a search for saturation chooses its own rates; fleet load splits a fixed schedule. "
            "Give the arrival a process and a rate"
        )
    chosen, _ = choose(fleet.nodes(), nodes)
    where = ClientFleet(address=address, nodes=nodes)
    remote = RemoteClients(CLIENT_PROGRAM, where, clients or len(chosen))
    if resume:
        run = find_unfinished(out, contract.contract_id)
        if run is None:
            raise BadInput(f"{out}: no unfinished run of {contract.name}; start one without --resume")
        return resume_served(run, declaration, progress, recorder, remote)
    return run_served(contract, out, declaration, progress, recorder, remote=remote)
