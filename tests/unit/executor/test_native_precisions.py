"""Native, emulated, unsupported: GPUs by capability, CPUs by flags."""

from __future__ import annotations

import pytest

from lynxbench.executor.native_precisions import FORMATS, cpu_precision, gpu_precision, precision_table
from lynxbench.model.executor import Executor, measured
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native

ANCHORS = {
    "7.5": {"fp16", "int8", "int4"},
    "8.0": {"fp16", "int8", "int4", "tf32", "bf16", "fp64"},
    "8.6": {"fp16", "int8", "int4", "tf32", "bf16"},
    "8.9": {"fp16", "int8", "int4", "tf32", "bf16", "fp8"},
    "9.0": {"fp16", "int8", "tf32", "bf16", "fp8", "fp64"},
    "10.0": {"fp16", "int8", "tf32", "bf16", "fp8", "fp64", "fp6", "fp4"},
    "12.0": {"fp16", "int8", "tf32", "bf16", "fp8", "fp6", "fp4"},
}


@pytest.mark.parametrize("capability", ANCHORS)
def test_tensor_core_inputs_by_capability(capability: str) -> None:
    on_tensor_cores = {
        name
        for name in FORMATS
        if gpu_precision(capability, name)[0] is Native.NATIVE
        and "tensor cores of" in gpu_precision(capability, name)[1]
    }
    assert on_tensor_cores == ANCHORS[capability]


@pytest.mark.parametrize(
    ("capability", "precision", "native"),
    [
        ("7.5", "bf16", Native.EMULATED),  # where is_bf16_supported() says yes
        ("7.5", "tf32", Native.UNSUPPORTED),
        ("8.0", "fp8", Native.UNSUPPORTED),
        ("9.0", "int4", Native.UNSUPPORTED),
        ("8.6", "fp64", Native.NATIVE),
        ("6.1", "fp16", Native.NATIVE),
        ("6.1", "int8", Native.NATIVE),
        ("5.0", "fp16", Native.EMULATED),
        ("9.0", "int8-weight-only", Native.NATIVE),
        ("9.0", "int4-weight-only", Native.NATIVE),
        ("9.0", "fp8-weight-only", Native.NATIVE),
        ("9.0", "mxfp8", Native.UNSUPPORTED),
        ("9.0", "nvfp4", Native.UNSUPPORTED),
        ("10.0", "mxfp8", Native.NATIVE),
        ("12.0", "nvfp4", Native.NATIVE),
        ("12.3", "fp4", Native.NATIVE),
        ("15.0", "fp16", Native.UNKNOWN),
        ("3.5", "fp32", Native.UNKNOWN),
    ],
)
def test_gpu_precision(capability: str, precision: str, native: Native) -> None:
    judged, reason = gpu_precision(capability, precision)
    assert judged is native
    assert reason


SKYLAKE, ICE_LAKE = {"avx2", "avx512f", "f16c"}, {"avx2", "avx512f", "f16c", "avx512_vnni"}
SAPPHIRE = ICE_LAKE | {"avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"}
N1, V2 = {"asimd", "asimdhp", "asimddp"}, {"asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve"}


@pytest.mark.parametrize(
    ("flags", "precision", "native", "word"),
    [
        (SKYLAKE, "fp32", Native.NATIVE, "AVX-512"),
        (SKYLAKE, "bf16", Native.EMULATED, "avx512_bf16"),
        (SKYLAKE, "fp16", Native.EMULATED, "f16c"),
        (SKYLAKE, "int8", Native.EMULATED, "VNNI"),
        (ICE_LAKE, "int8", Native.NATIVE, "avx512_vnni"),
        (SAPPHIRE, "bf16", Native.NATIVE, "amx_bf16"),
        (SAPPHIRE, "fp16", Native.NATIVE, "avx512_fp16"),
        (SAPPHIRE, "int8", Native.NATIVE, "amx_int8"),
        (SAPPHIRE, "tf32", Native.UNSUPPORTED, "tf32"),
        (N1, "fp16", Native.NATIVE, "asimdhp"),
        (N1, "bf16", Native.EMULATED, "bf16"),
        (N1, "int8", Native.NATIVE, "asimddp"),
        (V2, "bf16", Native.NATIVE, "bf16"),
        (V2, "int8", Native.NATIVE, "i8mm"),
        (V2, "fp32", Native.NATIVE, "SVE"),
        ({"asimd"}, "fp16", Native.EMULATED, "asimdhp"),
        ({"asimd"}, "int8", Native.EMULATED, "i8mm"),
        (V2, "fp8", Native.UNSUPPORTED, "fp8"),
        (V2, "int4-weight-only", Native.NATIVE, "4 bits"),
        (V2, "nvfp4", Native.UNSUPPORTED, "nvfp4"),
        (set(), "fp32", Native.UNKNOWN, "flags"),
    ],
)
def test_cpu_precision(flags: set[str], precision: str, native: Native, word: str) -> None:
    judged, reason = cpu_precision(flags, precision)
    assert judged is native
    assert word in reason


def test_table_holds_the_cpu_and_each_kind_of_gpu_once() -> None:
    executor = Executor(
        layers={
            Layer.ACCELERATOR: {
                "cpu_model": measured("Neoverse-N1", "t"),
                "cpu_flags": measured(sorted(N1), "t"),
                "gpu_capability": measured(["9.0", "9.0", "8.0", None], "t"),
                "gpu_name": measured(["H100", "H100", "A100", None], "t"),
            }
        }
    )
    rows = precision_table(executor)
    devices = list(dict.fromkeys(row.device for row in rows))
    assert devices == ["cpu Neoverse-N1", "H100 (9.0)", "A100 (8.0)"]
    assert len(rows) == 3 * len(FORMATS)
