"""An experiment over a fleet: every block wholly on one node, blocks side by side, each visit alone on its node.

The design, the order within blocks and the analysis are those of one machine; what differs is who visits. A visit is a
run of its own, since a node keeps nothing between visits.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lynxbench.errors import BadInput, CannotRun
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.executor.declaration import Declaration
from lynxbench.experiment.cells import changed
from lynxbench.experiment.defining import Defined
from lynxbench.experiment.definition import Definition
from lynxbench.experiment.experiment_folder import ExperimentFolder
from lynxbench.experiment.experiment_run import (
    Experiment,
    ExperimentFinished,
    ExperimentProgress,
    open_experiment,
    visits_of,
)
from lynxbench.experiment.visiting import Visits
from lynxbench.experiment.walking import Visit, Walk
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.fleet_book import FleetProgress, flat
from lynxbench.fleet.fleet_jobs import FleetJob, JobDone, JobOptions, serve_jobs
from lynxbench.fleet.node_process import Given, LockFile
from lynxbench.model.fleet import FleetUnit
from lynxbench.model.serving import ServedEngine
from lynxbench.run.run_outcome import Recorders


def refuse_undispatchable(definition: Definition, options: JobOptions) -> None:
    """What cannot be asked of nodes is refused before anything starts."""
    name = definition.name
    if definition.lanes:
        raise BadInput(f"{name}: lanes are parts of one machine, and a fleet's nodes are measured whole; leave out one")
    started = definition.server is not None or definition.launches
    if isinstance(definition.contract.engine, ServedEngine) and not started:
        raise BadInput(
            f"{name}: every node would ask the same server at {definition.contract.engine.url} at the same time; "
            "give `server`, so that each node starts its own, or leave out --ray and --nodes"
        )
    own = "a server" if started else "an environment" if _has_locks(definition) else ""
    if options.together and own:
        raise BadInput(f"{name}: {own} is made for every visit, once a host at a time; leave out --together")


def run_dispatched(
    fleet: Fleet,
    defined: Defined,
    out: Path,
    declaration: Declaration | None,
    progress: ExperimentProgress,
    recorders: Recorders | None,
    *,
    nodes: str | None = None,
    options: JobOptions | None = None,
    resume: bool = False,
    patience_s: float = 0.0,
) -> ExperimentFinished:
    """Run an experiment on a fleet's nodes, or go on with the newest unfinished one of this definition."""
    options = options or JobOptions()
    refuse_undispatchable(defined.definition, options)
    chosen, spare = choose(fleet.nodes(), nodes)
    folder = open_experiment(defined, out, resume=resume, dispatched=True)
    visits = visits_of(defined, folder, out, declaration, recorders or (lambda: None))
    return FleetExperiment(folder, visits, progress, patience_s, fleet, (chosen, spare), options, recorders).carry_out()


