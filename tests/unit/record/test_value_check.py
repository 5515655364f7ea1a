"""Stated against recomputed: where they first differ, and what rounding forgives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compared import make_attribution, make_precision, make_result
from lynxbench.attribute.judge.intervention_tests import conclude_interventions
from lynxbench.model.attribution import Attribution, Bound, Category, Intervention
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.result import RULES, Result, Validity, ValidityVerdict
from lynxbench.model.verification import Check, CheckOutcome, VerificationReport, cannot, fails, holds
from lynxbench.record.value_check import (
    _surely_alike,
    check_attribution,
    compare,
    first_difference,
    plain,
    under_older_rules,
)

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
    sentence = f"{ATTRIBUTION.sentence}; measured by intervention"
    after = ATTRIBUTION.model_copy(
        update={"evidence": (*ATTRIBUTION.evidence, "intervention confirms the verdict"), "sentence": sentence}
    )
    assert check_attribution("attribution", ATTRIBUTION, ATTRIBUTION).outcome is CheckOutcome.HOLDS
    assert check_attribution("attribution", after, ATTRIBUTION).outcome is CheckOutcome.HOLDS
    lied = after.model_copy(update={"shares": {Category.LAUNCH: 0.1, Category.COMPUTE: 0.9}})
    assert check_attribution("attribution", lied, ATTRIBUTION).outcome is CheckOutcome.DOES_NOT_HOLD
    reworded = ATTRIBUTION.model_copy(update={"sentence": "hardware-bound"})
    assert check_attribution("attribution", reworded, ATTRIBUTION).outcome is CheckOutcome.DOES_NOT_HOLD
    assert check_attribution("attribution", None, ATTRIBUTION).outcome is CheckOutcome.DOES_NOT_HOLD


BLAMED = make_attribution(sentence="software-bound: launches take most of it", evidence=("launches take the time",))


@pytest.mark.parametrize(
    "lie",
    [
        {"layer": Layer.SYSTEM},
        {"owner": "a rival"},
        {"bound": Bound.HARDWARE},
        {"bottleneck": Category.COMPUTE},
        {"sentence": "driver-bound: a rival's driver"},
        {"gain_if_removed": Interval(8.0, 9.0, 10.0)},
        {"bound": Bound.UNDETERMINED, "layer": None},
    ],
    ids=["layer", "owner", "bound", "cause", "sentence", "gain", "blame that is kept in part"],
)
def test_a_line_about_an_intervention_does_not_move_the_blame(lie: dict[str, object]) -> None:
    """It is a word that anybody can write; what the trace says of the cause stays."""
    tried = Intervention(name="double the batch", predicted=Interval(1, 1, 1), measured=Interval(1.1, 1.2, 1.3))
    sentence = f"{BLAMED.sentence}; measured by intervention (double the batch)"
    evidence = (*BLAMED.evidence, "intervention confirms the verdict: double the batch")
    said = {"evidence": evidence, "sentence": sentence, "interventions": (tried,), "gain_if_removed": tried.measured}
    after = BLAMED.model_copy(update=said)
    assert check_attribution("attribution", after, BLAMED).outcome is CheckOutcome.HOLDS
    lied = after.model_copy(update=lie)
    assert check_attribution("attribution", lied, BLAMED).outcome is CheckOutcome.DOES_NOT_HOLD


def test_an_intervention_may_take_all_of_the_blame_back() -> None:
    said = BLAMED.sentence.removeprefix(f"{BLAMED.bound}-bound: ")
    tried = Intervention(name="double the batch", predicted=Interval(1, 1, 1), measured=Interval(1.4, 1.5, 1.6))
    nobody = {"bound": Bound.UNDETERMINED, "layer": None, "owner": None, "symptom_layer": None}
    update = {
        "evidence": (*BLAMED.evidence, "intervention contradicts the verdict"),
        "sentence": f"undetermined: {said}; contradicted: to double the batch gained",
        "gain_if_removed": Interval(1.0, 1.0, 1.0),
        "interventions": (tried,),
    }
    after = BLAMED.model_copy(update=nobody | update)
    assert check_attribution("attribution", after, BLAMED).outcome is CheckOutcome.HOLDS


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.04, 1.06, 1.3, 1.6, 3.0])
@pytest.mark.parametrize("width", [1.001, 1.2, 2.5])
def test_whatever_an_intervention_really_makes_of_a_verdict_holds(gain: float, width: float) -> None:
    measured = Interval(gain / width, gain, gain * width)
    tried = Intervention(name="compile the step", predicted=Interval(1.4, 1.6, 1.8), measured=measured)
    after = conclude_interventions(BLAMED, [tried], tried)
    assert check_attribution("attribution", after, BLAMED).outcome is CheckOutcome.HOLDS


def test_what_rests_on_interventions_alone_cannot_be_recomputed_and_must_name_nobody() -> None:
    tried = Intervention(name="launch with --slots 4", predicted=Interval(1, 1, 1), measured=Interval(3, 4, 5))
    alone = {"bound": Bound.UNDETERMINED, "layer": None, "shares": {}, "steps": 0, "interventions": (tried,)}
    stated = ATTRIBUTION.model_copy(update=alone)
    assert check_attribution("attribution", stated, None).outcome is CheckOutcome.CANNOT
    for lie in (
        {"bound": Bound.HARDWARE},
        {"owner": "them"},
        {"shares": {Category.LAUNCH: 1.0}},
        {"interventions": ()},
    ):
        lied = stated.model_copy(update=lie)
        assert check_attribution("attribution", lied, None).outcome is CheckOutcome.DOES_NOT_HOLD


def test_a_report_holds_when_nothing_fails_and_says_who_signed() -> None:
    report = VerificationReport("ab" * 32, (holds("figures"), cannot("b", "it is gone")))
    assert report.holds
    assert not report.signed
    assert report.adding((holds("signature", "local"),)).signed
    worse = report.adding((fails("c", "stated 1, recomputed 2"),))
    assert not worse.holds
    assert worse.document()["counts"] == {"holds": 1, "does not hold": 1, "cannot be recomputed": 1}


# --- results of an earlier edition of the rules: excused where the rules changed, and nowhere else --------------------

DOUBT = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("throttling: gpu0 power cap in 0% of 228 samples",))
FINE = Validity(verdict=ValidityVerdict.VALID)
OTHER = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("not steady (drift)",))
OPEN = make_attribution(bound=Bound.UNDETERMINED, layer=None, owner=None, evidence=("a", "b"), sentence="undetermined")


def judged(
    stated: Validity = FINE,
    found: Validity = FINE,
    said: Attribution = OPEN,
    again: Attribution = OPEN,
    rules: int = 1,
) -> dict[str, Check]:
    result: Result = make_result(
        per_precision=(make_precision(validity=stated, attribution=said),), validity=stated, attribution=said
    ).model_copy(update={"rules": rules})
    (one,) = result.per_precision
    recomputed = {one.precision: one.model_copy(update={"validity": found, "attribution": again})}
    names = ("validity", "fp32 validity", "fp32 attribution")
    checks = [*(fails(name, "differs") for name in names), fails("fp32 throughput", "differs"), holds("manifest")]
    return {check.name: check for check in under_older_rules(result, recomputed, found, checks)}


def test_a_doubt_that_the_rules_dropped_is_excused_and_said() -> None:
    found = judged(stated=DOUBT, found=FINE)
    assert found["validity"].outcome is CheckOutcome.CANNOT
    assert found["validity"].why == f"reached by edition 1 of the rules; by edition {RULES}: valid"
    assert found["fp32 validity"].outcome is CheckOutcome.CANNOT


def test_a_doubt_that_is_hidden_is_not() -> None:
    assert judged(stated=FINE, found=DOUBT)["validity"].outcome is CheckOutcome.DOES_NOT_HOLD
    assert judged(stated=DOUBT, found=OTHER)["validity"].outcome is CheckOutcome.DOES_NOT_HOLD


def test_figures_are_never_excused() -> None:
    found = judged(stated=DOUBT, found=FINE)
    assert found["fp32 throughput"].outcome is CheckOutcome.DOES_NOT_HOLD
    assert found["manifest"].outcome is CheckOutcome.HOLDS


def test_an_open_verdict_may_say_more_today() -> None:
    again = OPEN.model_copy(
        update={"bound": Bound.SOFTWARE, "sentence": "software-bound: x", "evidence": ("a", "b", "c")}
    )
    line = judged(again=again)["fp32 attribution"]
    assert line.outcome is CheckOutcome.CANNOT
    assert line.why.endswith("software-bound: x")


def test_a_verdict_that_was_not_open_must_be_found_again() -> None:
    bold = OPEN.model_copy(update={"bound": Bound.HARDWARE, "sentence": "hardware-bound: x"})
    assert judged(said=bold)["fp32 attribution"].outcome is CheckOutcome.DOES_NOT_HOLD


def test_other_evidence_or_another_trace_is_a_difference() -> None:
    other = OPEN.model_copy(update={"evidence": ("a", "z")})
    assert judged(said=other)["fp32 attribution"].outcome is CheckOutcome.DOES_NOT_HOLD
    trace = OPEN.model_copy(update={"wall_ms_per_step": OPEN.wall_ms_per_step * 1.01})
    assert judged(said=trace)["fp32 attribution"].outcome is CheckOutcome.DOES_NOT_HOLD


def test_an_edition_that_nobody_knows_is_no_excuse() -> None:
    found = judged(stated=DOUBT, found=FINE, rules=RULES + 7)
    assert found["validity"].outcome is CheckOutcome.DOES_NOT_HOLD
    assert found["rules"].outcome is CheckOutcome.DOES_NOT_HOLD


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([1.0, 1 + 1e-12, 2.5, math.nan, "a"]))
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab1"), inner, max_size=2)),
    max_leaves=6,
)


@given(DOCUMENTS, DOCUMENTS)
def test_what_is_surely_alike_does_not_differ(one: Any, two: Any) -> None:
    for stated, recomputed in ((one, two), (one, one), ([one], (one,))):
        differ = first_difference(plain(stated), plain(recomputed)) is not None
        assert not (_surely_alike(stated, recomputed) and differ)
        assert not (_surely_alike({"a": stated}, {"a": recomputed}) and differ)


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"restarts": 6},
            {"restarts": True},
            {"run_means": (1.0, 2.0)},
            {"run_means": (math.nan,)},
        ),
        *({"validity": DOUBT}, {"throughput": None}, {"latency_ms": {}}, {"attribution": OPEN}),
        {"throughput": Figure(low=1.0, estimate=math.nextafter(2.0, 3), high=3.0, unit="tokens/s")},
    ],
)
def test_documents_are_alike_field_by_field(change: dict[str, Any]) -> None:
    figure = Figure(low=1.0, estimate=2.0, high=3.0, unit="tokens/s")
    part = make_precision().model_copy(update={"throughput": figure, "restarts": 5, "run_means": (1.0, 2.0, 3.0)})
    assert _surely_alike(part, part.model_copy(deep=True))
    other = part.model_copy(update=change)
    assert not _surely_alike(part, other)
    apart = first_difference(plain(part), plain(other))
    assert compare("line", part, other) == (holds("line") if apart is None else fails("line", str(apart)))


def test_a_bound_that_is_not_known_is_looked_at_closely() -> None:
    assert _surely_alike(Interval(1.0, 2.0, 3.0), Interval(1.0, 2.0, 3.0))
    assert not _surely_alike(Interval(math.nan, 2.0, 3.0), Interval(math.nan, 2.0, 3.0))
    assert not _surely_alike(Interval(1.0, 2.0, 3.0), {"low": 1.0, "estimate": 2.0, "high": 3.0})


@given(DOCUMENTS, DOCUMENTS)
def test_what_is_spelled_alike_is_what_does_not_differ(one: Any, two: Any) -> None:
    """The quick look forgives nothing that looking at every value would tell, and tells nothing that it forgives."""
    for stated, recomputed in ((one, two), (one, one)):
        apart = first_difference(plain(stated), plain(recomputed))
        found = compare("line", stated, recomputed)
        assert found == (holds("line") if apart is None else fails("line", str(apart)))
