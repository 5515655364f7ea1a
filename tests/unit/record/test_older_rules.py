"""Results of an earlier edition of the rules: excused where the rules changed, and nowhere else."""

from __future__ import annotations

from compared import make_attribution, make_precision, make_result
from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.result import RULES, Result, Validity, ValidityVerdict
from lynxbench.model.verification import Check, CheckOutcome, fails, holds
from lynxbench.record.older_rules import under_older_rules

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