class FleetExperiment(Experiment, FleetProgress):
    """One experiment at work on many nodes: gives their jobs, and hears how far they are."""

    def __init__(
        self,
        folder: ExperimentFolder,
        visits: Visits,
        progress: ExperimentProgress,
        patience_s: float,
        fleet: Fleet,
        nodes: tuple[Sequence[FleetNode], Sequence[FleetNode]],
        options: JobOptions,
        recorders: Recorders | None,
    ) -> None:
        super().__init__(folder, visits, progress, patience_s)
        self._fleet, self._options, self._recorders = fleet, options, recorders
        self._nodes = {node.name: node for group in nodes for node in group}
        self._spare = [node.name for node in nodes[1]]
        self._walk = self._resumed([node.name for node in nodes[0]])
        self._open: dict[str, Visit] = {}

    def visit_all(self) -> None:
        """Every cell in every block, unless it was before; then say which cells could not be run anywhere."""
        serve_jobs(
            self._fleet,
            self,
            self.folder.runs,
            fleet_id=f"fleet-{self.folder.plan.experiment_id}",
            options=self._options,
            progress=self,
            recorders=self._recorders,
        )
        for cell in self.cells:
            state = self.folder.cell(cell.number)
            failed = sorted(state.failed.items())
            if failed and not state.runs:
                self.rule_out(cell, failed[0][1])
                continue
            for block, why in failed:
                self._note_once(f"{cell.words}, block {block + 1} on {self.folder.state.nodes[block]}: {why}")
        self._note_unlike_nodes()

    # --- a source of jobs ---

    def more(self) -> Sequence[FleetJob] | None:
        """The next visit of every node that has none."""
        if self._walk.over:
            return None
        if self._walk.stuck:
            raise CannotRun(
                f"no node is left to go on with; what was measured is kept in {self.folder.path}. "
                "Go on with the same command and --resume when there are nodes again"
            )
        jobs = []
        for visit in self._walk.next():
            if self.folder.state.nodes.get(visit.block) != visit.node:
                self.folder.give_block(visit.block, visit.node)
            job = self._job(visit)
            self._open[job.name] = visit
            jobs.append(job)
        return jobs

    def ended(self, done: JobDone) -> None:
        """Keep what a visit left, or what became of it."""
        visit = self._open.pop(done.unit.name)
        cell = self.cells[visit.cell]
        if done.node_lost:
            self._lost(visit.node, done.unit.why)
            return
        if done.error is not None and not isinstance(done.error, CannotRun):
            raise done.error  # the same on every node: wrong input stays wrong
        if done.folder is not None:
            self.folder.add_run(cell.number, visit.block, done.folder.name)
        else:
            self.folder.add_failure(cell.number, visit.block, done.unit.why)
        self.folder.add_visit(cell.number, visit.block)
        self._walk.done(visit, refused=done.folder is None)

    # --- what nodes say ---

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        """A visit starts, or starts again."""
        visit = self._open[unit]
        self.progress.visit(visit.block, visit.place, self.cells[visit.cell], node)

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        """A node says how far its visit is."""
        if "restless" in message:
            visit = self._open[unit]
            words = f"{visit.node} was not calm within {message['restless']:g} s"
            self._note(self.cells[visit.cell], visit.block, words)

    def unit_ended(self, unit: FleetUnit, left: int) -> None:
        """A visit has its outcome."""
        if unit.why:
            self.progress.note(f"{unit.name} {unit.state}: {unit.why}")

    # --- inside ---

    def _resumed(self, names: Sequence[str]) -> Walk:
        """The walk from where the folder says it is; blocks of nodes that are gone begin anew."""
        state = self.folder.state
        walk = Walk(
            self.folder.plan.order,
            names,
            homes=state.nodes,
            visited=[(number, block) for number, cell in state.cells.items() for block in cell.visited],
            refused=[(number, state.nodes[b]) for number, c in state.cells.items() for b in c.failed],
            ruled_out=[
                cell.number for cell in self.cells if cell.contract is None or self.folder.cell(cell.number).infeasible
            ],
        )
        for gone in sorted(set(state.nodes.values()) - set(names)):
            for block in walk.lose(gone):
                self._begin_anew(block, gone, "it is not among the nodes any more")
        return walk

    def _job(self, visit: Visit) -> FleetJob:
        cell = self.cells[visit.cell]
        assert cell.contract is not None
        definition = self.definition
        text = None if cell.lock is None else (self.visits.base / cell.lock).read_text(encoding="utf-8")
        return FleetJob(
            # With its node: what another one had begun of it is never gone on with.
            name=flat(f"block-{visit.block + 1:02d}-cell-{cell.number:03d}-{visit.node}"),
            contract=changed(cell.contract, {}, restarts=1),
            declaration=self.visits.declaration,
            given=Given(
                environment=cell.environment,
                lock=None if cell.lock is None or text is None else LockFile(name=Path(cell.lock).name, text=text),
                inherits=definition.inherit_packages,
                server=definition.server,
                server_values=cell.server,
                patience_s=self._patience_s,
            ),
            node=self._nodes[visit.node],
        )

    def _lost(self, node: str, why: str) -> None:
        for block in self._walk.lose(node):
            self._begin_anew(block, node, why)
            if self._walk.gives_up(block):
                self.folder.add_note(f"block {block + 1} is given up: it lost its node too often")
        alive = {there.node_id for there in self._fleet.nodes()}
        while self._spare:
            name = self._spare.pop(0)
            if self._nodes[name].node_id in alive:
                self._walk.join(name)
                break

    def _begin_anew(self, block: int, node: str, why: str) -> None:
        left = self.folder.drop_block(block)
        aside = f"; {left} of its results stay in the record and take no part" if left else ""
        self.folder.add_note(f"block {block + 1} left {node} ({why}) and begins anew on another node{aside}")

    def _note_unlike_nodes(self) -> None:
        """Nodes that are different executors: an effect is then a mean over them, and says so."""
        kinds: dict[str, set[str]] = {}
        for cell in self.cells:
            for block, name in self.folder.cell(cell.number).runs.items():
                executor = RunFolder.open(self.folder.runs / name).registration.executor
                kinds.setdefault(executor.executor_id, set()).add(self.folder.state.nodes[int(block)])
        if len(kinds) > 1:
            groups = "; ".join(", ".join(sorted(nodes)) for nodes in sorted(kinds.values(), key=sorted))
            self._note_once(f"the nodes are {len(kinds)} kinds of executor ({groups}): effects are means over them")

    def _note_once(self, words: str) -> None:
        if words not in self.folder.state.notes:
            self.folder.add_note(words)


def _has_locks(definition: Definition) -> bool:
    return any("packages" in factor.settings(at) for factor in definition.factors for at in range(len(factor.levels)))
