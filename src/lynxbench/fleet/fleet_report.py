"""Results of many instances into one report: all units accounted for, the spread, and who stands apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lynxbench.compare.instances import compare_instances
from lynxbench.errors import BadInput, Refused
from lynxbench.evidence.documents import read_result
from lynxbench.fleet.fleet_book import FleetState, read_state
from lynxbench.model.canonical import short
from lynxbench.model.fleet import FleetComparison, FleetReport, FleetUnit, InstanceStanding, UnitState
from lynxbench.model.result import Result, ValidityVerdict


def report_fleet(state: FleetState, folder: Path) -> FleetReport:
    """What a fleet run says, from its state and the runs in its folder."""
    results = {
        unit.name: read_result(folder / unit.folder)
        for unit in state.units
        if unit.state is UnitState.DONE and unit.folder is not None
    }
    return report_units(state, results)


def report_units(state: FleetState, results: Mapping[str, Result]) -> FleetReport:
    """The same from results by unit, wherever they come from."""
    contract, units = state.contract, state.units
    left_out = [
        f"{name}: void ({'; '.join(result.validity.reasons[:2])})"
        for name, result in results.items()
        if result.validity.verdict is ValidityVerdict.VOID
    ]
    budget, confidence = contract.policy.regression, contract.protocol.confidence
    comparisons = [
        compare_instances(results, precision, budget=budget, confidence=confidence)
        for precision in contract.workload.precisions
    ]
    compared = [comparison for comparison in comparisons if comparison is not None]
    return FleetReport(
        fleet_id=state.fleet_id,
        contract=contract.name,
        question=contract.question,
        contract_id=contract.contract_id,
        started_at=state.started_at,
        finished_at=state.finished_at,
        asked=len(units),
        measured=sum(unit.state is UnitState.DONE for unit in units),
        units=units,
        left_out=tuple(left_out),
        per_precision=tuple(compared),
        verdict=_verdict(units, compared, left_out),
    )


def read_fleet(folder: Path) -> FleetReport:
    """The report of a fleet run's folder."""
    return report_fleet(read_state(folder), folder if folder.is_dir() else folder.parent)


def report_results(results: Mapping[str, Result]) -> FleetReport:
    """The same for results that were measured one by one; all must be of one contract."""
    if not results:
        raise BadInput("no result to compare; give the folder of a fleet run, or results")
    contracts = {result.contract_id for result in results.values()}
    if len(contracts) > 1:
        names = ", ".join(sorted({f"{r.contract.name} {short(r.contract_id)}" for r in results.values()}))
        raise Refused(f"results of {len(contracts)} contracts ({names}) are no fleet; compare those of one")
    units = tuple(
        FleetUnit(name=name, node=name, state=UnitState.DONE, result_id=result.result_id)
        for name, result in results.items()
    )
    state = FleetState(
        fleet_id="results",
        started_at=min(result.started_at for result in results.values()),
        finished_at=max(result.finished_at for result in results.values()),
        contract=next(iter(results.values())).contract,
        per_gpu=False,
        units=units,
    )
    return report_units(state, results)


def _verdict(units: Sequence[FleetUnit], compared: Sequence[FleetComparison], left_out: Sequence[str]) -> str:
    missing = [unit for unit in units if unit.state is not UnitState.DONE]
    parts = []
    if missing:
        names = ", ".join(f"{unit.name} ({unit.state})" for unit in missing)
        parts.append(f"INCOMPLETE: {len(missing)} of {len(units)} have no result: {names}")
    if left_out:
        parts.append(f"{len(left_out)} void")
    apart = {
        row.unit: row
        for comparison in compared
        for row in comparison.instances
        if row.standing is InstanceStanding.OUTLIER
    }
    for name, row in apart.items():
        cause = row.cause.sentence if row.cause is not None else "nothing that is recorded sets it apart"
        parts.append(f"{name} stands apart by {row.against_rest.estimate - 1:+.1%}: {cause}")
    if not apart and compared:
        parts.append(compared[0].sentence)
    return "; ".join(parts) or "nothing was measured"
