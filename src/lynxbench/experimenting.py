"""The order of an experiment: register, visit the cells block by block in random order, conclude each, analyse all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Protocol

from pydantic import ValidationError

from lynxbench import __version__
from lynxbench.defining import Defined
from lynxbench.errors import BadInput, BadResult, CannotRun, Interrupted
from lynxbench.evidence.documents import RESULT_FILE, read_result, write_text
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.executor.declaration import Declaration
from lynxbench.experiment.analysing import analyse, cell_intervals
from lynxbench.experiment.cells import CellPlan, changed, plan_cells
from lynxbench.experiment.definition import Definition
from lynxbench.experiment.owners import higher_is_better
from lynxbench.experiment.state import ANALYSIS_FILE, ExperimentFolder, find_unfinished_experiment
from lynxbench.experiment.wording import alias_words, design_words
from lynxbench.lanes import disturbance, walk_lanes
from lynxbench.measure.responses import response_unit
from lynxbench.model.contract import ServedEngine
from lynxbench.model.experiment import Analysis, CellShown, CellStatus, ExperimentDocument, FactorShown
from lynxbench.model.interval import Interval
from lynxbench.model.result import Result
from lynxbench.running import Progress
from lynxbench.stats.designs import Cell
from lynxbench.visiting import (
    Recorders,
    Setting,
    Where,
    abandon,
    begin,
    end,
    hold_against,
    responses,
    restarts_of,
    served_response,
    take,
    visit_server,
)

ENVIRONMENTS = "environments"
"""Beside the experiments: environments are used again by the next one."""


class ExperimentProgress(Progress, Protocol):
    """Who is told how far the experiment is."""

    def start(self, definition: Definition, folder: Path, cells: int) -> None:
        """It is registered and starts, or goes on."""

    def visit(self, block: int, place: int, cell: CellPlan) -> None:
        """A cell is about to be visited."""

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
) -> ExperimentFinished:
    """Run an experiment from the beginning, or go on with the newest unfinished one of this definition."""
    definition = defined.definition
    if resume:
        found = find_unfinished_experiment(out, definition.definition_id)
        if found is None:
            raise BadInput(f"{out}: no unfinished experiment of {definition.name}; start one without --resume")
        folder = found
    else:
        folder = ExperimentFolder.create(out, definition, datetime.now(UTC))
    where = Where(
        runs=folder.runs,
        environments=out / ENVIRONMENTS,
        base=defined.folder,
        declaration=declaration,
        recorders=recorders,
        inherits=definition.inherit_packages,
    )
    return _Experiment(folder, where, progress).carry_out()


class _Experiment:
    """One experiment at work."""

    def __init__(self, folder: ExperimentFolder, where: Where, progress: ExperimentProgress) -> None:
        self.folder, self.where = folder, where
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
                    self._rule_out(cell, cell.reason)
            if self.definition.lanes and not self.folder.state.serial:
                self._in_lanes()
            else:
                self._one_after_another()
            values = self._conclude()
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; what was measured is kept in {self.folder.path}. "
                "Go on with the same command and --resume"
            ) from None
        finally:
            self.folder.set(spent_s=self.folder.state.spent_s + perf_counter() - began)
        document = describe(self.folder, self.cells, values, datetime.now(UTC))
        write_text(self.folder.path / ANALYSIS_FILE, document.model_dump_json(indent=1))
        return ExperimentFinished(document, self.folder.path)

    # --- visiting ---

    def _one_after_another(self) -> None:
        for block, order in enumerate(self.folder.plan.order):
            for place, position in enumerate(order):
                self.visit(block, place, self.cells[position], lane=0, restart=block)

    def visit(
        self,
        block: int,
        place: int,
        cell: CellPlan,
        *,
        lane: int,
        restart: int,
        beside: Callable[[], tuple[int, ...]] = tuple,
        progress: Progress | None = None,
    ) -> None:
        """One fresh process of a cell, unless it was taken before or cannot be."""
        state = self.folder.cell(cell.number)
        if state.infeasible or block in state.visited:
            return
        self.progress.visit(block, place, cell)
        try:
            why = (
                self._ask(cell, block)
                if self.served
                else self._take(cell, lane, restart, beside, progress or self.progress)
            )
        except CannotRun as error:
            why = str(error)
        state = self.folder.cell(cell.number)
        if why and not state.visited:
            self._rule_out(cell, why)
            return
        self.folder.add_visit(cell.number, block)
        if why:
            self.folder.add_note(f"{cell.words}, block {block + 1}: {why}")

    def setting(self, cell: CellPlan, lane: int = 0) -> Setting:
        """What a cell runs, in a lane."""
        assert cell.contract is not None
        lanes = self.definition.lanes
        lane_environment = lanes[lane].environment if lanes else {}
        mine = len(_blocks_of_lane(self.folder, lane))
        return Setting(
            contract=changed(cell.contract, {}, restarts=max(mine, 1)),
            environment={**lane_environment, **cell.environment},
            lock=cell.lock,
            cpus=lanes[lane].cpus if lanes else None,
            server=self.definition.server,
            server_values=cell.server,
        )

    def run_of(self, cell: CellPlan, lane: int) -> RunFolder:
        """The run that a cell's processes in a lane belong to; registered when it is first needed."""
        state = self.folder.cell(cell.number)
        if str(lane) in state.runs:
            return RunFolder.open(self.folder.runs / state.runs[str(lane)])
        setting = self.setting(cell, lane)
        run = begin(setting, self.where)
        self.folder.add_run(cell.number, lane, run.path.name)
        return run

    def _take(
        self, cell: CellPlan, lane: int, restart: int, beside: Callable[[], tuple[int, ...]], progress: Progress
    ) -> str:
        return take(self.run_of(cell, lane), restart, progress, beside)

    def _ask(self, cell: CellPlan, block: int) -> str:
        log = self.folder.path / f"server-{cell.number:03d}-{block:02d}.txt"
        finished = visit_server(self.setting(cell), self.where, self.progress, log)
        self.folder.add_run(cell.number, block, finished.folder.name)
        return ""

    def _rule_out(self, cell: CellPlan, reason: str) -> None:
        """A cell that cannot be run is a finding, recorded with its reason."""
        self.folder.rule_out(cell.number, reason)
        self.progress.skip(cell, reason)
        if not self.served:
            for name in self.folder.cell(cell.number).runs.values():
                abandon(RunFolder.open(self.folder.runs / name), self.where, reason)

    def _in_lanes(self) -> None:
        baseline = next((cell for cell in self.cells if not self.folder.cell(cell.number).infeasible), None)
        if baseline is None:
            return
        lanes = self.definition.lanes
        settings = [self.setting(baseline, lane) for lane in range(len(lanes))]
        said = disturbance(settings, self.where, self.progress, self.definition)
        self.folder.add_note(said.words)
        self.folder.set(serial=said.disturbed)
        if said.disturbed:
            self._one_after_another()
            return
        walk_lanes(self, len(lanes), self.folder.plan.order)

    # --- concluding ---

    def _conclude(self) -> dict[tuple[Cell, int], float]:
        values: dict[tuple[Cell, int], float] = {}
        response = self.definition.response
        for cell in self.cells:
            state = self.folder.cell(cell.number)
            if state.infeasible:
                continue
            for key, name in state.runs.items():
                path = self.folder.runs / name
                if self.served:
                    found = {0: served_response(read_result(path), response)}
                    blocks = {0: int(key)}
                else:
                    run = RunFolder.open(path)
                    finished = end(run, self.where, self.progress)
                    found = responses(finished, restarts_of(run), response)
                    blocks = _blocks_of_lane(self.folder, int(key))
                for restart, value in found.items():
                    if restart in blocks and math.isfinite(value) and value > 0:
                        values[cell.cell, blocks[restart]] = value
        return values


