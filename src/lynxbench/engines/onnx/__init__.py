"""ONNX Runtime: any model file, with the provider and the kernels that ran disclosed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lynxbench.engines.onnx.adapter import OnnxRuntimeEngine


def engine() -> OnnxRuntimeEngine:
    """The adapter the registry hands out."""
    from lynxbench.engines.onnx.adapter import OnnxRuntimeEngine

    return OnnxRuntimeEngine()
