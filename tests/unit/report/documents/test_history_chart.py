"""A history's chart: every point with its result, groups that are true, versions by what changed, latencies below."""

import json

import pytest

from compared import make_executor, make_result
from lynxbench.compare.levels import point_of, read_history
from lynxbench.compare.suspects import changes_between
from lynxbench.model.history import History, HistoryPoint
from lynxbench.model.precision import Precision
from lynxbench.model.result import Percentile, Result
from lynxbench.report.chart import chart_text
from lynxbench.report.documents.history_chart import history_chart, overlays_of

TORCH = ("2.5.1", "2.6.0")


def measured(place: int, torch: str) -> Result:
    result = make_result(
        executor=make_executor({"framework.torch": torch}),
        run_means=tuple(100.0 + place + each for each in (-0.2, -0.1, 0.0, 0.1, 0.2)),
        started_at=f"2026-11-{place + 1:02}T00:00:00+00:00",
    )
    tail = (Percentile(percentile=50, low=9.0, estimate=10.0 + place, high=31.0, resolved=True),)
    figures = result.per_precision[0].model_copy(update={"latency_ms": {"time-to-first-token": tail}})
    return result.model_copy(update={"per_precision": (figures, *result.per_precision[1:])}).sealed()


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [measured(place, TORCH[place >= 4]) for place in range(8)]


@pytest.fixture(scope="module")
def history(results: list[Result]) -> History:
    known = {result.result_id: result for result in results}
    points = [point for one in results if isinstance(point := point_of(one, Precision.FP32), HistoryPoint)]
    return read_history(
        points,
        contract_id=results[0].contract_id,
        contract="c",
        precision=Precision.FP32,
        fields_between=lambda pairs: [changes_between(known[a.result_id], known[b.result_id]) for a, b in pairs],
    )


def test_points_lead_to_their_results_with_their_intervals(history: History) -> None:
    chart = history_chart([history])
    assert chart is not None
    (panel,) = chart.panels
    (track,) = panel.tracks
    assert list(track.ids) == [point.result_id for point in history.points]
    assert list(track.low) == [point.low for point in history.points]
    assert panel.marks[0].layers == ["framework"]
    assert track.x[3] < panel.marks[0].x < track.x[4]


def test_a_layers_versions_are_named_by_the_field_that_changed(history: History) -> None:
    overlay = overlays_of([history])["version of framework"]
    assert overlay.names == ("torch 2.5.1", "torch 2.6.0")
    assert [overlay.group_of[point.result_id] for point in history.points] == [0] * 4 + [1] * 4
    assert len(overlays_of([history])["executor"].names) == 2
    assert "version of system" not in overlays_of([history]), "what never changed groups nothing"


def test_first_tokens_stand_below_where_the_documents_are_at_hand(history: History, results: list[Result]) -> None:
    chart = history_chart([history], results[2:])
    assert chart is not None
    titles = {panel.title: panel for panel in chart.panels}
    panel = titles["Time to first token p50"]
    assert list(panel.tracks[0].y) == [12.0, 13.0, 14.0, 15.0, 16.0, 17.0]
    assert list(panel.tracks[0].ids) == [result.result_id for result in results[2:]]
    assert panel.tracks[0].groups["version of framework"] == [0, 0, 1, 1, 1, 1]
    assert len(json.loads(chart_text(chart))["panels"]) == len(chart.panels)


def test_another_precision_waits_until_it_is_asked_for(history: History) -> None:
    other = history.model_copy(update={"precision": Precision.BF16})
    chart = history_chart([history, other])
    assert chart is not None
    assert [(track.name, track.hidden) for track in chart.panels[0].tracks] == [("fp32", False), ("bf16", True)]


def test_without_moments_there_is_no_chart(history: History) -> None:
    broken = tuple(point.model_copy(update={"started_at": "?"}) for point in history.points)
    assert history_chart([history.model_copy(update={"points": broken})]) is None
