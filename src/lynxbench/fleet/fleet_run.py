"""The order of a fleet run: plan every unit, run each alone on its node, record what arrives, account for all of them.

OUT/FLEET/fleet.json           contract, units, every attempt: rewritten after each event, so that a run can be resumed
OUT/FLEET/units/UNIT/RUN/      each unit's whole run, as it was sealed on its node
OUT/FLEET/report.json, .html   what the whole says, written last
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.evidence.folders import newest_unfinished
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.fleet_book import FLEET_FILE, FleetBook, FleetProgress, FleetState, read_state
from lynxbench.fleet.fleet_jobs import FleetJob, JobOptions, carry_out, new_state, task_of
from lynxbench.model.contract import Contract
from lynxbench.model.fleet import FleetUnit, UnitState
from lynxbench.run.run_outcome import Recorders


@dataclass(frozen=True, slots=True)
class FleetOptions(JobOptions):
    """How a fleet run is carried out."""

    per_gpu: bool = False
    declaration: Declaration | None = None


def run_fleet(
    fleet: Fleet,
    contract: Contract,
    out: Path,
    *,
    nodes: str | None = None,
    options: FleetOptions | None = None,
    progress: FleetProgress | None = None,
    recorders: Recorders | None = None,
    resume: bool = False,
) -> tuple[FleetState, Path]:
    """The contract on every chosen node or GPU; the state that accounts for all of them, and its folder."""
    options = options or FleetOptions()
    chosen, spare = choose(fleet.nodes(), nodes)
    if resume:
        state = _unfinished(out, contract)
        options = replace(options, per_gpu=state.per_gpu)
    else:
        state = new_state(contract.name, contract, _units(chosen, options.per_gpu), per_gpu=options.per_gpu)
    book = FleetBook(state, out / state.fleet_id, progress, recorders)
    by_name = {node.name: node for node in fleet.nodes()}
    tasks = []
    for unit in state.units:
        if unit.state is UnitState.DONE:
            continue
        node = by_name.get(unit.node) or _stand_in(state, (*chosen, *spare)) or _missing(unit)
        share = max(1.0, node.cpus // max(node.gpus, 1.0)) if options.per_gpu and options.together else None
        job = FleetJob(
            unit.name,
            contract,
            options.declaration,
            node=node,
            gpus=1.0 if options.per_gpu else node.gpus,
            cpus=share,
            substitutes=bool(spare),
        )
        tasks.append(task_of(job, book, options, recorders))
    book.begin()
    carry_out(fleet, book, tasks, spare=spare, together=options.together)
    return book.state, book.folder


def _units(nodes: Sequence[FleetNode], per_gpu: bool) -> list[FleetUnit]:
    if not per_gpu:
        return [FleetUnit(name=node.name, node=node.name) for node in nodes]
    units = [FleetUnit(name=f"{node.name}/gpu{i}", node=node.name) for node in nodes for i in range(int(node.gpus))]
    if not units:
        raise BadInput("--per gpu: no chosen node has a GPU; leave it out to measure nodes")
    return units


def _unfinished(out: Path, contract: Contract) -> FleetState:
    state = newest_unfinished(
        out,
        FLEET_FILE,
        None,
        read_state,
        lambda state: state.finished_at is None and state.contract.contract_id == contract.contract_id,
    )
    if state is None:
        raise BadInput(f"{out}: no unfinished fleet run of {contract.name}; start one without --resume")
    again = {"state": UnitState.PENDING, "why": ""}
    units = [unit if unit.state is UnitState.DONE else unit.model_copy(update=again) for unit in state.units]
    return state.model_copy(update={"units": tuple(units)})


def _stand_in(state: FleetState, nodes: Sequence[FleetNode]) -> FleetNode | None:
    """For a resumed unit whose node is gone: a node of the cluster that no other unit belongs to."""
    taken = {unit.node for unit in state.units}
    return next((node for node in nodes if node.name not in taken), None)


def _missing(unit: FleetUnit) -> FleetNode:
    """A node that is not there: dispatching to it reports it as lost, which is what it is."""
    return FleetNode(node_id="0" * 56, name=unit.node, address="", cpus=1.0, gpus=0.0)


def environment_of(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` pairs; a bare NAME takes this process's own value."""
    variables = {}
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not name or (not given and name not in os.environ):
            raise BadInput(f"--env {pair!r}: write NAME=VALUE, or the name of a variable that is set here")
        variables[name] = value if given else os.environ[name]
    return variables
