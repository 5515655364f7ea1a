"""What every search for saturation promises, however busy the machine: it ends, states its bounds, and is honest."""

from __future__ import annotations

from lynxbench.model.load_figures import SaturationRecord

NOTHING_HELD = "no rate was shown to hold"
"""What a report says where nothing is claimed."""


def assert_honest(search: SaturationRecord, budget_s: float) -> None:
    """A claim rests on probes that are shown, its bounds are in order, and what is not known is said.

    That a rate passes at all is no promise: a machine that is busy elsewhere may leave the budget too short. How near
    a claim comes to the truth is judged on simulated queues (tests/unit/load/test_saturation.py, benchmarks/).
    """
    rates = [point.rate_per_s for point in search.curve]
    assert rates, "a search has asked at least once"
    assert rates == sorted(set(rates))
    assert all(point.requests > 0 for point in search.curve)
    assert all(rate <= search.ceiling_per_s * 1.0001 for rate in rates)
    # No probe begins beyond the budget: at most the last one, whichever it was, ends after it.
    assert search.probe_s - max(point.seconds for point in search.curve) <= budget_s
    passed, failed = search.passed_per_s, search.failed_per_s
    assert (failed is None) == (search.failed_outcome is None)
    assert failed is None or failed in rates
    assert search.failed_outcome != "pass"
    if passed is None:
        assert "nothing is claimed" in search.note
        assert not search.confirmed
        assert search.goodput_per_s is None
        below = [point for point in search.curve if not point.scout and (failed is None or point.rate_per_s < failed)]
        assert "pass" not in {point.outcome for point in below}, "what was shown to hold is claimed"
    else:
        assert passed in rates
        assert passed > 0
        assert failed is None or passed < failed
        assert search.goodput_per_s is not None
        assert 0 < search.goodput_per_s <= passed * 1.0001
        assert search.confirmed or search.note, "a claim that is not confirmed says so"
    assert search.saturated
