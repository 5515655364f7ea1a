"""Products of whose result only a part is read: called so where sizes and strides show it, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launched_operators import Judge, Launched, Operand, dense
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.layers import Layer

HEAD: Launched = ("aten::mm", [dense(500, 500), dense(500, 2000)], 10.3)
"""2 × 250 places, 2000 words: 10 ms at the ceiling, and a weight that is as large as the result."""
LAST: Operand = ((2, 2000), (500_000, 1))


def test_the_last_place_of_every_result_is_not_the_hardwares(judge: Judge) -> None:
    """Two places of 500 are read; the weight alone takes 0.2 ms of the product's 10.3."""
    said = judge(HEAD, ("aten::copy_", [dense(2, 2000), LAST], 0.01))
    assert (said.bound, said.bottleneck, said.layer) == (Bound.SOFTWARE, Category.COMPUTE, Layer.APPLICATION)
    assert "of which little is read inside the step" in said.sentence
    assert "before the product" in said.next_step
    assert said.gain_if_removed.low <= 10.31 / 0.25 <= said.gain_if_removed.high
    assert any("reads 0.008 of them at the most" in line and "later is not seen" in line for line in said.evidence)
    before = judge(HEAD, ("aten::copy_", [dense(2, 2000), LAST], 0.01), rules=6)
    assert before.bound is Bound.HARDWARE, "earlier results are recomputed by their rules"


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(((1, 2000), (1_000_000, 1)), id="one sequence"),
        pytest.param(((2, 3, 2000), (500_000, 2000, 1)), id="the last few places"),
        pytest.param(((2, 8, 250), (500_000, 250, 1)), id="heads of the last place"),
    ],
)
def test_a_part_is_known_by_the_strides_of_the_whole(judge: Judge, part: Operand) -> None:
    assert judge(HEAD, ("aten::argmax", [part], 0.01)).layer is Layer.APPLICATION


def test_a_few_columns_of_a_result_are_a_part_too(judge: Judge) -> None:
    made: Launched = ("aten::addmm", [dense(1000), dense(1000, 500), dense(500, 1000)], 10.3)
    assert judge(made, ("aten::argmax", [((1000, 20), (1000, 1))], 0.01)).layer is Layer.APPLICATION


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param([], id="the result is the step's"),
        pytest.param([("aten::argmax", [dense(2, 250, 2000)], 0.3)], id="the best word of every place"),
        pytest.param([("aten::_log_softmax", [dense(500, 2000)], 0.4)], id="a loss over all places"),
        pytest.param(
            [("aten::copy_", [dense(2, 2000), LAST], 0.01), ("aten::sum", [dense(2, 250, 2000)], 0.2)],
            id="the last place, and a sum over all",
        ),
        pytest.param([("aten::argmax", [dense(2, 2000)], 0.01)], id="something small without a gap"),
        pytest.param([("aten::copy_", [dense(2, 64), ((2, 64), (16_000, 1))], 0.01)], id="a part of something else"),
        pytest.param(
            [("aten::gelu", [((500, 1000), (2000, 1))], 0.2), ("aten::mul", [((500, 1000), (2000, 1))], 0.2)],
            id="two halves that are both read",
        ),
        pytest.param([("aten::fill_", [((2, 250, 1), (500_000, 2000, 1))], 0.01)], id="a word forbidden in its place"),
        pytest.param(
            [("aten::copy_", [dense(2, 2000), LAST], 0.01), ("somebodys::kernel", [], 0.1)],
            id="a kernel that shows no operands",
        ),
    ],
)
def test_what_somebody_may_read_is_taken_as_needed(judge: Judge, behind: list[Launched]) -> None:
    said = judge(HEAD, *behind)
    assert said.bound is Bound.HARDWARE
    assert "whether all of that work is needed, a trace does not tell" in said.sentence


@pytest.mark.parametrize(
    ("product", "place"),
    [
        pytest.param(
            [dense(500, 1000), dense(1000, 1000)], ((2, 1000), (250_000, 1)), id="the input, of the same size"
        ),
        pytest.param([dense(2, 250, 250), dense(2, 250, 2000)], LAST, id="the other factor, of the same strides"),
        pytest.param(HEAD[1], ((500, 20), (2000, 1)), id="columns of the weight"),
    ],
)
def test_a_view_that_may_be_of_another_operand_says_nothing(
    judge: Judge, product: list[Operand], place: Operand
) -> None:
    name, ms = ("aten::mm", 10.3) if len(product[0][0]) == 2 else ("aten::bmm", 5.2)
    copied = (place[0], dense(*place[0])[1])
    assert judge((name, product, ms), ("aten::copy_", [copied, place], 0.01)).bound is Bound.HARDWARE


