"""Pairs in one sitting: the order by lot, what cannot be paired, and what differences within pairs are worth."""

from __future__ import annotations

import numpy as np
import pytest

from compared import make_contract, make_precision, make_result
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.effects import decide
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.errors import BadInput, Refused
from lynxbench.experiment.pairing import draw_order, refuse_unpaired
from lynxbench.experiment.visiting import Setting
from lynxbench.model.comparison import EffectVerdict
from lynxbench.model.evidence_gate import FOREIGN_LOAD
from lynxbench.model.result import Validity, ValidityVerdict
from lynxbench.stats.intervals import paired_ratio_interval, ratio_interval

BUDGET = 0.005


def test_each_order_comes_as_often_and_by_lot() -> None:
    rng = np.random.default_rng(1)
    orders = [draw_order(10, rng) for _ in range(50)]
    assert all(order.count("AB") == 5 for order in orders)
    assert len(set(orders)) > 20
    assert {draw_order(1, rng) for _ in range(50)} == {("AB",), ("BA",)}
    assert abs(draw_order(7, rng).count("AB") - 3.5) == 0.5


def test_what_cannot_be_paired_is_said_before_anything_is_measured() -> None:
    plain = Setting(make_contract())
    refuse_unpaired(plain, plain)
    with pytest.raises(BadInput, match=r"protocol.restarts is 5 in A and 7 in B"):
        refuse_unpaired(plain, Setting(make_contract(protocol={"restarts": 7})))
    with pytest.raises(Refused, match=r"incomparable whatever is measured: protocol.min_duration"):
        refuse_unpaired(plain, Setting(make_contract(protocol={"min_duration": "90 s"})))


def _neighbour(rng: np.random.Generator, processes: int) -> np.ndarray:
    """A neighbour that comes and goes: slower by a tenth while it is there, for about eight processes at a time."""
    there, slow = False, []
    for _ in range(processes):
        there = there if rng.random() > 0.12 else not there
        slow.append(0.1 * there)
    return np.array(slow)


def _measured(rng: np.random.Generator, pairs: int, slower: float) -> tuple[np.ndarray, np.ndarray]:
    """Both halves of each pair, in an order by lot, under a neighbour."""
    noise = 0.003 * rng.normal(size=2 * pairs) - _neighbour(rng, 2 * pairs)
    first = np.array([order == "AB" for order in draw_order(pairs, rng)])
    halves = noise.reshape(pairs, 2)
    a = np.where(first, halves[:, 0], halves[:, 1])
    b = np.where(first, halves[:, 1], halves[:, 0]) - np.log1p(slower)
    return np.exp(a), np.exp(b)


def test_equal_ones_are_not_told_apart_under_a_neighbour() -> None:
    rng = np.random.default_rng(2)
    called = 0
    for _ in range(400):
        verdict = decide(paired_ratio_interval(*_measured(rng, 10, 0.0)), BUDGET, higher_is_better=True)
        called += verdict in (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED)
    assert called / 400 <= 0.05


def test_pairs_decide_where_levels_do_not() -> None:
    rng = np.random.default_rng(3)
    in_pairs = by_levels = 0
    for _ in range(300):
        a, b = _measured(rng, 20, 0.02)
        in_pairs += decide(paired_ratio_interval(a, b), BUDGET, higher_is_better=True) is EffectVerdict.REGRESSED
        by_levels += decide(ratio_interval(a, b), BUDGET, higher_is_better=True) is EffectVerdict.REGRESSED
    assert in_pairs / 300 > 0.8
    assert by_levels / 300 < 0.3


def test_a_comparison_in_pairs_says_so_and_takes_differences() -> None:
    a = (100.0, 80.0, 100.0, 80.0, 100.0)
    b = tuple(0.97 * mean * (1 + 0.001 * (-1) ** place) for place, mean in enumerate(a))
    sides = ComparedSide(make_result(run_means=a), "A"), ComparedSide(make_result(run_means=b), "B")
    alone = compare_pair(ComparedPair(*sides))
    assert alone.verdict is EffectVerdict.INCONCLUSIVE
    assert alone.order == ()
    paired = compare_pair(ComparedPair(*sides, order=("AB", "BA", "AB", "BA", "AB")))
    assert paired.verdict is EffectVerdict.REGRESSED
    assert paired.order == ("AB", "BA", "AB", "BA", "AB")
    assert "within 5 pairs" in paired.per_precision[0].effects[0].basis


def test_foreign_load_is_in_both_halves_and_other_doubts_stay() -> None:
    def side(name: str, reason: str, factor: float) -> ComparedSide:
        validity = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=(reason,))
        means = tuple(factor * mean for mean in (100.0, 101.0, 99.0, 100.5, 99.5))
        part = make_precision(run_means=means, validity=validity)
        whole = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=(f"fp32: {reason}",))
        return ComparedSide(make_result(per_precision=(part,), validity=whole), name)

    order = ("AB",) * 5
    loaded = FOREIGN_LOAD + ": other programs used 40 % of the CPUs"
    sides = side("A", loaded, 1.0), side("B", loaded, 0.97)
    assert compare_pair(ComparedPair(*sides)).verdict is EffectVerdict.UNPROVEN
    assert compare_pair(ComparedPair(*sides, order=order)).verdict is EffectVerdict.REGRESSED
    failed = side("A", "a process failed: out of memory", 1.0)
    assert compare_pair(ComparedPair(failed, sides[1], order=order)).verdict is EffectVerdict.UNPROVEN


def test_pairs_of_unequal_number_have_no_interval() -> None:
    assert not paired_ratio_interval([1.0, 2.0], [1.0, 2.0, 3.0]).known
    assert paired_ratio_interval([1.0, 2.0], [1.1, 2.2]).estimate == pytest.approx(1.1)
    assert not paired_ratio_interval([1.0], [1.1]).known
