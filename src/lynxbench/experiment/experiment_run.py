"""The order of an experiment: register, visit the cells block by block in random order, conclude each, analyse all."""

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Protocol

from lynxbench.errors import BadInput, CannotRun, Interrupted, Refused
from lynxbench.evidence.folders import newest_unfinished
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.declaration import Declaration
from lynxbench.experiment.cells import CellPlan, changed, plan_cells
from lynxbench.experiment.defining import Defined
from lynxbench.experiment.definition import Definition
from lynxbench.experiment.experiment_folder import ANALYSIS_FILE, EXPERIMENT_FILE, ExperimentFolder
from lynxbench.experiment.experiment_outcome import blocks_of_lane, describe, kept_values
from lynxbench.experiment.visiting import Setting, Visits, run_responses, take
from lynxbench.measure.calm import wait_until_calm
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.job import JobReport
from lynxbench.model.serving import ServedEngine
from lynxbench.run.run_outcome import Progress, Recorders

ENVIRONMENTS = "environments"
"""Beside the experiments: environments are used again by the next one."""


class ExperimentProgress(Progress, Protocol):
    """Who is told how far the experiment is."""

    def start(self, definition: Definition, folder: Path, cells: int) -> None:
        """It is registered and starts, or goes on."""

    def visit(self, block: int, place: int, cell: CellPlan, node: str = "") -> None:
        """A cell is about to be visited; on a fleet, at a node."""

    def skip(self, cell: CellPlan, reason: str) -> None:
        """A cell cannot be run."""


@dataclass(frozen=True, slots=True)
class ExperimentFinished:
    """An experiment's document, and where everything lies."""

    document: ExperimentDocument
    folder: Path


def run_experiment(
    defined: Defined,
    out: Path,
    declaration: Declaration | None,
    progress: ExperimentProgress,
    recorders: Recorders,
    *,
    resume: bool = False,
    patience_s: float = 0.0,
) -> ExperimentFinished:
    """Run an experiment from the beginning, or go on with the newest unfinished one of this definition.

    With patience, each visit waits so long for the machine to be as calm as the contract asks.
    """
    folder = open_experiment(defined, out, resume=resume)
    visits = visits_of(defined, folder, out, declaration, recorders)
    return Experiment(folder, visits, progress, patience_s).carry_out()


def open_experiment(defined: Defined, out: Path, *, resume: bool, dispatched: bool = False) -> ExperimentFolder:
    """A new experiment's folder, or that of the newest unfinished one of this definition."""
    definition = defined.definition
    for lock in sorted({cell.lock for cell in plan_cells(definition) if cell.lock is not None}):
        if not (defined.folder / lock).is_file():
            raise BadInput(f"{definition.name}: packages: {lock} is no file beside the experiment; write its lock file")
    if not resume:
        folder = ExperimentFolder.create(out, definition, datetime.now(UTC))
        if dispatched:
            folder.set(dispatched=True)
        return folder
    begun = newest_unfinished(
        out,
        EXPERIMENT_FILE,
        ANALYSIS_FILE,
        ExperimentFolder.open,
        lambda folder: folder.plan.definition.definition_id == definition.definition_id,
    )
    if begun is None:
        raise BadInput(f"{out}: no unfinished experiment of {definition.name}; start one without --resume")
    if begun.state.dispatched != dispatched:
        place, how = ("on a fleet", "with --ray or --nodes") if begun.state.dispatched else ("here", "without --ray")
        raise BadInput(f"{begun.path}: it was begun {place}, and its blocks stay there; go on {how}, or start anew")
    return begun


def visits_of(
    defined: Defined, folder: ExperimentFolder, out: Path, declaration: Declaration | None, recorders: Recorders
) -> Visits:
    """What the visits of an experiment share."""
    return Visits(
        runs=folder.runs,
        environments=out / ENVIRONMENTS,
        base=defined.folder,
        declaration=declaration,
        recorders=recorders,
        inherits=defined.definition.inherit_packages,
    )


def own_tree() -> tuple[int, ...]:
    """This process with all below it: every lane's worker is there, and none of them is foreign load to another."""
    return (os.getpid(),)


