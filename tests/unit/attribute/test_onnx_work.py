"""ONNX Runtime's own profiles of real models: every node finds its kind and its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.operator_work import estimate_work
from lynxbench.attribute.judge.roofline import OperatorWork
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.operator_names import OperatorKind, operator_kind
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

WIDTH, WIDE, HEADS = 128, 512, 4
CEILINGS = tuple(
    Ceiling(name=name, precision=precision, per_s=rate, unit="", how="declared")
    for name, precision, rate in (
        ("matmul", Precision.FP32, 40e9),
        ("matmul", Precision.INT8, 60e9),
        ("copy", None, 20e9),
    )
)


def work(name: str, operands: tuple[OperandTensor, ...], *results: tuple[int, ...]) -> OperatorWork:
    kind = operator_kind(f"onnx::{name}")
    found = estimate_work(f"onnx::{name}", kind, OperatorCall(tuple((t,) for t in operands), (), results))
    assert found is not None
    return found


def tensor(*sizes: int, dtype: str = "float") -> OperandTensor:
    return OperandTensor(sizes, None, dtype)


def test_a_product_with_and_without_its_packed_weight() -> None:
    x, weight = tensor(8, 64, 384), tensor(384, 1536)
    shown = work("MatMul", (x, weight), (8, 64, 1536))
    packed = work("MatMul", (x,), (8, 64, 1536))
    assert shown == packed
    assert shown.flops == 2 * 8 * 64 * 384 * 1536
    assert work("Gemm", (tensor(4, 16), tensor(32, 16), tensor(32)), (4, 32)).flops == 2 * 4 * 16 * 32
    assert work("FusedMatMul", (tensor(2, 3, 64, 32), tensor(2, 3, 64, 32)), (2, 3, 64, 64)).flops == 2 * 6 * 64**2 * 32


def test_integer_products_count_a_byte_a_weight() -> None:
    found = work("DynamicQuantizeMatMul", (tensor(8, 64, 384), tensor(), tensor(dtype="int8")), (8, 64, 1536))
    assert (found.flops, found.dtype) == (2 * 512 * 384 * 1536, "int8")
    assert found.read_bytes == 512 * 384 * 4 + 384 * 1536 + 5
    assert work("MatMulInteger", (tensor(1, 4, dtype="uint8"), tensor(4, 9, dtype="int8")), (1, 9)).dtype == "int8"
    four = work("MatMulNBits", (tensor(1, 64), tensor(32, 2, 16, dtype="uint8"), tensor(64)), (1, 32))
    assert (four.flops, four.dtype) == (2 * 64 * 32, "float")


def test_the_other_products() -> None:
    conv = work("Conv", (tensor(1, 8, 32, 32), tensor(16, 8, 3, 3)), (1, 16, 32, 32))
    assert conv.flops == 2 * 16 * 32 * 32 * 8 * 9
    held = work("Attention", (tensor(2, 16, 64), tensor(64, 192), tensor(192)), (2, 16, 64))
    assert held.flops == 4 * 2 * 16 * 16 * 64 + 2 * 2 * 16 * 64 * 192
    many = work("MultiHeadAttention", (tensor(1, 1, 64), tensor(1, 20, 64), tensor(1, 20, 64)), (1, 1, 64))
    assert many.flops == 4 * 20 * 64
    assert work("LSTM", (tensor(5, 2, 8),), (5, 1, 2, 16)).flops == 2 * 5 * 2 * 4 * 16 * 24


def test_passes_copies_and_gathers_move_what_they_must() -> None:
    assert work("Add", (tensor(10, 10), tensor(10)), (10, 10)).total_bytes == 4 * (100 + 10 + 100)
    assert work("Slice", (tensor(1000, 10),), (5, 10)).total_bytes == 2 * 5 * 10 * 4
    picked = work("Gather", (tensor(1000, 16), tensor(3, dtype="int64")), (3, 16))
    assert picked.total_bytes == 2 * 3 * 16 * 4 + 24


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("onnx::run", OperatorKind.DISPATCH),
        ("onnx::Reshape", OperatorKind.DISPATCH),
        ("onnx::BiasGelu", OperatorKind.ELEMENTWISE),
        ("onnx::SkipLayerNormalization", OperatorKind.NORMALISATION),
        ("onnx::Transpose", OperatorKind.COPY),
        ("onnx::Gather", OperatorKind.GATHER),
        ("onnx::ReduceMean", OperatorKind.REDUCTION),
        ("onnx::MatMulIntegerToFloat", OperatorKind.PRODUCT),
        ("onnx::SomethingNew", OperatorKind.ELEMENTWISE),
    ],
)
def test_kinds(name: str, kind: OperatorKind) -> None:
    assert operator_kind(name) is kind


def test_results_that_say_nothing_give_no_work() -> None:
    assert estimate_work("onnx::MatMul", OperatorKind.PRODUCT, OperatorCall(((tensor(2, 3),),))) is None
    assert estimate_work("onnx::MatMul", OperatorKind.PRODUCT, OperatorCall(((tensor(2, 0),),), (), ((2, 0),))) is None
    assert (
        estimate_work("onnx::Conv", OperatorKind.PRODUCT, OperatorCall(((tensor(1, 2, 3, 4),),), (), ((1, 2, 3, 4),)))
        is None
    )


def build_encoder(path: Path) -> Path:
    """One transformer layer, as exporters write it."""
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(0)
    weights: list[Any] = []
    nodes: list[Any] = []

    def weight(name: str, *shape: int) -> str:
        weights.append(numpy_helper.from_array((random.standard_normal(shape) * 0.02).astype("f4"), name))
        return name

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    for name, values in (("split", [0, 0, HEADS, WIDTH // HEADS]), ("join", [0, 0, WIDTH])):
        weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
    node("Gather", [weight("table", 100, WIDTH), "input_ids"], "x")
    turned = []
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        node("MatMul", ["x", weight(f"w_{part}", WIDTH, WIDTH)], f"{part}_m")
        node("Add", [f"{part}_m", weight(f"b_{part}", WIDTH)], f"{part}_a")
        node("Reshape", [f"{part}_a", "split"], f"{part}_r")
        turned.append(node("Transpose", [f"{part}_r"], f"{part}_t", perm=order))
    node("MatMul", turned[:2], "scores")
    node("Softmax", ["scores"], "weights", axis=-1)
    node("MatMul", ["weights", turned[2]], "mixed")
    node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    node("Reshape", ["back", "join"], "joined")
    node("Add", ["joined", "x"], "residual")
    node("LayerNormalization", ["residual", weight("scale", WIDTH), weight("shift", WIDTH)], "normal")
    node("MatMul", ["normal", weight("up", WIDTH, WIDE)], "wide")
    node("Relu", ["wide"], "active")
    node("MatMul", ["active", weight("down", WIDE, WIDTH)], "last_hidden_state")
    axes = ["batch", "sequence"]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, axes)],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*axes, WIDTH])],
        weights,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_real_profile_is_attributed(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from lynxbench.engines.onnx.adapter import OnnxRuntimeEngine
    from lynxbench.model.contract import Contract
    from lynxbench.model.job import Job

    monkeypatch.setenv("LYNXBENCH_CACHE", str(tmp_path / "cache"))
    contract = Contract.model_validate(
        {
            "lynxbench": 1,
            "name": "encoder",
            "question": "How fast?",
            "regime": "latency",
            "workload": {
                "task": "embed",
                "model": {"source": "path", "path": str(build_encoder(tmp_path / "encoder.onnx"))},
                "precisions": [precision],
                "batch": 8,
                "input_tokens": {"distribution": "fixed", "value": 64},
                "arrival": {"process": "closed", "concurrency": 1},
            },
            "engine": {"name": "onnx", "threads": 1},
        },
        strict=False,
    )
    job = Job(index=0, restart=0, contract=contract, precision=Precision(precision), threads=1)
    session = OnnxRuntimeEngine().open(job)
    session.compile()
    path = session.profile(6, tmp_path)
    session.close()
    assert path is not None
    said = attribute_trace(
        path,
        ceilings=CEILINGS,
        precision=Precision(precision),
        unprofiled_step_ms=None,
        owner=DEFAULT_OWNERS.__getitem__,
    )
    assert said.shares.get(Category.UNATTRIBUTED, 0.0) == 0.0
    working = [row for row in said.operators if row.category in (Category.COMPUTE, Category.MEMORY_BANDWIDTH)]
    assert working
    assert all(row.efficiency is not None for row in working), working
    assert any(row.name.startswith("onnx::") and "MatMul" in row.name for row in said.operators)
