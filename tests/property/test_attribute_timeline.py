"""Generated nested timelines of known truth: time is conserved exactly, shares sum to 1, order does not matter."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.roofline import Ceilings
from lynxbench.attribute.judge.time_book import keep_book
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.tile.host_tiles import tile_host
from lynxbench.attribute.tile.steps import find_steps
from lynxbench.attribute.tile.tiling import tile_trace
from lynxbench.model.attribution import Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

CEILINGS = (
    Ceiling(name="matmul", precision=Precision.FP32, per_s=100e9, unit="operations/s", how="declared"),
    Ceiling(name="copy", precision=None, per_s=20e9, unit="bytes/s", how="declared"),
)
LEAVES = ("aten::mm", "aten::add", "aten::empty", "aten::view", "aten::_softmax", "mylib::thing")


@dataclass
class Node:
    name: str
    before_ns: int
    own_ns: int
    inner: list[Node]

    @property
    def dur_ns(self) -> int:
        return self.own_ns + sum(child.before_ns + child.dur_ns for child in self.inner)


leaves = st.builds(Node, st.sampled_from(LEAVES), st.integers(0, 3_000), st.integers(0, 90_000), st.just([]))
trees = st.recursive(
    leaves,
    lambda inner: st.builds(
        Node,
        st.sampled_from(("aten::linear", "aten::matmul", "aten::softmax")),
        st.integers(0, 2_000_000),
        st.integers(0, 5_000),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)
steps_of_trees = st.lists(st.lists(trees, max_size=5), min_size=1, max_size=4)


def lay(node: Node, at: int, out: list[dict[str, Any]], own: dict[str, int]) -> int:
    """Events of a tree from `at` on; returns its end. Own time is spent before the children."""
    begin = at + node.before_ns
    event = _event(node.name, begin, 0)
    event["args"]["External id"] = len(out)  # ids grow in the order in which operators begin, as the profiler's do
    out.append(event)
    inside = begin + node.own_ns
    own[node.name] = own.get(node.name, 0) + node.own_ns
    for child in node.inner:
        own[node.name] += child.before_ns  # a gap inside a parent is the parent's own time
        inside = lay(child, inside, out, own)
    event["dur"] = (inside - begin) / 1000
    return inside


def _event(name: str, start_ns: int, dur_ns: int, cat: str = "cpu_op") -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": start_ns / 1000,
        "dur": dur_ns / 1000,
        "args": {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]},
    }


def build(steps: list[list[Node]], tail_ns: int) -> tuple[list[dict[str, Any]], dict[str, int], int]:
    events: list[dict[str, Any]] = []
    own: dict[str, int] = {}
    at, total = 5_000, 0
    for i, nodes in enumerate(steps):
        start = at
        for node in nodes:
            at = lay(node, at, events, own)
        at += tail_ns + 1
        events.append(_event(f"step#{i}", start, at - start, "user_annotation"))
        total += at - start
        at += 7
    return events, own, total


def write(events: list[dict[str, Any]], folder: str) -> Path:
    path = Path(folder) / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@settings(max_examples=120, deadline=None)
@given(steps_of_trees, st.integers(0, 10_000))
def test_time_is_conserved_and_each_operator_gets_its_own(steps: list[list[Node]], tail_ns: int) -> None:
    kept = steps[1:] if len(steps) >= 3 else steps
    events, _, _ = build(steps, tail_ns)
    _, own, total = build(kept, tail_ns)
    with tempfile.TemporaryDirectory() as folder:
        trace = read_trace(write(events, folder))
    found = find_steps(trace)
    stretches, misnested = tile_host(trace, found)
    assert stretches.fill(found)
    assert misnested == 0
    assert int((found.end_ns - found.start_ns).sum()) == total
    spent: dict[str, int] = {}
    for row, dur in zip(stretches.row.tolist(), stretches.dur_ns.tolist(), strict=True):
        name = trace.names[trace.name[row]]
        if not name.startswith("step#"):
            spent[name] = spent.get(name, 0) + dur
    assert spent == {name: ns for name, ns in own.items() if ns}
    book = keep_book(tile_trace(trace), Ceilings(CEILINGS, Precision.FP32))
    assert np.array_equal(book.spent_ns.sum(axis=1), book.wall_ns)
    assert (book.spent_ns >= 0).all()


@settings(max_examples=60, deadline=None)
@given(steps_of_trees, st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_shares_sum_to_one_and_order_does_not_matter(
    steps: list[list[Node]], tail_ns: int, chance: random.Random
) -> None:
    if not any(steps):
        return
    events, _, _ = build(steps, tail_ns)
    shuffled = events[:]
    chance.shuffle(shuffled)
    said = []
    for variant in (events, shuffled):
        with tempfile.TemporaryDirectory() as folder:
            said.append(
                attribute_trace(
                    write(variant, folder),
                    ceilings=CEILINGS,
                    precision=Precision.FP32,
                    unprofiled_step_ms=None,
                    owner=DEFAULT_OWNERS.__getitem__,
                )
            )
    assert said[0] == said[1]
    assert sum(said[0].shares.values()) == pytest.approx(1.0)
    assert all(share >= 0 for share in said[0].shares.values())
    assert 1.0 <= said[0].gain_if_removed.low <= said[0].gain_if_removed.estimate <= said[0].gain_if_removed.high


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(0, 60_000), st.sampled_from(LEAVES), st.integers(1, 3)),
        min_size=1,
        max_size=30,
    )
)
def test_any_overlap_still_conserves_time(spans: list[tuple[int, int, str, int]]) -> None:
    """Events that no sane profiler writes: they overlap at will. The accounting stays exact all the same."""
    events = [_event(name, start, dur) | {"tid": tid} for start, dur, name, tid in spans]
    events.append(_event("step#0", 0, 50_001, "user_annotation"))
    events.append(_event("autograd::engine::evaluate_function: X", 3, 40_000) | {"tid": 2})
    with tempfile.TemporaryDirectory() as folder:
        trace = read_trace(write(events, folder))
    steps = find_steps(trace)
    stretches, _ = tile_host(trace, steps)
    assert stretches.fill(steps)
    book = keep_book(tile_trace(trace), Ceilings(CEILINGS, Precision.FP32))
    assert np.array_equal(book.spent_ns.sum(axis=1), book.wall_ns)
