"""Products in a dear order: named where only products and sums read a large result, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launched_operators import Judge, Launched, Operand, dense
from lynxbench.model.attribution import Bound
from lynxbench.model.layers import Layer

PAIRS: Operand = dense(1, 2000, 2000)
SCORES: Launched = ("aten::bmm", [dense(1, 2000, 50), dense(1, 50, 2000)], 4.2)
"""0.4 GFLOP at 100 GFLOP/s: near the ceiling; 4 million results of 0.1 million numbers each side."""
MIXED: Launched = ("aten::bmm", [PAIRS, dense(1, 2000, 50)], 4.2)
SUMMED: Launched = ("aten::sum", [PAIRS], 0.9)
OTHER_ORDER_MS = 0.2
"""Twice 2 × 50 × 50 × 2000 operations, at the ceiling."""


def said_so(judge: Judge, *operators: Launched, rules: int = 11) -> bool:
    return "another order of the products" in judge(*operators, rules=rules).sentence


def test_scores_that_are_only_multiplied_again_are_not_the_hardwares(judge: Judge) -> None:
    said = judge(SCORES, MIXED, rules=11)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "another order of the products" in said.sentence
    assert "A·(B·C)" in said.next_step
    assert said.gain_if_removed.low <= 8.4 / OTHER_ORDER_MS <= said.gain_if_removed.high
    assert any("only products and sums read" in line for line in said.evidence)
    assert judge(SCORES, MIXED, rules=10).bound is Bound.HARDWARE, "earlier results are recomputed by their rules"


@pytest.mark.parametrize(
    "readers",
    [
        pytest.param([MIXED, SUMMED], id="and summed"),
        pytest.param([SUMMED], id="summed alone"),
        pytest.param([("aten::bmm", [dense(1, 50, 2000), PAIRS], 4.2)], id="as the second factor"),
        pytest.param([("aten::bmm", [((1, 2000, 2000), (4_000_000, 1, 2000)), dense(1, 2000, 50)], 4.2)], id="turned"),
        pytest.param([("aten::mm", [dense(2000, 2000), dense(2000, 50)], 4.2)], id="by mm"),
        pytest.param([MIXED, SCORES, MIXED], id="two layers"),
    ],
)
def test_whatever_is_linear_may_come_first(judge: Judge, readers: list[Launched]) -> None:
    assert said_so(judge, SCORES, *readers)


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param([("aten::_softmax", [PAIRS], 1.6), MIXED], id="a softmax"),
        pytest.param([("aten::mul", [PAIRS, PAIRS], 2.4), MIXED], id="a mask, or a scale"),
        pytest.param([("aten::masked_fill_", [PAIRS, PAIRS], 2.4), MIXED], id="a mask in its place"),
        pytest.param([MIXED, ("aten::copy_", [PAIRS, PAIRS], 1.6)], id="kept for later"),
        pytest.param([("aten::baddbmm", [PAIRS, dense(1, 2000, 50), dense(1, 50, 2000)], 4.4)], id="added to another"),
        pytest.param([("aten::bmm", [PAIRS, PAIRS], 160.0)], id="a square of it"),
        pytest.param([MIXED, ("somebodys::kernel", [], 0.1)], id="a kernel that shows no operands"),
        pytest.param([("aten::relu", [dense(1, 2000, 50)], 0.05)], id="nobody reads it in the step"),
    ],
)
def test_what_forbids_the_other_order_or_may_says_nothing(judge: Judge, behind: list[Launched]) -> None:
    assert not said_so(judge, SCORES, *behind)


def test_a_tensor_of_that_size_that_was_there_before_says_nothing(judge: Judge) -> None:
    """It may be what is multiplied: sizes do not tell one tensor from another."""
    assert not said_so(judge, ("aten::sum", [PAIRS], 0.9), SCORES, MIXED)


def test_results_of_one_size_by_different_products_say_nothing(judge: Judge) -> None:
    other: Launched = ("aten::bmm", [dense(1, 2000, 90), dense(1, 90, 2000)], 7.4)
    assert not said_so(judge, SCORES, other, MIXED, MIXED)


def test_many_reads_of_one_result_are_cheaper_as_they_are(judge: Judge) -> None:
    """Of 1000 wide readings each costs 2 × 400 × 1000 × 4000 in the other order and 2 × 2000 × 2000 × 1000 in this."""
    made: Launched = ("aten::bmm", [dense(1, 2000, 400), dense(1, 400, 2000)], 32.5)
    read: Launched = ("aten::bmm", [PAIRS, dense(1, 2000, 1000)], 81.0)
    assert said_so(judge, made, read)
    thick: Launched = ("aten::bmm", [dense(1, 2000, 999), dense(1, 999, 2000)], 81.0)
    assert not said_so(judge, thick, *([read] * 6)), "2 × 999 × 1000 × 4000 is as much as 2 × 2000 × 2000 × 1000"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(64, 4000), widths=st.lists(st.sampled_from([64, 128, 256, 512, 1024]), min_size=2, max_size=6)
)  # fmt: skip
def test_layers_side_by_side_are_never_taken_for_a_chain(judge: Judge, rows: int, widths: list[int]) -> None:
    """Projections of one input: whatever their sizes, none reads another's result, and each has an activation."""
    layers: list[Launched] = []
    for width in widths:
        flops = 2.0 * rows * widths[0] * width
        layers.append(("aten::mm", [dense(rows, widths[0]), dense(widths[0], width)], flops / 100e9 * 1e3 * 1.03))
        layers.append(("aten::gelu", [dense(rows, width)], rows * width * 8 / 20e9 * 1e3 * 1.03))
    assert not said_so(judge, *layers)