class Experiment:
    """One experiment at work on this machine."""

    def __init__(
        self, folder: ExperimentFolder, visits: Visits, progress: ExperimentProgress, patience_s: float = 0.0
    ) -> None:
        self.folder, self.visits, self._patience_s = folder, visits, patience_s
        self.progress: ExperimentProgress = progress
        self.definition = folder.plan.definition
        self.cells = plan_cells(self.definition)
        self.served = isinstance(self.definition.contract.engine, ServedEngine)

    def carry_out(self) -> ExperimentFinished:
        began = perf_counter()
        self.progress.start(self.definition, self.folder.path, len(self.cells))
        try:
            for cell in self.cells:
                if cell.contract is None and not self.folder.cell(cell.number).infeasible:
                    self.rule_out(cell, cell.reason)
            self.visit_all()
            self._end_runs()
        except KeyboardInterrupt:
            raise Interrupted.while_kept_in(self.folder.path) from None
        finally:
            self.folder.set(spent_s=self.folder.state.spent_s + perf_counter() - began)
        values = kept_values(self.folder, self.cells)
        document = describe(self.folder, self.cells, values, datetime.now(UTC))
        write_text(self.folder.path / ANALYSIS_FILE, document.model_dump_json(indent=1))
        return ExperimentFinished(document, self.folder.path)

    # --- visiting ---

    def visit_all(self) -> None:
        """Every cell in every block, unless it was before."""
        if self.definition.lanes and not self.folder.state.serial and self._lanes_are_apart():
            walk_lanes(self._visit_block, len(self.definition.lanes), len(self.folder.plan.order), self.progress)
            return
        for block in range(len(self.folder.plan.order)):
            self._visit_block(block, 0, block, self.progress, beside=tuple)

    def _lanes_are_apart(self) -> bool:
        baseline = next((cell for cell in self.cells if not self.folder.cell(cell.number).infeasible), None)
        if baseline is None:
            return False
        settings = [self.setting(baseline, lane) for lane in range(len(self.definition.lanes))]
        judged = disturbance(settings, self.visits, self.progress, self.definition)
        self.folder.add_note(judged.words)
        self.folder.set(serial=judged.disturbed)
        return not judged.disturbed

    def _visit_block(
        self, block: int, lane: int, restart: int, progress: Progress, beside: Callable[[], tuple[int, ...]] = own_tree
    ) -> None:
        for place, position in enumerate(self.folder.plan.order[block]):
            cell = self.cells[position]
            state = self.folder.cell(cell.number)
            if state.infeasible or block in state.visited:
                continue
            self.progress.visit(block, place, cell)
            bound = self.definition.contract.protocol.foreign_load
            if self._patience_s and wait_until_calm(bound, self._patience_s) is None:
                self._note(cell, block, f"the machine was not calm within {self._patience_s:g} s")
            try:
                if self.served:
                    self._ask(cell, block)
                    why = ""
                else:
                    why = take(self._run_of(cell, lane), restart, progress, beside)
            except CannotRun as error:
                why = str(error)
            if why and not self.folder.cell(cell.number).visited:
                self.rule_out(cell, why)
                continue
            self.folder.add_visit(cell.number, block)
            if why:
                self._note(cell, block, why)

    def _note(self, cell: CellPlan, block: int, words: str) -> None:
        self.folder.add_note(f"{cell.words}, block {block + 1}: {words}")

    def setting(self, cell: CellPlan, lane: int = 0) -> Setting:
        """What a cell runs, in a lane."""
        assert cell.contract is not None
        lanes = self.definition.lanes
        lane_environment = lanes[lane].environment if lanes else {}
        mine = len(blocks_of_lane(self.folder, lane))
        return Setting(
            contract=changed(cell.contract, {}, restarts=max(mine, 1)),
            environment={**lane_environment, **cell.environment},
            lock=cell.lock,
            cpus=lanes[lane].cpus if lanes else None,
            server=self.definition.server,
            server_values=cell.server,
        )

    def _run_of(self, cell: CellPlan, lane: int) -> RunFolder:
        """The run that a cell's processes in a lane belong to; registered when it is first needed."""
        state = self.folder.cell(cell.number)
        if str(lane) in state.runs:
            return self._begun(cell, lane, state.runs[str(lane)])
        run = self.visits.begin(self.setting(cell, lane))
        self.folder.add_run(cell.number, lane, run.path.name)
        return run

    def _begun(self, cell: CellPlan, lane: int, name: str) -> RunFolder:
        """A run of an earlier call; a folder may be a stranger's, so it must be registered as the definition has it."""
        run, setting = RunFolder.open(self.folder.runs / name), self.setting(cell, lane)
        asked = (setting.contract.contract_id, self.visits.surroundings(setting))
        if asked != (run.registration.contract.contract_id, run.registration.surroundings):
            raise Refused(f"{run.path}: registered with another contract or surroundings than its cell; start anew")
        return run

    def _ask(self, cell: CellPlan, block: int) -> None:
        log = self.folder.path / f"server-{cell.number:03d}-{block:02d}.txt"
        finished = self.visits.ask(self.setting(cell), self.progress, log)
        self.folder.add_run(cell.number, block, finished.folder.name)

    def rule_out(self, cell: CellPlan, reason: str) -> None:
        """A cell that cannot be run is a finding, recorded with its reason."""
        self.folder.rule_out(cell.number, reason)
        self.progress.skip(cell, reason)
        if not self.served and not self.folder.state.dispatched:
            for name in self.folder.cell(cell.number).runs.values():
                self.visits.abandon(RunFolder.open(self.folder.runs / name), reason)

    def _end_runs(self) -> None:
        """Conclude the runs that were measured in pieces; those of a server or a fleet have ended with their visits."""
        if self.served or self.folder.state.dispatched:
            return
        for cell in self.cells:
            state = self.folder.cell(cell.number)
            for lane, name in () if state.infeasible else state.runs.items():
                run = self._begun(cell, int(lane), name)
                if not run.finished:
                    self.visits.end(run, self.progress)


