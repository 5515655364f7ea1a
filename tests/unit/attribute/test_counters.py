"""Counters beside a trace: dealt to kernels by time, and stronger than names and shapes."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.read.counters import Counters, combine_metrics
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.nsight import read_nsight
from lynxbench.attribute.read.trace import EventKind
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

DATA = Path(__file__).parents[2] / "data" / "traces"
_spec = importlib.util.spec_from_file_location("nsight_export_too", Path(__file__).parent / "test_nsight.py")
assert _spec is not None
assert _spec.loader is not None
nsight = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(nsight)

METRICS = {1: "SMs Active [Throughput %]", 2: "Tensor Active [Throughput %]", 3: "DRAM Read Bandwidth [Throughput %]"}


def test_samples_go_to_the_kernel_they_fell_into() -> None:
    at = np.arange(0, 100, 2, dtype=np.int64)
    counters = Counters(at, np.where(at < 50, 0.8, 0.1), np.where(at < 50, 0.2, 0.9))
    start, dur = np.array([0, 50]), np.array([40, 30])
    found = counters.by_name(start, dur, np.array([7, 3], dtype=np.int32))
    assert set(found) == {3, 7}
    assert (found[7].arithmetic_binds, found[3].arithmetic_binds) == (True, False)
    assert found[3].reached == pytest.approx(0.9)


def test_few_samples_and_idle_units_say_nothing() -> None:
    few = Counters(np.array([1, 2]), np.ones(2), np.zeros(2))
    start, dur, name = np.array([0]), np.array([10]), np.array([0], dtype=np.int32)
    assert few.by_name(start, dur, name) == {}
    idle = Counters(np.arange(10), np.full(10, 0.01), np.full(10, 0.02))
    assert idle.by_name(start, dur, name) == {}


def test_reads_and_writes_share_the_bus_and_unknown_metrics_are_left_out() -> None:
    at = np.arange(4, dtype=np.int64)
    series = {
        "Tensor Active [Throughput %]": (at, np.full(4, 10.0)),
        "SM Issue [Throughput %]": (at, np.full(4, 30.0)),
        "DRAM Read Bandwidth [Throughput %]": (at, np.full(4, 50.0)),
        "DRAM Write Bandwidth [Throughput %]": (at, np.full(4, 20.0)),
        "PCIe RX Throughput [Throughput %]": (at, np.full(4, 99.0)),
    }
    found = combine_metrics(series)
    assert found is not None
    assert found.arithmetic.tolist() == pytest.approx([0.3] * 4)
    assert found.memory.tolist() == pytest.approx([0.7] * 4)
    assert combine_metrics({"SM Issue [Throughput %]": (at, np.full(4, 30.0))}) is None


def with_metrics(path: Path, tensor: float, dram: float) -> Path:
    """An export whose device was sampled every 20 µs: the given shares inside kernels, nothing outside."""
    source = read_trace(DATA / "decode_graph_b1.json.gz")
    nsight.export(source, path)
    kernels = source.rows_of(EventKind.KERNEL)
    start, end = source.start_ns[kernels], source.end_ns[kernels]
    at = np.arange(start.min(), end.max(), 20_000)
    inside = at < end[np.maximum(np.searchsorted(start, at, side="right") - 1, 0)]
    rows = [
        (int(t), 1, metric, value * busy)
        for t, busy in zip(at.tolist(), inside.tolist(), strict=True)
        for metric, value in ((1, 99), (2, tensor), (3, dram))
    ]
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE TARGET_INFO_GPU_METRICS (typeId, sourceId, typeName, metricId, metricName)")
        database.execute("CREATE TABLE GPU_METRICS (timestamp, typeId, metricId, value)")
        named = [(1, 0, "gpu", number, name) for number, name in METRICS.items()]
        database.executemany("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, ?, ?, ?, ?)", named)
        database.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, ?, ?)", rows)
    database.close()
    return path


def judge(path: Path) -> Attribution:
    return attribute_trace(
        path, ceilings=(), precision=Precision.BF16, unprofiled_step_ms=None, owner=DEFAULT_OWNERS.__getitem__
    )


def test_counters_decide_what_names_only_suggest(tmp_path: Path) -> None:
    plain = judge(DATA / "decode_graph_b1.json.gz")
    assert plain.bound is Bound.UNDETERMINED, "a replayed graph has no shapes"
    path = with_metrics(tmp_path / "memory.sqlite", tensor=6.0, dram=88.0)
    assert read_nsight(path).counters is not None
    memory = judge(path)
    assert (memory.bottleneck, memory.bound) == (Category.MEMORY_BANDWIDTH, Bound.HARDWARE)
    assert any("samples of hardware counters decide" in line for line in memory.evidence)
    compute = judge(with_metrics(tmp_path / "compute.sqlite", tensor=91.0, dram=20.0))
    assert (compute.bottleneck, compute.bound) == (Category.COMPUTE, Bound.HARDWARE)
    slow = judge(with_metrics(tmp_path / "slow.sqlite", tensor=8.0, dram=20.0))
    assert slow.bound is Bound.SOFTWARE, "kernels that use a fifth of what the device has"
