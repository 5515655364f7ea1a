"""ONNX Runtime's bare matrix product at one precision, in a graph of a single node."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.engines.host_ceilings import MATMUL_SIDE, measure_best_s
from lynxbench.model.attribution import Ceiling
from lynxbench.model.precision import Precision

OPSET = 17
"""Old enough for every runtime still in use, new enough for MatMulInteger and 16-bit MatMul."""


def measure_runtime_matmul(
    precision: Precision, open_bytes: Callable[[bytes], Any], threads: int, budget_s: float
) -> Ceiling | None:
    """Operations per second, or None where the `onnx` package is missing or the precision has no bare graph."""
    graph_of: dict[Precision, tuple[str, str, str]] = {
        Precision.FP32: ("MatMul", "float32", "float32"),
        Precision.TF32: ("MatMul", "float32", "float32"),
        Precision.FP16: ("MatMul", "float16", "float16"),
        Precision.INT8: ("MatMulInteger", "uint8", "int8"),
    }
    if precision not in graph_of or importlib.util.find_spec("onnx") is None:
        return None
    operator, left, right = graph_of[precision]
    session = open_bytes(_graph(operator, left, right))
    random = np.random.default_rng(0)
    # The right side is a stored weight in models, but a fed one shows the same kernel without packing at load.
    feed = {"left": _operand(left, random), "right": _operand(right, random)}
    best_s = measure_best_s(lambda: session.run(["out"], feed), budget_s)
    unit = "OP/s" if precision is Precision.INT8 else "FLOP/s"
    how = f"onnxruntime {operator} {MATMUL_SIDE}³ {left}×{right}, best of {budget_s:g} s, {threads} threads"
    return Ceiling(name="matmul", precision=precision, per_s=2 * MATMUL_SIDE**3 / best_s, unit=unit, how=how)


def _operand(dtype: str, random: np.random.Generator) -> npt.NDArray[np.generic]:
    shape = (MATMUL_SIDE, MATMUL_SIDE)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape).astype(dtype)


def _graph(operator: str, left: str, right: str) -> bytes:
    from onnx import helper

    shape = [MATMUL_SIDE, MATMUL_SIDE]
    kinds = {"left": left, "right": right, "out": "int32" if operator == "MatMulInteger" else left}
    *operands, out = (
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
        for name, kind in kinds.items()
    )
    node = helper.make_node(operator, ["left", "right"], ["out"])
    graph = helper.make_graph([node], "product", operands, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return bytes(model.SerializeToString())
