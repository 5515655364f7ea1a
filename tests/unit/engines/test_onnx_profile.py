"""What ONNX Runtime's own profile tells: the kernels that ran, and nothing that is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lynxbench.attribute.read.operator_names import OperatorKind, operator_kind
from lynxbench.engines.onnx.runtime_profile import (
    GraphNodeRun,
    RuntimeProfile,
    judge_execution,
    parse_profile,
    write_trace,
)
from lynxbench.model.precision import Native, Precision


def node(operator: str, *types: str, dur_us: float = 1.0) -> GraphNodeRun:
    return GraphNodeRun(operator, operator, "CPUExecutionProvider", 0.0, dur_us, types, (), (), 1)


@pytest.mark.parametrize(
    ("nodes", "precision", "native"),
    [
        ([node("MatMul", "float", "float")], Precision.FP32, Native.NATIVE),
        ([node("MatMul", "float16", "float16")], Precision.FP16, Native.NATIVE),
        ([node("MatMul", "float", "float"), node("Cast", "float16")], Precision.FP16, Native.EMULATED),
        ([node("MatMul", "float16", "float16")], Precision.FP32, Native.EMULATED),
        ([node("MatMulNBits", "float", "uint8")], Precision.INT8_WEIGHT_ONLY, Native.NATIVE),
        (
            [node("MatMulInteger", "uint8", dur_us=1), node("MatMul", "float", dur_us=9)],
            Precision.INT8,
            Native.EMULATED,
        ),
        (
            [node("MatMulInteger", "uint8", dur_us=1), node("Einsum", "float", dur_us=9)],
            Precision.INT8,
            Native.EMULATED,
        ),
        ([node("MatMulNBits", "float", "uint8")], Precision.INT4_WEIGHT_ONLY, Native.NATIVE),
        ([node("MatMul", "float", "float")], Precision.INT4_WEIGHT_ONLY, Native.EMULATED),
        ([node("MatMulNBits", "float", "uint8")], Precision.FP32, Native.EMULATED),
        ([node("Relu", "float")], Precision.FP32, Native.UNKNOWN),
    ],
)
def test_the_kernels_that_ran_decide(nodes: list[GraphNodeRun], precision: Precision, native: Native) -> None:
    assert judge_execution(RuntimeProfile(tuple(nodes), ()), precision, precision, "t").native is native


def test_events_that_are_no_kernels_are_left_out(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"cat": "Node", "name": "a_fence_before", "ts": 1, "dur": 1, "args": {"op_name": "MatMul"}},
        {"cat": "Node", "name": "a_kernel_time", "ts": 2, "dur": 3, "args": {"op_name": "MatMul", "provider": "P"}},
        {"cat": "Session", "name": "model_run", "ts": 1, "dur": 5, "args": {}},
        {"cat": "Session", "name": "session_initialization", "ts": 0, "dur": 1},
    ]
    profile = parse_profile(events)
    assert [n.name for n in profile.nodes] == ["a"]
    assert profile.runs_us == ((1.0, 6.0),)
    assert profile.nodes_by_provider == {"P": 1}
    path = write_trace(profile, [(10_000, 16_000)], tmp_path / "t.json.gz")
    step = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"][0]
    assert step["ts"] == pytest.approx(0.5)


def test_what_is_counted_as_a_product_leaves_the_verdicts_on_recorded_traces_as_they_were() -> None:
    """They are computed again from the trace: an operator that changes its kind would refute what was published."""
    assert {operator_kind(f"onnx::{name}") for name in ("Einsum", "MoE", "PackedAttention")} == {
        OperatorKind.ELEMENTWISE
    }
    assert operator_kind("onnx::MatMul") is OperatorKind.PRODUCT
