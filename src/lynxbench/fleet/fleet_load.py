"""A served contract whose load comes from clients on many hosts: the order of every served run, with other clients."""

from __future__ import annotations

from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.cluster import Fleet, choose
from lynxbench.model.contract import Contract, SaturatingArrival, ServedEngine
from lynxbench.run.client_job import ClientFleet
from lynxbench.run.pipeline import resume_contract, run_contract
from lynxbench.run.run_outcome import Finished, Progress, Recorder
from lynxbench.run.served_run import RemoteClients

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
    remote = RemoteClients(CLIENT_PROGRAM, ClientFleet(address=address, nodes=nodes), clients or len(chosen))
    carry_out = resume_contract if resume else run_contract
    return carry_out(contract, out, declaration, progress, recorder=recorder, remote=remote)