def _blocks_of_lane(folder: ExperimentFolder, lane: int) -> dict[int, int]:
    """Repetition of a lane's run to block of time; without lanes they are the same."""
    lanes = len(folder.plan.definition.lanes)
    blocks = range(len(folder.plan.order))
    if not lanes or folder.state.serial:
        return {block: block for block in blocks}
    return dict(enumerate(block for block in blocks if block % lanes == lane))


def describe(
    folder: ExperimentFolder,
    cells: Sequence[CellPlan],
    values: Mapping[tuple[Cell, int], float],
    now: datetime | None,
) -> ExperimentDocument:
    """The document of an experiment as far as it came."""
    definition, design = folder.plan.definition, folder.plan.definition.plan()
    intervals = cell_intervals(values, definition.contract.protocol.confidence)
    found = analyse(definition, values)
    unit = ""
    shown = []
    for cell in cells:
        one, of_unit = _describe_cell(folder, cell, values, intervals)
        unit = unit or of_unit
        shown.append(one)
    lanes = definition.lanes
    return ExperimentDocument(
        lynxbench_version=__version__,
        experiment_id=folder.plan.experiment_id,
        definition_id=folder.plan.definition_id,
        name=definition.name,
        question=definition.question,
        contract_name=definition.contract.name,
        contract_id=definition.contract.contract_id,
        response=definition.response,
        unit=response_unit(definition.response, unit),
        higher_is_better=higher_is_better(definition),
        design=design_words(definition, design),
        resolution=design.resolution,
        aliases=alias_words(definition, design),
        restarts=definition.restarts,
        seed=definition.seed,
        order=folder.plan.order,
        started_at=folder.plan.registered_at,
        finished_at=None if now is None else now.isoformat(timespec="seconds"),
        measuring_s=round(folder.state.spent_s, 1),
        lanes="one after another" if not lanes or folder.state.serial else f"{len(lanes)} lanes side by side",
        factors=tuple(
            FactorShown(
                name=factor.name,
                layer=factor.layer,
                owner=definition.contract.owner(factor.layer),
                sets=factor.sets or "several keys",
                levels=factor.level_names,
                target=factor.level_names[factor.target_index],
            )
            for factor in definition.factors
        ),
        cells=tuple(shown),
        analysis=None if isinstance(found, str) else found,
        analysis_missing=_missing(found, now),
        notes=folder.state.notes,
    )


