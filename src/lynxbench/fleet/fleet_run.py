"""The order of a fleet run: plan every unit, run each alone on its node, record what arrives, account for all of them.

OUT/FLEET/fleet.json           contract, units, every attempt: rewritten after each event, so that a run can be resumed
OUT/FLEET/units/UNIT/RUN/      each unit's whole run, as it was sealed on its node
OUT/FLEET/report.json, .html   what the whole says, written last
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lynxbench.errors import BadInput, Interrupted
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.dispatch import FleetTask, More, TaskOutcome, Work, dispatch
from lynxbench.fleet.fleet_book import FLEET_FILE, FleetBook, FleetProgress, FleetState, Recorders, Silent, read_state
from lynxbench.fleet.node_process import NodeRequest
from lynxbench.fleet.node_work import NodeTask, clear_scratch, measure_here, request_text
from lynxbench.model.contract import Contract
from lynxbench.model.fleet import FleetUnit, UnitState
from lynxbench.model.interventions import InterventionScope

CLEAR_S = 30.0


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How a fleet run is carried out."""

    per_gpu: bool = False
    together: bool = False
    """Do not wait for other nodes or GPUs of the same host."""
    declaration: Declaration | None = None
    intervening: InterventionScope | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = field(default_factory=Path.cwd)
    """Where runs look for your own code; None takes the folder that was shipped to the node."""


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
        state, folder = _unfinished(out, contract)
        options = _with_gpus(options, state.per_gpu)
    else:
        state = _plan(contract, chosen, options.per_gpu)
        folder = out / state.fleet_id
    by_name = {node.name: node for node in fleet.nodes()}
    request = NodeRequest(
        contract=contract,
        declaration=options.declaration,
        intervening=options.intervening,
        recorded=recorders is not None,
    )
    tasks = []
    for unit in state.units:
        if unit.state is UnitState.DONE:
            continue
        node = by_name.get(unit.node) or _stand_in(state, chosen, spare, unit)
        payload = NodeTask(
            state.fleet_id, unit.name, request_text(request), folder_text(options.cwd), options.environment
        )
        gpus = 1.0 if options.per_gpu else node.gpus if node is not None else 0.0
        share = max(1.0, node.cpus // max(node.gpus, 1.0)) if node is not None and options.per_gpu else None
        tasks.append(
            FleetTask(
                unit.name,
                payload,
                node or _missing(unit),
                gpus,
                share if options.together else None,
                substitutes=bool(spare),
            )
        )
    book = FleetBook(state, folder, progress or Silent(), recorders)
    book.begin()
    carry_out(fleet, book, tasks, spare=spare, together=options.together)
    return book.state, folder


# --- carrying out ----------------------------------------------------------------------------------------------------


def carry_out(
    fleet: Fleet,
    book: FleetBook[Any],
    tasks: Sequence[FleetTask],
    *,
    work: Work = measure_here,
    spare: Sequence[FleetNode] = (),
    pool: Sequence[FleetNode] = (),
    together: bool = False,
    more: More = lambda: None,
    entered: Callable[[str], None] = lambda name: None,
) -> None:
    """Run every task and enter each outcome in the book; at the end no node keeps anything of it."""

    def enter(outcome: TaskOutcome) -> None:
        book.enter(outcome)
        entered(outcome.task.key)

    try:
        for outcome in dispatch(
            fleet,
            work,
            tasks,
            hear=book.hear,
            spare=spare,
            pool=pool,
            together=together,
            began=lambda task, node, attempt: book.progress.unit_began(task.key, node.name, attempt),
            more=more,
            late=enter,
        ):
            enter(outcome)
    except KeyboardInterrupt:
        if not book.keeps_account:
            raise
        done = sum(unit.state is UnitState.DONE for unit in book.state.units)
        raise Interrupted(
            f"interrupted; {done} of {len(book.state.units)} units are kept in {book.folder}. "
            "Go on with the same command and --resume"
        ) from None
    book.finish()
    for reference in [fleet.call_on(node, clear_scratch, book.state.fleet_id) for node in fleet.nodes()]:
        try:
            fleet.ray.get(reference, timeout=CLEAR_S)
        except fleet.ray.exceptions.RayError:
            continue  # a node that left meanwhile took its files along


# --- planning --------------------------------------------------------------------------------------------------------


def _plan(contract: Contract, nodes: Sequence[FleetNode], per_gpu: bool) -> FleetState:
    units: list[FleetUnit] = []
    for node in nodes:
        if not per_gpu:
            units.append(FleetUnit(name=node.name, node=node.name))
            continue
        units += [FleetUnit(name=f"{node.name}/gpu{i}", node=node.name) for i in range(int(node.gpus))]
    if not units:
        raise BadInput("--per gpu: no chosen node has a GPU; leave it out to measure nodes")
    now = datetime.now(UTC)
    return FleetState(
        fleet_id=new_fleet_id(contract.name, now),
        started_at=now.isoformat(timespec="seconds"),
        contract=contract,
        per_gpu=per_gpu,
        units=tuple(units),
    )


def new_fleet_id(name: str, now: datetime) -> str:
    """A name of its own for a fleet run."""
    return f"fleet-{name}-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def _unfinished(out: Path, contract: Contract) -> tuple[FleetState, Path]:
    files = sorted(out.glob(f"fleet-*/{FLEET_FILE}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files:
        try:
            state = read_state(file)
        except BadInput:
            continue  # a damaged one of another run must not stop this one
        if state.finished_at is None and state.contract.contract_id == contract.contract_id:
            again = tuple(
                unit
                if unit.state is UnitState.DONE
                else unit.model_copy(update={"state": UnitState.PENDING, "why": ""})
                for unit in state.units
            )
            return state.model_copy(update={"units": again}), file.parent
    raise BadInput(f"{out}: no unfinished fleet run of {contract.name}; start one without --resume")


def _with_gpus(options: FleetOptions, per_gpu: bool) -> FleetOptions:
    from dataclasses import replace

    return replace(options, per_gpu=per_gpu)


def _stand_in(
    state: FleetState, chosen: Sequence[FleetNode], spare: Sequence[FleetNode], unit: FleetUnit
) -> FleetNode | None:
    """For a resumed unit whose node is gone: a node of the cluster that no other unit belongs to."""
    taken = {one.node for one in state.units}
    return next((node for node in (*chosen, *spare) if node.name not in taken), None)


def _missing(unit: FleetUnit) -> FleetNode:
    """A node that is not there: dispatching to it reports it as lost, which is what it is."""
    return FleetNode(node_id="0" * 56, name=unit.node, address="", cpus=1.0, gpus=0.0)


def folder_text(folder: Path | None) -> str:
    """A folder as a task carries it; nothing where the node's own is meant."""
    return "" if folder is None else str(folder)


def environment_of(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` pairs; a bare NAME takes this process's own value."""
    found = {}
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not name or (not given and name not in os.environ):
            raise BadInput(f"--env {pair!r}: write NAME=VALUE, or the name of a variable that is set here")
        found[name] = value if given else os.environ[name]
    return found
