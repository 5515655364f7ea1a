"""Large rows that an index writes again, as a device's trace shows them."""

from __future__ import annotations

import pytest

from launched_operators import Judge, Launched, dense
from lynxbench.model.attribution import Bound
from lynxbench.model.layers import Layer

READER: Launched = ("aten::sum", [dense(1000, 1000)], 1.0)


def picking(rows: int, picked: int, width: int, ms: float) -> Launched:
    return "aten::index_select", [dense(rows, width), dense(picked)], ms


@pytest.mark.parametrize(
    ("fetched", "is_copy"),
    [
        pytest.param(picking(32, 32, 31_250, 2.0), True, id="all of them"),
        pytest.param(picking(32, 16, 31_250, 2.0), True, id="half of them"),
        pytest.param(picking(32, 8, 31_250, 2.0), False, id="few are looked up"),
        pytest.param(picking(10_000, 10_000, 100, 2.0), False, id="rows of a small table"),
    ],
)
def test_large_rows_that_an_index_writes_again_are_copies(judge: Judge, fetched: Launched, is_copy: bool) -> None:
    said = judge(fetched, READER, rules=15)
    assert ("only to copy" in said.sentence) is is_copy
    assert "only to copy" not in judge(fetched, READER, rules=14).sentence, "earlier results keep their rules"
    if is_copy:
        assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
        assert said.gain_if_removed.low <= 3.0 <= said.gain_if_removed.high


def test_rows_that_an_index_repeats_are_read_once_at_the_most(judge: Judge) -> None:
    """Each row is written eight times, and a product reads them all: grouped by row, an eighth of it is left."""
    weights = dense(64, 500, 1000)
    repeating: Launched = ("aten::index_select", [dense(8, 500, 1000), dense(64)], 12.0)
    said = judge(repeating, ("aten::bmm", [dense(64, 1, 500), weights], 6.4), rules=15)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert said.gain_if_removed.low <= 18.4 / 6.4 <= said.gain_if_removed.high
    assert said.gain_if_removed.high >= 18.4 / 0.81, "and not more than once for each row"


def test_a_step_that_only_picks_rows_is_taken_at_its_word(judge: Judge) -> None:
    assert "only to copy" not in judge(picking(32, 32, 31_250, 2.0), rules=15).sentence
