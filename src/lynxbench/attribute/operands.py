"""Operands and work as values: element sizes by the words of each profiler, and what one call has to do."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lynxbench.attribute.trace_columns import OperandTensor
from lynxbench.model.precision import Precision

ITEM_BYTES: dict[str, int] = {
    "float": 4,
    "double": 8,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "int": 4,
    "long int": 8,
    "long": 8,
    "long long": 8,
    "short": 2,
    "short int": 2,
    "signed char": 1,
    "unsigned char": 1,
    "char": 1,
    "bool": 1,
    "c10::qint8": 1,
    "c10::quint8": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float8e4m3fn": 1,
    "float8e5m2": 1,
}
"""PyTorch's words first, then those of ONNX Runtime."""
DTYPE_PRECISION: dict[str, Precision] = {
    "float": Precision.FP32,
    "c10::BFloat16": Precision.BF16,
    "c10::Half": Precision.FP16,
    "signed char": Precision.INT8,
    "c10::qint8": Precision.INT8,
    "c10::quint8": Precision.INT8,
    "c10::Float8_e4m3fn": Precision.FP8,
    "c10::Float8_e5m2": Precision.FP8,
    "float16": Precision.FP16,
    "bfloat16": Precision.BF16,
    "int8": Precision.INT8,
    "uint8": Precision.INT8,
    "float8e4m3fn": Precision.FP8,
    "float8e5m2": Precision.FP8,
}
DEFAULT_ITEM_BYTES = 4
"""For lists of tensors, whose element type the profiler does not record."""


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """One call: arithmetic operations (a multiply-add counts two), bytes, and the element type it computes in."""

    flops: float
    read_bytes: float
    written_bytes: float
    dtype: str

    @property
    def total_bytes(self) -> float:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Operations a byte; infinite where no byte moves."""
        return self.flops / self.total_bytes if self.total_bytes else math.inf


def item_bytes(tensor: OperandTensor) -> int:
    """Bytes an element takes."""
    return ITEM_BYTES.get(tensor.dtype, DEFAULT_ITEM_BYTES)


def count_elements(tensor: OperandTensor) -> int:
    """How many elements, repeated ones included."""
    return math.prod(tensor.sizes)


def footprint(tensor: OperandTensor) -> int:
    """Bytes of distinct elements: a dimension of stride 0 repeats what is there."""
    if tensor.strides is None:
        return count_elements(tensor) * item_bytes(tensor)
    distinct = math.prod(n for n, step in zip(tensor.sizes, tensor.strides, strict=True) if step != 0 or n == 0)
    return distinct * item_bytes(tensor)
