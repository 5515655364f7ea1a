"""Stated against recomputed: where they first differ, and what rounding forgives."""

from __future__ import annotations

import math

import pytest

from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.verification import CheckOutcome, VerificationReport, cannot, fails, holds
from lynxbench.record.value_check import check_attribution, compare, first_difference

ATTRIBUTION = Attribution(
    bottleneck=Category.LAUNCH,
    bound=Bound.SOFTWARE,
    layer=None,
    owner=None,
    shares={Category.LAUNCH: 0.6, Category.COMPUTE: 0.4},
    gain_if_removed=Interval(1.1, 1.2, 1.3),
    evidence=("launches take the time",),
    sentence="software-bound",
    next_step="compile",
    wall_ms_per_step=2.0,
    steps=5,
)


@pytest.mark.parametrize(
    ("one", "two", "path"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b[1]"),
        ({"a": 1}, {"a": 1, "b": 2}, "b"),
        ({"a": 1, "b": 2}, {"a": 1}, "b"),
        ([1], [1, 2], ""),
        ("x", "y", ""),
        (None, 0, ""),
        (True, 1, ""),
        (1.0, math.nextafter(1.0, 2) + 1e-8, ""),
        (3, 4, ""),
        ("1", 1, ""),
        (0.0, 1e-300, ""),
    ],
)
def test_the_first_difference_is_found(one: object, two: object, path: str) -> None:
    apart = first_difference(one, two)
    assert apart is not None
    assert apart.path == path


@pytest.mark.parametrize(
    ("one", "two"),
    [(1.0, 1.0 + 1e-12), (1, 1.0), (0.0, 0.0), ([1.5], (1.5,)), ({"a": None}, {"a": None}), (1e300, 1e300)],
)
def test_the_last_digits_of_floating_point_are_forgiven(one: object, two: object) -> None:
    assert first_difference(one, two) is None


def test_both_values_are_shown_and_long_ones_cut() -> None:
    line = compare("throughput", {"estimate": 2.0}, {"estimate": 1.5}).line
    assert line == "throughput: does not hold: estimate: stated 2.0, recomputed 1.5"
    assert len(compare("reason", "x" * 500, "y" * 500).line) < 200


def test_an_unknown_bound_is_the_same_unknown_bound() -> None:
    assert compare("drift", {"low": math.nan}, {"low": None}).outcome is CheckOutcome.HOLDS


def test_interventions_may_change_the_words_and_not_the_trace() -> None:
    after = ATTRIBUTION.model_copy(
        update={"evidence": (*ATTRIBUTION.evidence, "intervention confirms the verdict"), "sentence": "confirmed"}
    )
    assert check_attribution("attribution", ATTRIBUTION, ATTRIBUTION).outcome is CheckOutcome.HOLDS
    assert check_attribution("attribution", after, ATTRIBUTION).outcome is CheckOutcome.HOLDS
    lied = after.model_copy(update={"shares": {Category.LAUNCH: 0.1, Category.COMPUTE: 0.9}})
    assert check_attribution("attribution", lied, ATTRIBUTION).outcome is CheckOutcome.DOES_NOT_HOLD
    reworded = ATTRIBUTION.model_copy(update={"sentence": "hardware-bound"})
    assert check_attribution("attribution", reworded, ATTRIBUTION).outcome is CheckOutcome.DOES_NOT_HOLD
    assert check_attribution("attribution", None, ATTRIBUTION).outcome is CheckOutcome.DOES_NOT_HOLD


def test_a_report_holds_when_nothing_fails_and_says_who_signed() -> None:
    report = VerificationReport("ab" * 32, (holds("a"), cannot("b", "it is gone")))
    assert report.holds
    assert not report.signed
    assert report.adding((holds("signature", "local"),)).signed
    worse = report.adding((fails("c", "stated 1, recomputed 2"),))
    assert not worse.holds
    assert worse.document()["counts"] == {"holds": 1, "does not hold": 1, "cannot be recomputed": 1}