def test_a_slice_without_a_product_is_a_slice(judge: Judge) -> None:
    """A pass over 240 MB at the memory's speed, then the last place of its result."""
    add: Launched = ("aten::add", [dense(2, 1000, 10_000), dense(2, 1000, 10_000)], 12.3)
    last: Operand = ((2, 10_000), (10_000_000, 1))
    assert judge(add, ("aten::copy_", [dense(2, 10_000), last], 0.01)).bound is Bound.HARDWARE


def test_a_small_part_of_a_step_is_not_its_cause(judge: Judge) -> None:
    """A layer of 50 ms whose result is read whole, and a head of 10: without the head 1.2 times as fast."""
    layer: Launched = ("aten::mm", [dense(500, 5000), dense(5000, 1000)], 51.0)
    read: Launched = ("aten::relu", [dense(500, 1000)], 0.2)
    assert judge(layer, read, HEAD, ("aten::copy_", [dense(2, 2000), LAST], 0.01)).bound is Bound.HARDWARE


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 8), places=st.integers(2, 300), taken=st.integers(1, 300), read_whole=st.booleans(),
    others=st.integers(0, 3),
)  # fmt: skip
def test_a_result_that_is_read_whole_is_never_called_unread(
    judge: Judge, rows: int, places: int, taken: int, read_whole: bool, others: int
) -> None:
    """The truth is known: a part of every row is taken, and somebody reads the whole as well or does not."""
    taken, width = min(taken, places), 2000
    elements, part = rows * places * width, ((rows, taken, width), (places * width, width, 1))
    head: Launched = ("aten::mm", [dense(rows * places, 500), dense(500, width)], elements * 1e-5 * 1.02)
    behind: list[Launched] = [("aten::argmax", [part], 0.001)]
    behind += [("aten::sum", [dense(rows, places, width)], elements * 2e-7)] if read_whole else []
    behind += [("aten::relu", [dense(7)], 0.0001)] * others
    said = judge(head, *behind)
    unread = "of which little is read" in said.sentence
    if read_whole or taken * 2 > places:
        assert not unread
    if unread:
        assert said.gain_if_removed.high >= 1.3


# --- the diagonal of a product ----------------------------------------------------------------------------------------

ALL_PAIRS: Launched = ("aten::mm", [dense(1000, 500), dense(500, 1000)], 10.3)
ACROSS: Operand = ((1000,), (1001,))


def test_a_product_of_which_the_diagonal_is_read_is_not_the_hardwares(judge: Judge) -> None:
    """Both factors, read once, take 0.2 ms of 10.3."""
    said = judge(ALL_PAIRS, ("aten::copy_", [dense(1000), ACROSS], 0.01), rules=11)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "only the diagonal is read" in said.sentence
    assert "element by element" in said.next_step
    assert said.gain_if_removed.low <= 10.31 / 0.3 <= said.gain_if_removed.high
    before = judge(ALL_PAIRS, ("aten::copy_", [dense(1000), ACROSS], 0.01), rules=10)
    assert before.bound is Bound.HARDWARE, "earlier results are recomputed by their rules"


def test_the_diagonals_of_many_matrices_are_a_part_too(judge: Judge) -> None:
    made: Launched = ("aten::bmm", [dense(4, 500, 500), dense(4, 500, 400)], 8.3)
    across: Operand = ((4, 400), (200_000, 401))
    assert "only the diagonal" in judge(made, ("aten::sum", [across], 0.01), rules=11).sentence


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param([("aten::sum", [((999,), (1001,))], 0.01)], id="a stride of its own"),
        pytest.param(
            [("aten::sum", [ACROSS], 0.01), ("aten::exp", [dense(1000, 1000)], 0.4)], id="the diagonal, and all of it"
        ),
        pytest.param([("aten::fill_", [ACROSS], 0.01)], id="a diagonal that is set"),
    ],
)
def test_what_is_no_read_of_the_diagonal_alone_says_nothing(judge: Judge, behind: list[Launched]) -> None:
    assert judge(ALL_PAIRS, *behind, rules=11).bound is Bound.HARDWARE
