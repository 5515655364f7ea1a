"""Number formats a workload can be executed in, from highest to lowest."""

from enum import StrEnum


class Precision(StrEnum):
    """`int8` quantises activations on the fly; `int8-weight-only` stores 8-bit weights and computes wider."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT8_WEIGHT_ONLY = "int8-weight-only"


HIGHEST_FIRST: tuple[Precision, ...] = (
    Precision.FP32,
    Precision.TF32,
    Precision.FP16,
    Precision.BF16,
    Precision.INT8_WEIGHT_ONLY,
    Precision.FP8,
    Precision.INT8,
)
"""The reference for accuracy is the first of these that was measured (fp16 carries more mantissa bits than bf16)."""


def reference_of(precisions: tuple[Precision, ...]) -> Precision:
    """The highest of the given precisions: what the others are held against."""
    return min(precisions, key=HIGHEST_FIRST.index)


class Native(StrEnum):
    """How a precision was executed, decided by the kernels that ran."""

    NATIVE = "native"
    EMULATED = "emulated"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"
