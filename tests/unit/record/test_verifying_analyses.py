"""A fleet run's record that was changed where every result in it holds: each lie is one line, the truth is none."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from analysed import fleet_results, planted_fleet
from compared import make_executor, make_result
from lynxbench.compare.instances import naming_one_layer
from lynxbench.fleet.fleet_book import FleetState
from lynxbench.fleet.fleet_report import report_units
from lynxbench.model.comparison import CauseKind
from lynxbench.model.fleet import FleetReport, FleetUnit, InstanceRow, UnitState
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.model.verification import CheckOutcome
from lynxbench.record.verifying_analyses import check_fleet

Units = tuple[FleetUnit, ...]
RESULTS = {result.result_id: result for result in fleet_results()}
BEGAN = min(result.started_at for result in RESULTS.values())
STATE = planted_fleet(list(RESULTS.values()))[1].model_copy(update={"started_at": BEGAN})


def lines(state: FleetState) -> dict[str, tuple[CheckOutcome, str]]:
    """What is said of a fleet run whose report follows from its record."""
    taken: dict[str, Result] = {unit.name: RESULTS[unit.result_id] for unit in state.units if unit.result_id}
    checks = check_fleet(state, taken, report_units(state, taken))
    return {check.name: (check.outcome, check.why) for check in checks if check.outcome is not CheckOutcome.HOLDS}


def test_a_fleet_run_as_it_was_holds() -> None:
    assert lines(STATE) == {}


def changed(units: Units, place: int, **changes: object) -> Units:
    return (*units[:place], units[place].model_copy(update=changes), *units[place + 1 :])


SLOW = 6
"""The node whose power is capped."""
LIES: dict[str, tuple[Callable[[Units], Units], str]] = {
    "a good node's result in the place of a slow one's": (
        lambda units: changed(units, SLOW, result_id=units[0].result_id),
        "node-6: .* stands in two places",
    ),
    "a node that stands twice": (lambda units: (*units, units[0]), "node-0 stands in two places"),
    "done, and nothing to show for it": (
        lambda units: changed(units, SLOW, result_id=None),
        "node-6: done, and no result of it is here",
    ),
    "lost, and counted": (
        lambda units: changed(units, SLOW, state=UnitState.LOST),
        "node-6: lost, and a result of it is here",
    ),
}


@pytest.mark.parametrize(("lie", "told"), LIES.values(), ids=LIES.keys())
def test_one_measurement_stands_for_one_node(lie: Callable[[Units], Units], told: str) -> None:
    wrong = lines(STATE.model_copy(update={"units": lie(STATE.units)}))
    assert wrong.keys() == {"units"}
    outcome, why = wrong["units"]
    assert outcome is CheckOutcome.DOES_NOT_HOLD
    assert re.search(told, why), why


def test_a_result_from_before_the_fleet_run_is_told() -> None:
    """No proof, for two clocks are in it: the node's, and that of whoever asked it."""
    told = lines(STATE.model_copy(update={"started_at": "2126-01-01T00:00:00+00:00"}))
    assert told.keys() == {"times of units"}
    outcome, why = told["times of units"]
    assert outcome is CheckOutcome.CANNOT
    assert why == "node-0: by its node's clock it began before the fleet run"


def test_a_report_of_an_earlier_version_names_one_of_several_layers_and_holds() -> None:
    """Its form is that version's; a layer that was put in its place afterwards is found."""
    apart = {"accelerator.gpu_power_limit_enforced_w": [400], "runtime.attention": "flash"}
    slow = make_result(executor=make_executor(apart, machine="node-6"), run_means=(71.0, 71.2, 70.8, 71.1, 70.9))
    results = [*RESULTS.values()]
    results[SLOW] = slow.model_copy(update={"run_id": "fleet-node-6", "result_id": ""}).sealed()
    report, state = planted_fleet(results)
    taken = {f"node-{number}": result for number, result in enumerate(results)}

    def wrong(stated: FleetReport) -> list[str]:
        return [check.why for check in check_fleet(state, taken, stated) if check.outcome is CheckOutcome.DOES_NOT_HOLD]

    def with_rows(change: Callable[[InstanceRow], InstanceRow]) -> FleetReport:
        (part,) = report.per_precision
        parts = (part.model_copy(update={"instances": tuple(map(change, part.instances))}),)
        return report.model_copy(update={"per_precision": parts})

    def blame(row: InstanceRow) -> InstanceRow:
        cause = None if row.cause is None else row.cause.model_copy(update={"layer": Layer.SERVING})
        return row.model_copy(update={"cause": cause})

    (part,) = report.per_precision
    causes = [row.cause for row in part.instances if row.cause is not None]
    assert [(cause.kind, cause.layer) for cause in causes] == [(CauseKind.NOT_SEPARABLE, None)]
    assert wrong(report) == []
    assert wrong(with_rows(naming_one_layer)) == []
    assert wrong(with_rows(blame)) != []