def _missing(found: Analysis | str, now: datetime | None) -> str:
    if now is None:
        return "not finished; go on with lynxbench experiment run --resume"
    return found if isinstance(found, str) else ""


def _describe_cell(
    folder: ExperimentFolder,
    cell: CellPlan,
    values: Mapping[tuple[Cell, int], float],
    intervals: Mapping[Cell, Interval],
) -> tuple[CellShown, str]:
    state = folder.cell(cell.number)
    paths = [folder.runs / name for name in state.runs.values()]
    results: list[Result] = [read_result(path) for path in paths if (path / RESULT_FILE).exists()]
    blocks = range(len(folder.plan.order))
    taken = tuple(values.get((cell.cell, block)) for block in blocks)
    status, reason = CellStatus.MEASURED, ""
    if state.infeasible:
        status, reason = CellStatus.INFEASIBLE, state.infeasible
    elif not any(value is not None for value in taken):
        void = next((one for one in results if one.validity.verdict.value == "void"), None)
        status = CellStatus.PENDING if void is None else CellStatus.INFEASIBLE
        reason = "" if void is None else f"void: {'; '.join(void.validity.reasons)}"
    elif any(value is None for value in taken):
        status, reason = (
            CellStatus.PARTLY,
            f"{sum(value is None for value in taken)} of {len(taken)} visits gave nothing",
        )
    throughput = results[0].per_precision[0].throughput if results else None
    around = RunFolder.open(paths[0]).registration.surroundings if paths else None
    doubts = sorted({line for one in results for line in one.validity.reasons})
    one = CellShown(
        number=cell.number,
        levels=cell.levels,
        status=status,
        reason=reason,
        response=intervals.get(cell.cell),
        values=taken,
        contract_id=cell.contract.contract_id if cell.contract is not None else None,
        executor_id=results[0].executor_id if results else None,
        result_ids=tuple(one.result_id for one in results),
        validity="; ".join(doubts) if doubts else "valid" if results else "",
        packages=None if around is None else around.packages,
        accuracy=_accuracy(folder, paths[0], cell) if results else "",
    )
    return one, throughput.unit if throughput is not None else ""


def _accuracy(folder: ExperimentFolder, path: Path, cell: CellPlan) -> str:
    """Against the baseline cell, on the same inputs; no speed figure goes without it."""
    base = folder.cell(0)
    if cell.number == 0 or not base.runs or base.infeasible:
        return "reference" if cell.number == 0 else "not compared: the baseline was not measured"
    assert cell.contract is not None
    found = hold_against(folder.runs / next(iter(base.runs.values())), path, folder.plan.definition.contract)
    if isinstance(found, str):
        return found
    metrics = [f"{name} {value:.4g}" for name, value in found.metrics.items() if value is not None]
    loss = "" if found.loss is None else f"loss {found.loss:.2%} "
    return f"{loss}{found.verdict} ({', '.join(metrics[:3])})"


def read_experiment(path: Path) -> ExperimentDocument:
    """An experiment's document; of an unfinished one, what its finished runs say so far."""
    file = path / ANALYSIS_FILE if path.is_dir() else path
    if file.is_file():
        try:
            return ExperimentDocument.model_validate_json(file.read_bytes())
        except ValidationError as error:
            raise BadResult(f"{file}: {error.errors()[0]['msg']}; not an experiment's document") from None
    if not path.is_dir():
        raise BadInput(f"{path}: no such file; give an experiment's folder or its {ANALYSIS_FILE}")
    folder = ExperimentFolder.open(path)
    return describe(folder, plan_cells(folder.plan.definition), {}, None)
