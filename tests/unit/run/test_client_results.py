"""What the runs after a search say about its claim."""

from __future__ import annotations

import pytest

from lynxbench.model.result import Percentile, SloOutcome
from lynxbench.run.client_results import held_by_runs
from served_figures import saturation


def outcome(estimate: float | None) -> SloOutcome:
    measured = Percentile(percentile=99.0, low=None, estimate=estimate, high=None, resolved=False)
    return SloOutcome(metric="latency", percentile=99.0, at_most_ms=500.0, measured=measured, verdict="unresolved")


def test_runs_that_meet_the_bound_leave_the_claim_confirmed() -> None:
    search = saturation().model_copy(update={"watched_s": 150.0})
    assert held_by_runs(search, [outcome(480.0)]) == search
    assert held_by_runs(search, []) == search


@pytest.mark.parametrize("estimate", [520.0, None])
def test_runs_that_miss_a_bound_take_the_word_back(estimate: float | None) -> None:
    search = saturation().model_copy(update={"watched_s": 150.0, "note": "the pair is 8% apart"})
    judged = held_by_runs(search, [outcome(400.0), outcome(estimate)])
    assert not judged.confirmed
    assert judged.note == "the runs at the claimed rate missed p99 latency; the pair is 8% apart"
    assert judged.passed_per_s == search.passed_per_s


def test_what_is_shown_at_least_is_taken_back_with_the_rate_that_the_runs_speak_against() -> None:
    search = saturation().model_copy(update={"watched_s": 150.0, "at_least_per_s": 41.0})
    assert held_by_runs(search, [outcome(480.0)]).at_least_per_s == 41.0
    assert held_by_runs(search, [outcome(520.0)]).at_least_per_s is None


def test_a_search_of_an_earlier_version_keeps_its_word() -> None:
    assert held_by_runs(saturation(), [outcome(520.0)]).confirmed
