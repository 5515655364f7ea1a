"""What an experiment comes to: its document, from the runs that its cells left behind."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from lynxbench import __version__
from lynxbench.evidence.documents import RESULT_FILE, read_document, read_result
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.experiment.analysing import analyse, cell_intervals, higher_is_better
from lynxbench.experiment.cells import CellPlan, plan_cells
from lynxbench.experiment.experiment_folder import ANALYSIS_FILE, ExperimentFolder
from lynxbench.experiment.visiting import NO_SERVED_ACCURACY, hold_against, run_responses
from lynxbench.experiment.wording import alias_words, design_words
from lynxbench.measure.responses import response_unit
from lynxbench.model.experiment import CellShown, CellStatus, ExperimentAnalysis, ExperimentDocument, FactorShown
from lynxbench.model.interval import Interval
from lynxbench.model.result import Result
from lynxbench.model.serving import ServedEngine
from lynxbench.stats.designs import Cell


def describe(
    folder: ExperimentFolder,
    cells: Sequence[CellPlan],
    values: Mapping[tuple[Cell, int], float],
    now: datetime | None,
    *,
    within_blocks: bool = False,
) -> ExperimentDocument:
    """The document of an experiment as far as it came; `within_blocks` with cell intervals as earlier analyses."""
    definition, design = folder.plan.definition, folder.plan.definition.plan()
    intervals = cell_intervals(values, definition.contract.protocol.confidence, within_blocks=within_blocks)
    nodes = tuple(folder.state.nodes.get(block, "") for block in range(len(folder.plan.order)))
    block = "block of time and node" if folder.state.dispatched else "block of time"
    analysis = analyse(definition, values, block=block)
    described = [_describe_cell(folder, cell, values, intervals) for cell in cells]
    unit = next((unit for _, unit in described if unit), "")
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
        lanes=_side_by_side(folder, nodes),
        nodes=nodes if folder.state.dispatched else (),
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
        cells=tuple(shown for shown, _ in described),
        analysis=None if isinstance(analysis, str) else analysis,
        analysis_missing=_missing(analysis, now),
        accuracy_missing=NO_SERVED_ACCURACY if isinstance(definition.contract.engine, ServedEngine) else "",
        notes=folder.state.notes,
    )


def _side_by_side(folder: ExperimentFolder, nodes: Sequence[str]) -> str:
    if folder.state.dispatched:
        return f"each block on one node: {', '.join(node or 'none' for node in nodes)}"
    lanes = folder.plan.definition.lanes
    return "one after another" if not lanes or folder.state.serial else f"{len(lanes)} lanes side by side"


def blocks_of_lane(folder: ExperimentFolder, lane: int) -> dict[int, int]:
    """Repetition of a lane's run to block of time; without lanes they are the same."""
    lanes = len(folder.plan.definition.lanes)
    blocks = range(len(folder.plan.order))
    if not lanes or folder.state.serial:
        return {block: block for block in blocks}
    return dict(enumerate(block for block in blocks if block % lanes == lane))


def kept_values(folder: ExperimentFolder, cells: Sequence[CellPlan]) -> dict[tuple[Cell, int], float]:
    """The response of every visit by cell and block, read from the results that the cells left."""
    definition = folder.plan.definition
    alone = folder.state.dispatched or isinstance(definition.contract.engine, ServedEngine)
    values: dict[tuple[Cell, int], float] = {}
    for cell in cells:
        state = folder.cell(cell.number)
        for key, name in () if state.infeasible else state.runs.items():
            blocks = {0: int(key)} if alone else blocks_of_lane(folder, int(key))
            for restart, value in run_responses(folder.runs / name, definition.response).items():
                if restart in blocks:
                    values[cell.cell, blocks[restart]] = value
    return values


def _missing(analysis: ExperimentAnalysis | str, now: datetime | None) -> str:
    if now is None:
        return "not finished; go on with lynxbench experiment run --resume"
    return analysis if isinstance(analysis, str) else ""


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
        void = next((result for result in results if result.validity.verdict.value == "void"), None)
        status = CellStatus.PENDING if void is None else CellStatus.VOID
        reason = "" if void is None else f"void: {'; '.join(void.validity.reasons)}"
    elif any(value is None for value in taken):
        status = CellStatus.PARTLY
        reason = f"{sum(value is None for value in taken)} of {len(taken)} visits gave nothing"
    throughput = results[0].per_precision[0].throughput if results else None
    registered = bool(paths) and (paths[0] / REGISTRATION_FILE).exists()
    around = RunFolder.open(paths[0]).registration.surroundings if registered else None
    doubts = sorted({line for result in results for line in result.validity.reasons})
    shown = CellShown(
        number=cell.number,
        levels=cell.levels,
        status=status,
        reason=reason,
        response=intervals.get(cell.cell),
        values=taken,
        contract_id=cell.contract.contract_id if cell.contract is not None else None,
        executor_id=results[0].executor_id if results else None,
        result_ids=tuple(result.result_id for result in results),
        validity="; ".join(doubts) if doubts else "valid" if results else "",
        packages=None if around is None else around.packages,
        accuracy=_accuracy(folder, cell) if results else "",
    )
    return shown, throughput.unit if throughput is not None else ""


def _accuracy(folder: ExperimentFolder, cell: CellPlan) -> str:
    """Against the baseline cell, on the same inputs, and in the same block or lane; no speed figure goes without it."""
    if isinstance(folder.plan.definition.contract.engine, ServedEngine):
        return NO_SERVED_ACCURACY
    base = folder.cell(0)
    if cell.number == 0 or not base.runs or base.infeasible:
        return "reference" if cell.number == 0 else "not compared: the baseline was not measured"
    assert cell.contract is not None
    mine = folder.cell(cell.number).runs
    reference, key = next(((key, key) for key in mine if key in base.runs), (next(iter(base.runs)), next(iter(mine))))
    contract = folder.plan.definition.contract
    accuracy = hold_against(folder.runs / base.runs[reference], folder.runs / mine[key], contract)
    if isinstance(accuracy, str):
        return accuracy
    metrics = [f"{name} {value:.4g}" for name, value in accuracy.metrics.items() if value is not None]
    loss = "" if accuracy.loss is None else f"loss {accuracy.loss:.2%} "
    return f"{loss}{accuracy.verdict} ({', '.join(metrics[:3])})"


def read_experiment(path: Path) -> ExperimentDocument:
    """An experiment's document; of an unfinished one, what its finished runs say so far."""
    file = path / ANALYSIS_FILE if path.is_dir() else path
    if file.is_file() or not path.is_dir():
        return read_document(file, ExperimentDocument, f"give an experiment's folder or its {ANALYSIS_FILE}")
    folder = ExperimentFolder.open(path)
    return describe(folder, plan_cells(folder.plan.definition), {}, None)
