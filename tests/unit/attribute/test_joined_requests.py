"""Requests laid over a trace: against counting every moment."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.attribute.read.trace import EventKind, Trace
from lynxbench.attribute.tile.joined_requests import join_requests, unix_offset_ns

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=8)
BASE = 1_790_000_000_000_000_000


def trace_of(kernels, base_ns=BASE, kind=EventKind.KERNEL):
    rows = sorted(kernels)
    count = len(rows)
    none = np.full(count, -1, dtype=np.int64)
    return Trace(
        source="t", names=("k",), threads=(("0", "0"),), signatures=(), kind=np.full(count, kind, dtype=np.int8),
        name=np.zeros(count, np.int32), start_ns=np.array([start for start, _ in rows], dtype=np.int64),
        dur_ns=np.array([length for _, length in rows], dtype=np.int64), thread=np.zeros(count, np.int32),
        correlation=none, external=none, signature=np.full(count, -1, np.int32), nbytes=none, device="d", notes=(),
        damaged=False, base_ns=base_ns,
    )  # fmt: skip


@given(SPANS, SPANS)
def test_every_moment_is_counted_once(kernels, requests):
    joined = join_requests(trace_of(kernels), [(BASE + start, BASE + start + length) for start, length in requests])
    first, last = min(start for start, _ in kernels), max(start + length for start, length in kernels)

    def moments(spans):
        return {moment for start, length in spans for moment in range(start, start + length)}

    working = moments(kernels)
    open_ = moments(requests) & set(range(first, last))
    assert joined.work_ns == len(working)
    assert joined.open_ns == len(open_)
    assert joined.busy_ns == len(working & open_)
    assert joined.requests == sum(start < last and start + length > first for start, length in requests)


def test_a_clock_that_is_not_known_joins_nothing():
    assert unix_offset_ns(trace_of([(5, 1)], base_ns=None)) is None
    assert join_requests(trace_of([(5, 1)], base_ns=None), [(0, 10)]) is None
    absolute = trace_of([(BASE + 5, 1)], base_ns=None)
    assert unix_offset_ns(absolute) == 0, "older profilers write the time of day itself"


def test_a_host_alone_is_joined_by_its_operators():
    trace = trace_of([(0, 10), (20, 10)], kind=EventKind.OPERATOR)
    joined = join_requests(trace, [(BASE, BASE + 15)])
    assert (joined.open_ns, joined.busy_ns, joined.work_ns) == (15, 10, 20)


@pytest.mark.parametrize("kind", [EventKind.RUNTIME, EventKind.ANNOTATION])
def test_a_trace_without_work(kind):
    joined = join_requests(trace_of([(0, 10)], kind=kind), [(BASE, BASE + 5)])
    assert dataclasses.astuple(joined) == (0, 0, 0, 0)