# --- lanes: blocks side by side, where parts of the machine do not disturb each other ---------------------------------


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Whether lanes disturb each other, and what showed it."""

    disturbed: bool
    words: str


class LaneProgress:
    """One lane's progress: passes on the ends of processes alone, and stops its own when another lane failed."""

    def __init__(self, progress: Progress, stopped: threading.Event) -> None:
        self._progress, self._stopped = progress, stopped

    def begin(self, run: RunFolder) -> None:
        """A run starts."""

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        if self._stopped.is_set():
            raise Interrupted("another lane stopped")

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._progress.end_slot(slot, report, spent_s)

    def note(self, text: str) -> None:
        """A step between processes."""


def walk_lanes(
    visit_block: Callable[[int, int, int, Progress], None], lanes: int, blocks: int, progress: Progress
) -> None:
    """Lanes take the blocks in turn; the first failure ends the others in order and is raised.

    `visit_block` is given the block, its lane, which of the lane's own blocks it is, and the lane's progress.
    """
    stopped = threading.Event()
    quiet = LaneProgress(progress, stopped)

    def walk(lane: int) -> None:
        try:
            for restart, block in enumerate(range(lane, blocks, lanes)):
                visit_block(block, lane, restart, quiet)
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(max_workers=lanes) as pool:
        futures = [pool.submit(walk, lane) for lane in range(lanes)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stopped.set()
            raise


def disturbance(settings: Sequence[Setting], visits: Visits, progress: Progress, definition: Definition) -> Disturbance:
    """The baseline on the first lane alone, then on all lanes at once: they may differ by half of what counts."""
    single = [replace(setting, contract=changed(setting.contract, {}, restarts=1)) for setting in settings]
    alone = _measured(single[0], visits, progress, definition)
    quiet = LaneProgress(progress, threading.Event())
    with ThreadPoolExecutor(max_workers=len(single)) as pool:
        together = list(pool.map(lambda setting: _measured(setting, visits, quiet, definition), single))
    if not all(math.isfinite(value) for value in (alone, *together)):
        return Disturbance(
            True, "lanes: the baseline could not be measured in all of them; blocks go one after another"
        )
    shift = math.log(together[0] / alone)
    words = f"the baseline changes by {math.expm1(shift):+.1%} when the other {len(single) - 1} lanes work"
    if abs(shift) > math.log1p(definition.smallest_effect) / 2:
        return Disturbance(True, f"lanes disturb each other: {words}; blocks go one after another")
    return Disturbance(False, f"lanes do not disturb each other: {words}")


def _measured(setting: Setting, visits: Visits, progress: Progress, definition: Definition) -> float:
    run = visits.begin(setting)
    take(run, 0, progress, own_tree)
    finished = visits.end(run, progress)
    return run_responses(finished.folder, definition.response).get(0, math.nan)
