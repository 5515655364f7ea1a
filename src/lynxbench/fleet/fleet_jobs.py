"""Independent runs on a fleet's nodes, each alone on its node: for experiments, schedules and programs of your own.

`run_jobs` takes a list and keeps its account on disk, as a fleet run does. `serve_jobs` asks a source for jobs while
others run and tells it every end; whoever is the source keeps the account.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from lynxbench.errors import BadInput, Interrupted, LynxbenchError
from lynxbench.evidence.folders import dated_name
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.dispatch import Dispatch, End, FleetTask, More, TaskOutcome, Work
from lynxbench.fleet.fleet_book import FleetBook, FleetProgress, FleetState, FleetUnits
from lynxbench.fleet.node_process import Given, NodeRequest
from lynxbench.fleet.node_work import NodeTask, clear_scratch, measure_here
from lynxbench.model.contract import Contract
from lynxbench.model.fleet import FleetUnit, UnitState
from lynxbench.run.run_outcome import Recorders

CLEAR_S = 30.0


@dataclass(frozen=True, slots=True)
class FleetJob:
    """One run: an experiment's visit, a scheduled run."""

    name: str
    contract: Contract
    declaration: Declaration | None = None
    given: Given | None = None
    """What its measured processes are given, and what is done before them."""
    node: FleetNode | None = None
    """Where it has to run; None is any node, and another one when that is lost."""
    gpus: float | None = None
    cpus: float | None = None
    """What it takes of its node; None is all of it."""
    substitutes: bool = False
    """Whether a spare node may stand in when its own is lost."""


@dataclass(frozen=True, slots=True)
class JobDone:
    """A job's end: the folder of its finished run, or why there is none."""

    unit: FleetUnit
    folder: Path | None
    error: LynxbenchError | None = None

    @property
    def node_lost(self) -> bool:
        """Whether it has no run because its node went away, which says nothing of the job."""
        ends = [attempt.ended for attempt in self.unit.attempts]
        return self.unit.state is UnitState.LOST and (not ends or ends[-1] == End.NODE_LOST.value)


class JobSource(Protocol):
    """Where jobs come from while others run, and who is told their ends."""

    def more(self) -> Sequence[FleetJob] | None:
        """Jobs to add now; called a few times a second. None when there will be no more."""

    def ended(self, done: JobDone) -> None:
        """A job has its end; one that is to be tried again is given again, by the same name or another."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How jobs are carried out."""

    together: bool = False
    """Do not wait for other nodes of the same host."""
    cwd: Path | None = field(default_factory=Path.cwd)
    """Where runs look for your own code; None takes the folder that was shipped to the node."""
    environment: Mapping[str, str] = field(default_factory=dict)


def run_jobs(
    fleet: Fleet,
    jobs: Sequence[FleetJob],
    out: Path,
    *,
    nodes: str | None = None,
    options: JobOptions | None = None,
    progress: FleetProgress | None = None,
    recorders: Recorders | None = None,
) -> tuple[JobDone, ...]:
    """Independent runs on whatever nodes are free; one outcome a job, in the order given.

    A lost node's job goes to another one; a job whose run says no has its error.
    """
    if len({job.name for job in jobs}) < len(jobs):
        raise BadInput("jobs of a fleet need names of their own")
    if not jobs:
        return ()
    options = options or JobOptions()
    pool, _ = choose(fleet.nodes(), nodes)
    state = new_state("jobs", jobs[0].contract, [_unit(job) for job in jobs])
    book = FleetBook(state, out / state.fleet_id, progress, recorders)
    book.begin()
    tasks = [task_of(job, book, options, recorders, pool) for job in jobs]
    carry_out(fleet, book, tasks, pool=pool, together=options.together)
    return tuple(_done(unit, book) for unit in book.state.units)


def serve_jobs(
    fleet: Fleet,
    source: JobSource,
    runs: Path,
    *,
    fleet_id: str,
    options: JobOptions | None = None,
    progress: FleetProgress | None = None,
    recorders: Recorders | None = None,
) -> None:
    """Carry out what a source gives until it gives no more; finished runs lie under `runs`, one folder each.

    A job under the same fleet id and name goes on with what its node kept of it.
    """
    options = options or JobOptions()
    state = FleetUnits(fleet_id=fleet_id, started_at=datetime.now(UTC).isoformat(timespec="seconds"))
    book = FleetBook(state, runs.parent, progress, recorders, runs=runs)
    book.begin()

    def more() -> list[FleetTask] | None:
        jobs = source.more()
        if jobs is None:
            return None
        for job in jobs:
            book.add(_unit(job))
        return [task_of(job, book, options, recorders) for job in jobs]

    def entered(name: str) -> None:
        done = _done(book.forget(name), book)
        book.errors.pop(name, None)
        source.ended(done)

    carry_out(fleet, book, (), together=options.together, more=more, entered=entered)


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

    def began(task: FleetTask, node: FleetNode, attempt: int) -> None:
        book.progress.unit_began(task.key, node.name, attempt)

    try:
        for outcome in Dispatch(fleet, work, book.hear, spare, pool, together, began, more, late=enter).run(tasks):
            enter(outcome)
    except KeyboardInterrupt:
        if not book.keeps_account:
            raise
        done = sum(unit.state is UnitState.DONE for unit in book.state.units)
        raise Interrupted(
            f"interrupted; {done} of {len(book.state.units)} units are kept in {book.folder}. "
            "Go on with the same command and --resume"
        ) from None
    finally:
        book.leave_none_open()
    book.finish()
    for reference in [fleet.call_on(node, clear_scratch, book.state.fleet_id) for node in fleet.nodes()]:
        try:
            fleet.ray.get(reference, timeout=CLEAR_S)
        except fleet.ray.exceptions.RayError:
            continue  # a node that left meanwhile took its files along


def new_fleet_id(name: str, now: datetime) -> str:
    """A name of its own for a fleet run."""
    return dated_name(f"fleet-{name}", now)


def new_state(name: str, contract: Contract, units: Sequence[FleetUnit], *, per_gpu: bool = False) -> FleetState:
    """A fleet run of which nothing has been run yet."""
    now = datetime.now(UTC)
    return FleetState(
        fleet_id=new_fleet_id(name, now),
        started_at=now.isoformat(timespec="seconds"),
        contract=contract,
        per_gpu=per_gpu,
        units=tuple(units),
    )


def task_of(
    job: FleetJob,
    book: FleetBook[Any],
    options: JobOptions,
    recorders: Recorders | None,
    pool: Sequence[FleetNode] = (),
) -> FleetTask:
    """A job as it is dispatched: to its node, or to any of the pool."""
    request = NodeRequest(
        contract=job.contract,
        declaration=job.declaration,
        recorded=recorders is not None,
        given=job.given,
    )
    payload = NodeTask.of(book.state.fleet_id, job.name, request, options.cwd, options.environment)
    nodes = pool if job.node is None else (job.node,)
    gpus = min((node.gpus for node in nodes), default=0.0) if job.gpus is None else job.gpus
    return FleetTask(job.name, payload, job.node, gpus, job.cpus, job.substitutes)


def _unit(job: FleetJob) -> FleetUnit:
    return FleetUnit(name=job.name, node="" if job.node is None else job.node.name)


def _done(unit: FleetUnit, book: FleetBook[Any]) -> JobDone:
    return JobDone(unit, None if unit.folder is None else book.folder / unit.folder, book.errors.get(unit.name))
