"""Packed 8-bit weights carry no shape; the result's allocation inside the call tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.operator_work import estimate_work
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.operator_names import operator_kind
from lynxbench.model.attribution import Bound, Category, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
NAME = "quantized::linear_dynamic"


def packed_call(make_event: Make, at: float, took: float, result: str, tid: int = 1) -> list[dict[str, Any]]:
    kinds = {"Input type": ["float", "", "Scalar"], "Input Dims": [[1, 1, 4096], [], []]}
    inner = {"Input type": ["ScalarList"], "Input Dims": [[]], "Concrete Inputs": [result]}
    return [
        make_event(NAME, at, took, **kinds),
        make_event("aten::empty", at + 5, 2.0, tid=tid, **inner),
    ]


def test_the_allocation_inside_gives_the_width(write_trace: Write, make_event: Make) -> None:
    trace = read_trace(write_trace(packed_call(make_event, 10.0, 900.0, "[1, 4096]")))
    row = next(i for i in range(len(trace)) if trace.names[trace.name[i]] == NAME)
    found = estimate_work(NAME, operator_kind(NAME), trace.signatures[trace.signature[row]])
    assert found is not None
    assert found.flops == 2 * 4096 * 4096
    assert found.read_bytes == 4096 * 4 + 4096 * 4096


@pytest.mark.parametrize(("result", "tid"), [("[]", 1), ("[7, 4096]", 1), ("[1, 4096]", 2), ("many", 1)])
def test_other_allocations_tell_nothing(write_trace: Write, make_event: Make, result: str, tid: int) -> None:
    trace = read_trace(write_trace(packed_call(make_event, 10.0, 900.0, result, tid)))
    assert not any(signature.results for signature in trace.signatures)


def test_int8_decode_gets_a_verdict(write_trace: Write, make_event: Make) -> None:
    # 16.8 MB of 8-bit weights a call at 20 GB/s: 0.84 ms.
    events = []
    for i in range(6):
        at = i * 4_000.0
        events.append(make_event(f"step#{i}", at, 3_900.0, cat="user_annotation"))
        for call in range(4):
            events += packed_call(make_event, at + 10 + call * 960, 950.0, "[1, 4096]")
    ceilings = (
        Ceiling(name="copy", precision=None, per_s=20e9, unit="bytes/s", how="declared"),
        Ceiling(name="read", precision=None, per_s=20e9, unit="bytes/s", how="declared"),
    )
    said = attribute_trace(
        write_trace(events),
        ceilings=ceilings,
        precision=Precision.INT8,
        unprofiled_step_ms=3.9,
        owner=DEFAULT_OWNERS.__getitem__,
    )
    assert (said.bottleneck, said.bound) == (Category.MEMORY_BANDWIDTH, Bound.HARDWARE)


def test_a_real_quantised_layer(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    engines = [name for name in torch.backends.quantized.supported_engines if name != "none"]
    if not engines:
        pytest.skip("this torch has no quantised kernels")
    from lynxbench.engines.torch.linear import Int8DynamicCpu, choose_quantised_engine

    before = torch.backends.quantized.engine
    try:
        choose_quantised_engine()
        layer = Int8DynamicCpu(torch.nn.Linear(576, 1536), torch.float32)
        x = torch.randn(1, 1, 576)
        with torch.inference_mode(), torch.profiler.profile(record_shapes=True) as profiler:
            for i in range(4):
                with torch.profiler.record_function(f"step#{i}"):
                    layer(x)
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    finally:
        torch.backends.quantized.engine = before
    trace = read_trace(tmp_path / "trace.json")
    rows = [i for i in range(len(trace)) if trace.names[trace.name[i]] == NAME]
    assert rows
    for row in rows:
        found = estimate_work(NAME, operator_kind(NAME), trace.signatures[trace.signature[row]])
        assert found is not None
        assert found.flops == 2 * 576 * 1536
