"""Declared changes: expectations are held against intervals, and calibration counts only what was decided."""

from __future__ import annotations

import pytest

from compared import make_executor, make_result, make_standing
from lynxbench.compare.change_outcomes import (
    caution_of,
    judge_expectation,
    keep_book,
    measure_change,
    parse_expectation,
)
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.errors import BadInput, Refused
from lynxbench.model.entries import ChangeDeclared, ChangeMeasured, ChangeVerdict
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.layers import Layer
from lynxbench.model.result import Validity, ValidityVerdict

FASTER = tuple(x * 1.3 for x in (100.0, 101.0, 99.0, 100.5, 99.5))


def _declared(expected: str = "1.2..1.5", layer: Layer = Layer.FRAMEWORK, what: str = "update") -> ChangeDeclared:
    return ChangeDeclared(
        contract_id=make_result().contract_id,
        layer=layer,
        owner="platform SRE",
        what=what,
        expected=parse_expectation(expected),
    )


@pytest.mark.parametrize("text", ["1.2..1.5", "1.2–1.5", "1.2-1.5", "1.2x .. 1.5x", " 1.2 .. 1.5 "])
def test_ranges_as_people_write_them(text: str) -> None:
    expected = parse_expectation(text)
    assert (expected.low, expected.high) == (1.2, 1.5)


@pytest.mark.parametrize("text", ["", "1.2", "fast", "1.5..1.2", "0..1", "-1..2", "1e9..1e9", "nan..2"])
def test_other_texts_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match="--expect"):
        parse_expectation(text)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.25, 1.35, ChangeVerdict.AS_EXPECTED),
        (1.05, 1.15, ChangeVerdict.LESS),
        (0.985, 1.015, ChangeVerdict.NO_EFFECT),
        (0.95, 1.05, ChangeVerdict.LESS),  # for sure less than 1.2, and not shown to be nothing
        (0.80, 0.90, ChangeVerdict.LESS),
        (1.60, 1.70, ChangeVerdict.MORE),
        (1.05, 1.25, ChangeVerdict.INCONCLUSIVE),
        (1.25, 1.60, ChangeVerdict.INCONCLUSIVE),
        (0.50, 3.00, ChangeVerdict.INCONCLUSIVE),
        (1.18, 1.52, ChangeVerdict.AS_EXPECTED),  # within 2 % of the range
    ],
)
def test_expected_against_measured(low: float, high: float, verdict: ChangeVerdict) -> None:
    assert judge_expectation(Interval(1.2, 1.34, 1.5), Interval(low, (low + high) / 2, high)) is verdict


def test_an_unknown_effect_decides_nothing() -> None:
    assert judge_expectation(Interval(1.2, 1.3, 1.5), UNKNOWN_INTERVAL) is ChangeVerdict.INCONCLUSIVE


def _measured(declared: ChangeDeclared, changes: dict[str, object]) -> ChangeMeasured:
    after = make_result(executor=make_executor(changes), run_means=FASTER)
    return measure_change(declared, compare_pair(ComparedPair(ComparedSide(make_result()), ComparedSide(after))))


def test_a_change_is_measured_with_the_layers_that_differ() -> None:
    found = _measured(_declared(), {"framework.torch": "2.6.0"})
    assert found.verdict is ChangeVerdict.AS_EXPECTED
    assert found.layers_differing == (Layer.FRAMEWORK,)
    assert caution_of(Layer.FRAMEWORK, found.layers_differing) == ""


def test_the_record_speaks_against_a_claim() -> None:
    assert "did not change in the record" in caution_of(Layer.SYSTEM, (Layer.FRAMEWORK,))
    assert "cannot be separated" in caution_of(Layer.SYSTEM, (Layer.FRAMEWORK, Layer.SYSTEM))
    assert "no change at all" in caution_of(Layer.SYSTEM, ())


def test_an_unsound_pair_is_refused() -> None:
    pair = ComparedPair(
        ComparedSide(make_result()), ComparedSide(make_result(), standing=make_standing(retracted="wrong"))
    )
    with pytest.raises(Refused, match="R16"):
        measure_change(_declared(), compare_pair(pair))


def test_the_book_counts_by_owner_and_layer_and_chains_what_followed() -> None:
    first, second, third = _declared(what="a"), _declared("1.0..1.1", Layer.SYSTEM, "b"), _declared(what="c")
    right = _measured(first, {"framework.torch": "2.6.0"})
    effect = Interval(0.99, 1.0, 1.01)
    after = right.model_copy(
        update={
            "change_id": second.change_id,
            "before": right.after,
            "after": "cd" * 32,
            "effect": effect,
            "verdict": ChangeVerdict.NO_EFFECT,
        }
    )
    book = keep_book([first, second, third], [right, after])
    assert [row.verdict for row in book.rows] == [ChangeVerdict.AS_EXPECTED, ChangeVerdict.NO_EFFECT, None]
    (owner,) = book.by_owner
    assert (owner.declared, owner.decided, owner.as_expected, owner.less) == (3, 2, 1, 1)
    assert {one.name: one.as_expected for one in book.by_layer} == {"framework": 1, "system": 0}
    ((ids, gain),) = book.chains
    assert ids == (first.change_id, second.change_id)
    assert gain.low < 1.3 < gain.high
    assert (gain.low, gain.high) == pytest.approx((right.effect.low * 0.99, right.effect.high * 1.01))


def test_a_doubtful_run_measures_no_change() -> None:
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("others used 20 % of the machine",))
    after = make_result(run_means=FASTER).model_copy(update={"validity": doubt})
    pair = ComparedPair(ComparedSide(make_result()), ComparedSide(after))
    outcome = measure_change(_declared(), compare_pair(pair))
    assert outcome.verdict is ChangeVerdict.INCONCLUSIVE
    assert outcome.effect.low > 1.2
