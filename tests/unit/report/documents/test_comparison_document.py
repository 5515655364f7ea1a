"""Comparisons and histories as text and page: refusals carry no ratio, others' words cannot drive the terminal."""

from __future__ import annotations

import numpy as np

from compared import make_contract, make_executor, make_result, make_standing
from lynxbench.compare.change_outcomes import keep_book
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.levels import point_of, read_history
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.stack_signals import Record, read_signals
from lynxbench.model.history import HistoryPoint
from lynxbench.model.precision import Precision
from lynxbench.report.documents.comparison_document import compose_comparison
from lynxbench.report.documents.history_document import compose_changes, compose_history, compose_signals
from lynxbench.report.render_html import render_html
from lynxbench.report.render_markdown import render_markdown
from lynxbench.report.render_terminal import render_terminal

SLOWER = tuple(x * 0.9 for x in (100.0, 101.0, 99.0, 100.5, 99.5))


def test_the_verdict_leads_and_the_owner_is_named() -> None:
    bumped = make_result(executor=make_executor({"system.nvidia_driver": "570.00"}), run_means=SLOWER)
    text = render_terminal(
        compose_comparison(compare_pair(ComparedPair(ComparedSide(make_result()), ComparedSide(bumped)))), width=100
    )
    assert text.startswith("REGRESSED: throughput at fp32 −10")
    assert "infrastructure SRE" in text
    assert "550.54 → 570.00" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_refusal_says_why_and_gives_no_percentage() -> None:
    side = ComparedSide(make_result(run_means=SLOWER), standing=make_standing(retracted="wrong\x1b[2J weights"))
    text = render_terminal(compose_comparison(compare_pair(ComparedPair(ComparedSide(make_result()), side))), width=100)
    assert text.startswith("INCOMPARABLE: no ratio is given.")
    assert "R16 standing" in text
    assert "What would make it sound" in text
    assert "%" not in text
    assert "\x1b" not in text, "somebody's reason must not drive the terminal"


def test_signs_and_an_empty_book_are_text() -> None:
    signals = read_signals(Record(contract_id="ab" * 32, contract="x", results=()))
    text = render_terminal(compose_signals(signals), width=80)
    assert text.startswith("x: ")
    assert sum(line.count("not enough") for line in text.splitlines()) == 5
    written = render_markdown(compose_signals(signals))
    assert all(signal.needed in written.replace("\\", "") for signal in signals.signals)
    assert "lynxbench change declare" in render_terminal(compose_changes(keep_book([], [])), width=80)


def test_a_history_is_text_and_a_page_that_needs_no_network() -> None:
    results = [
        make_result(started_at="2026-01-01T00:00:00+00:00"),
        make_result(
            executor=make_executor({"system.nvidia_driver": "<script>alert(1)</script>"}),
            run_means=SLOWER,
            started_at="2026-01-02T00:00:00+00:00",
        ),
    ]
    points = [point for one in results if isinstance(point := point_of(one, Precision.FP32), HistoryPoint)]
    found = read_history(points, contract_id="ab" * 32, contract="<b>name</b>", precision=Precision.FP32)
    text = render_terminal(compose_history(found), width=100)
    assert "record changed at 1" in text
    assert "executor drift" in text
    page = render_html(compose_history(found))
    assert "<svg" in page
    assert page.count("<script") == 1, "its own, and nothing of a driver's name"
    assert "<b>name" not in page


def test_a_drift_is_told_with_its_size_and_blamed_on_nobody() -> None:
    rng = np.random.default_rng(4)
    points = []
    for i in range(60):
        means = tuple(float(100 * (1 - 0.002 * i) * np.exp(rng.normal(0, 0.004))) for _ in range(5))
        point = point_of(make_result(run_means=means, started_at=f"2026-01-01T00:{i:02d}:00+00:00"), Precision.FP32)
        assert isinstance(point, HistoryPoint)
        points.append(point)
    found = read_history(points, contract_id="ab" * 32, contract="slow", precision=Precision.FP32)
    for text in (render_terminal(compose_history(found), width=300), render_html(compose_history(found))):
        assert "drift: slower, -1" in text
        assert "No layer is blamed for it" in text


def test_without_an_effect_nothing_is_its_cause() -> None:
    """Found: inconclusive, and the one layer that differs was `the likely cause`."""
    for means, likely in (((100.0, 101.0, 99.0, 100.5, 99.5), False), ((50.0, 50.5, 49.5, 50.2, 49.8), True)):
        other = make_result(executor=make_executor({"framework.torch": "2.6.0"}), run_means=means)
        comparison = compare_pair(ComparedPair(ComparedSide(make_result()), ComparedSide(other)))
        text = " ".join(render_terminal(compose_comparison(comparison), width=100).split())
        assert "only layer framework changed" in text
        assert ("the likely cause" in text) == likely
        assert comparison.cause is not None
        assert ("the likely cause" in comparison.model_dump_json()) == likely, "JSON says what the words say"
        assert comparison.cause.likely.endswith("the likely cause"), "for who has the effect from elsewhere"


def test_of_layers_that_cannot_be_separated_all_owners_are_asked() -> None:
    """Found: several cannot be separated, and *Ask* named the first of them."""
    both = {"framework.torch": "2.6.0", "system.nvidia_driver": "570.00"}
    contract = make_contract(owners={"framework": "those of torch", "system": "those of drivers"})
    a = make_result(contract=contract)
    b = make_result(contract=contract, executor=make_executor(both), run_means=(50.0, 50.5, 49.5, 50.2, 49.8))
    comparison = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b)))
    text = " ".join(render_terminal(compose_comparison(comparison), width=200).split())
    assert "2 layers changed together and cannot be separated" in text
    assert "Ask those of drivers, those of torch" in text
    assert comparison.cause is not None
    assert comparison.cause.layer is None
