"""Memory, energy and busy units beside the speed, wherever a result is shown."""

from __future__ import annotations

from compared import make_precision, make_result
from lynxbench.decide.precision_choice import decide_precisions
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.figures import Figure
from lynxbench.model.result import Result
from lynxbench.report.documents.decision_document import compose_decision
from lynxbench.report.documents.result_document import compose_result, precisions_table, takes_table
from lynxbench.report.render_html import render_html
from lynxbench.report.render_markdown import render_markdown
from lynxbench.report.render_terminal import render_terminal

ACTIVITY = DeviceActivity(device="gpu0", samples=9, sm=0.5, tensor=0.02, fp32=None, dram=0.4, source="NVML GPM")


def result(**changes: object) -> Result:
    energy = Figure(low=2.66, estimate=2.69, high=2.73, unit="J/token")
    asked = Figure(low=41.6, estimate=41.7, high=41.9, unit="J/request")
    body: dict[str, object] = {"energy_j_per_unit": energy, "energy_j_per_request": asked, "activity": ACTIVITY}
    return make_result(per_precision=(make_precision(device_memory_bytes=18 << 30, **(body | changes)),))


def test_every_view_has_the_energy_and_the_units() -> None:
    one = result()
    ((name, energy, request, units),) = takes_table(one).rows
    assert name == "fp32"
    assert precisions_table(one).rows[0][5] == "18.0\u00a0GiB"
    assert energy.endswith("J/token")
    assert request.endswith("J/request")
    assert units.replace("\u00a0", " ") == "SM 50 %, tensor 2.0 %, DRAM 40 %"
    report = compose_result(one)
    for text in (render_markdown(report), render_html(report), render_terminal(report, width=120)):
        assert "J/token" in text
        assert "J/request" in text
        assert "DRAM" in text


def test_without_energy_and_counters_there_is_no_table() -> None:
    bare = result(energy_j_per_unit=None, energy_j_per_request=None, activity=None)
    assert takes_table(bare).rows == []
    assert "What each precision takes" not in render_markdown(compose_result(bare))
    assert "J/" not in render_terminal(compose_result(bare), width=120)


def test_energy_that_was_not_read_is_unknown_beside_units_that_were() -> None:
    ((_, energy, request, units),) = takes_table(result(energy_j_per_unit=None, energy_j_per_request=None)).rows
    assert (energy, request) == ("unknown", "–")
    assert units.startswith("SM")


def test_the_decision_holds_the_energy_of_a_request() -> None:
    decision = decide_precisions([result()])
    assert "J/request" in render_terminal(compose_decision(decision), width=200)
    (line,) = decision.lines
    assert line.energy_per_request is not None
    assert line.energy_per_request.unit == "J/request"
