"""Work at full speed that nobody needs: named where values were followed and showed it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launched_operators import Judge, Launched, dense, flow, launched_steps
from lynxbench.attribute.read.dataflow import FLOW_KEY, Dataflow, OperatorFlow
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.trace_columns import condense_trace, read_columns
from lynxbench.model.attribution import Bound
from lynxbench.model.layers import Layer

LAYER: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], 21.0)
"""2 GFLOP at 100 GFLOP/s: near the ceiling."""
GRADIENT: Launched = ("aten::mm", [dense(1000, 2000), dense(2000, 1000)], 42.0)
NARROW: Launched = ("aten::mm", [dense(1, 4000), dense(4000, 4000)], 3.4)
"""64 MB at 20 GB/s: near the memory's ceiling."""
PART: Launched = ("aten::mm", [dense(4000, 1), dense(1, 4000)], 3.4)
"""Of a sum: 64 MB are written."""
ADDED: Launched = ("aten::add_", [dense(4000, 4000), dense(4000, 4000)], 10.0)


@pytest.fixture
def followed(followed: Judge) -> Judge:
    """By the edition that named these first."""
    return partial(followed, rules=12)


@pytest.mark.parametrize(
    ("operators", "flows", "said", "true_gain"),
    [
        pytest.param([LAYER] * 4, [flow(LAYER, 4, again=2)], "compute anew", 2.0, id="half is done again"),
        pytest.param([LAYER, LAYER, GRADIENT], [flow(GRADIENT, 1, unread=1)], "nobody reads", 2.0, id="read by nobody"),
        pytest.param([LAYER] * 2, [flow(LAYER, 2, nonzero=0.001)], "with zeros", 100.0, id="ones and zeros"),
        pytest.param([LAYER] * 2, [flow(LAYER, 2, zero_rows=0.6)], "with zeros", 2.5, id="padding"),
        pytest.param([NARROW] * 8, [flow(NARROW, 8, batches=1)], "the same weights", 7.0, id="small parts"),
        pytest.param(
            [LAYER, LAYER, GRADIENT],
            [flow(LAYER, 2, again=1), flow(GRADIENT, 1, unread=1)],
            "nobody reads",
            4.0,
            id="two at once, the larger is named",
        ),
    ],
)
def test_what_values_show_to_be_needless_is_not_the_hardwares(
    followed: Judge, operators: list[Launched], flows: list[OperatorFlow], said: str, true_gain: float
) -> None:
    found = followed(operators, *flows)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert said in found.sentence
    assert found.gain_if_removed.low <= true_gain <= found.gain_if_removed.high
    assert any("values were followed through two steps: aten::mm " in line for line in found.evidence)
    before = followed(operators, *flows, rules=11)
    assert before.bound is Bound.HARDWARE, "earlier results are recomputed by their rules"
    assert not any("followed" in line for line in before.evidence)


def test_parts_that_are_only_summed_are_one_product_and_nothing_is_added(followed: Judge) -> None:
    operators, flows = [PART, *[PART, ADDED] * 3], (flow(PART, 4, sums=1), flow(ADDED, 3, adding=3))
    found, before = (followed(operators, *flows, rules=rules) for rules in (12, 11))
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "to add up results" in found.sentence
    assert found.gain_if_removed.low <= (4 * 3.4 + 3 * 10.0) / 3.4 <= found.gain_if_removed.high
    assert any("values were followed through two steps: aten::add_, aten::mm " in line for line in found.evidence)
    assert before.bound is Bound.HARDWARE


@pytest.mark.parametrize(
    ("operators", "flows", "words"),
    [
        pytest.param([LAYER] * 4, [], {}, id="nothing was needless"),
        pytest.param([LAYER] * 4, [flow(LAYER, 3, again=2)], {}, id="another number of calls: not the same step"),
        pytest.param([LAYER] * 4, [flow(GRADIENT, 4, again=4)], {}, id="operands of other sizes"),
        pytest.param([LAYER] * 4, [flow(LAYER, 4, again=2)], {"whole": False, "why": "compiled"}, id="not seen whole"),
        pytest.param([LAYER] * 8, [flow(LAYER, 8, again=1)], {}, id="too little for so strong a word"),
        pytest.param([LAYER] * 4, [flow(LAYER, 4, batches=1)], {}, id="parts that are large enough"),
        pytest.param([PART] + [PART, ADDED] * 3, [flow(PART, 4, sums=4)], {}, id="parts of a sum that are read"),
        pytest.param([LAYER] * 4, [flow(LAYER, 4, sums=1)], {}, id="parts of a sum that are large enough"),
        pytest.param([LAYER] * 4, [flow(LAYER, 4, nonzero=0.3)], {}, id="a factor of which a third is not 0"),
        pytest.param([LAYER] * 4 + [("somebodys::kernel", [], 9.0)], [flow(LAYER, 4)], {}, id="said of nothing"),
    ],
)
def test_nothing_is_blamed_where_values_do_not_show_it(
    followed: Judge, operators: list[Launched], flows: list[OperatorFlow], words: dict[str, Any]
) -> None:
    found = followed(operators, *flows, **words)
    assert found.bound is not Bound.SOFTWARE
    assert not any(part in found.sentence for part in ("anew", "nobody reads", "with zeros"))


def test_what_was_not_followed_is_said(followed: Judge) -> None:
    found = followed([LAYER] * 2, whole=False, why="a graph was replayed")
    assert any(
        line.startswith("values were not followed through a step (a graph was replayed)") for line in found.evidence
    )
    clean = followed([LAYER] * 2)
    assert any("no operator of weight computes anew" in line for line in clean.evidence)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(calls=st.integers(2, 8), again=st.integers(0, 8), unread=st.integers(0, 8))
def test_the_gain_is_that_of_the_calls_that_go(followed: Judge, calls: int, again: int, unread: int) -> None:
    again = min(again, calls - 1)
    unread = min(unread, calls - 1 - again)
    gone = again + unread
    found = followed([LAYER] * calls, flow(LAYER, calls, again=again, unread=unread))
    true_gain = calls / (calls - gone)
    assert (found.bound is Bound.SOFTWARE) == (true_gain >= 1.3)
    if true_gain >= 1.3:
        assert found.gain_if_removed.low <= true_gain <= found.gain_if_removed.high


def test_it_is_kept_with_the_columns_of_a_trace(
    make_event: Callable[..., dict[str, Any]], write_trace: Callable[..., Path]
) -> None:
    events, _ = launched_steps(make_event, [LAYER])
    seen = Dataflow(2, (flow(LAYER, 1, unread=1),))
    path = write_trace(events, **{FLOW_KEY: msgspec.to_builtins(seen)})
    assert read_trace(path).dataflow == seen
    assert read_columns(condense_trace(path)).dataflow == seen


@pytest.mark.parametrize(
    "document",
    [
        {"steps": 2, "operators": [{"name": "a", "sizes": [], "calls": 0}]},
        {"steps": 2, "operators": [{"name": "a", "sizes": [], "calls": 1, "nonzero": -1.0}]},
        {"steps": 2, "nonsense": 1},
        [],
        7,
    ],
)
def test_a_document_that_is_none_leaves_the_trace_as_it_is(
    document: object, make_event: Callable[..., dict[str, Any]], write_trace: Callable[..., Path]
) -> None:
    events, _ = launched_steps(make_event, [LAYER])
    trace = read_trace(write_trace(events, deviceProperties=[{"name": "a card"}], **{FLOW_KEY: document}))
    assert trace.dataflow is None
    assert trace.device == "a card"
