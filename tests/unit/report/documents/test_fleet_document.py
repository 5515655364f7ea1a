"""The fleet in a terminal and as a page: the verdict, the missing, the outlier and its layer."""

from __future__ import annotations

from compared import make_contract, make_executor, make_result
from lynxbench.compare.instances import compare_instances
from lynxbench.fleet.fleet_report import report_results
from lynxbench.model.fleet import AttemptNote, FleetReport, FleetUnit, UnitState
from lynxbench.report.documents.fleet_document import compose_fleet
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal


def slow_fleet() -> FleetReport:
    """Four instances alike, one with a lower power limit and a name that tries to be markup; one node lost."""
    results = {f"n{i}": make_result(executor=make_executor(machine=f"m{i}")) for i in range(4)}
    odd = make_executor({"accelerator.gpu_power_limit_enforced_w": [400]}, machine="x")
    results["<b>odd</b>"] = make_result(executor=odd, run_means=(70.0, 71.0, 69.0, 70.5, 69.5))
    found = report_results(results)
    lost = FleetUnit(
        name="n7",
        node="n7",
        state=UnitState.LOST,
        why="n7 was lost: no heartbeat",
        attempts=(AttemptNote(node="n7", ended="node lost", why="no heartbeat", seconds=3.0),),
    )
    units = (*found.units, lost)
    return found.model_copy(update={"units": units, "asked": len(units)})


def test_the_terminal_says_who_why_and_what_is_missing() -> None:
    text = render_terminal(compose_fleet(slow_fleet()), width=120)
    assert "Measured 5 of 6 units" in text
    assert any("<b>odd</b>" in line and line.endswith("outlier") for line in text.splitlines())
    assert "gpu_power_limit_enforced_w: [700] elsewhere, [400] here" in text
    assert 'owner "' in text
    assert "n7 lost — n7: node lost (no heartbeat)" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_the_page_escapes_names_and_runs_nothing() -> None:
    page = render_html(compose_fleet(slow_fleet()))
    assert "<b>odd</b>" not in page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert "<script" not in page
    assert "no heartbeat" in page
    assert page.count("<svg") == 2


def test_one_instance_and_a_large_fleet_are_drawn_too() -> None:
    one = report_results({"alone": make_result()})
    assert "no spread" in render_terminal(compose_fleet(one), width=100)
    assert "alone" in render_html(compose_fleet(one))
    many = report_results({f"n{i:03}": make_result(executor=make_executor(machine=f"m{i}")) for i in range(120)})
    text = render_terminal(compose_fleet(many), width=100)
    assert text.count("typical") == 10
    assert "n119" in render_html(compose_fleet(many))


def test_the_document_is_stable_under_reading() -> None:
    found = slow_fleet()
    assert FleetReport.model_validate_json(found.model_dump_json()) == found
    contract = make_contract()
    assert compare_instances({}, contract.workload.precisions[0], budget=0.01, confidence=0.95) is None
