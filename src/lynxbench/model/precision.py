"""Number formats a workload can be executed in, from highest to lowest."""

from enum import StrEnum


class Precision(StrEnum):
    """`fp8` and `int8` quantise activations on the fly; `…-weight-only` store narrow weights and compute wider."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT8_WEIGHT_ONLY = "int8-weight-only"
    FP8_WEIGHT_ONLY = "fp8-weight-only"
    INT4_WEIGHT_ONLY = "int4-weight-only"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"
    FP8_BLOCK = "fp8-block"
    """A scale for every block of weights."""
    INT6_WEIGHT_ONLY = "int6-weight-only"
    INT5_WEIGHT_ONLY = "int5-weight-only"
    MXFP4 = "mxfp4"


HIGHEST_FIRST: tuple[Precision, ...] = (
    Precision.FP32,
    Precision.TF32,
    Precision.FP16,
    Precision.BF16,
    Precision.INT8_WEIGHT_ONLY,
    Precision.FP8_WEIGHT_ONLY,
    Precision.MXFP8,
    Precision.FP8_BLOCK,
    Precision.FP8,
    Precision.INT8,
    Precision.INT6_WEIGHT_ONLY,
    Precision.INT5_WEIGHT_ONLY,
    Precision.INT4_WEIGHT_ONLY,
    Precision.NVFP4,
    Precision.MXFP4,
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


class KvCache(StrEnum):
    """What keys and values are kept in between the tokens of an answer."""

    COMPUTED = "computed"
    """The format that the layers compute in."""
    FP8 = "fp8"
    """e4m3 without a scale, widened when it is read."""
