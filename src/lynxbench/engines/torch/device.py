"""Everything that differs between a CPU and a CUDA device, in one place."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import torch

from lynxbench.errors import CannotRun
from lynxbench.model.precision import Precision

TF32_CAPABILITY = (8, 0)
FP8_CAPABILITY = (8, 9)
"""First compute capabilities with such tensor-core inputs (CUDA programming guide, arithmetic instructions)."""

NATIVE_INPUTS: dict[Precision, tuple[int, int]] = {
    Precision.FP16: (7, 0),
    Precision.BF16: (8, 0),
    Precision.TF32: TF32_CAPABILITY,
    Precision.FP8: FP8_CAPABILITY,
    Precision.INT8: (7, 5),
}
_JET = r"nvjet_(?:sm\d+_)?"
KERNEL_MARKS: dict[Precision, re.Pattern[str]] = {
    Precision.FP32: re.compile(rf"sgemm|f32f32_f32f32|gemv.*float|simt|{_JET}sss", re.I),
    Precision.TF32: re.compile(rf"tf32|s1688gemm|{_JET}ss[^s]", re.I),
    Precision.FP16: re.compile(rf"[^b]f16f16|h16(?:88|816)|hgemm|__half|[^b]fp16|(?:gemm|tensorop)_f16|{_JET}h", re.I),
    Precision.BF16: re.compile(rf"bf16|bfloat16|{_JET}t", re.I),
    Precision.FP8: re.compile(rf"e4m3|qmma|f8f8|fp8|float8|{_JET}q", re.I),
    Precision.INT8: re.compile(r"i8i8|imma|s8s8|int8|i16832|i8816|gemm_s8", re.I),
}
"""What a matrix kernel's name says of its inputs (cuBLAS, CUTLASS; nvjet writes t for bf16, h fp16, q e4m3, s fp32)."""
MATMUL_KERNEL = re.compile(r"gemm|gemv|nvjet|mma|cutlass|fprop|dgrad|wgrad|dot_kernel")


def choose_device(asked: str) -> torch.device:
    """The device a contract asks for; CannotRun where it is not there."""
    if asked == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    device = torch.device(asked)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise CannotRun(f"engine.device: {asked} is asked for, but this torch sees no CUDA device; use auto or cpu")
        if (device.index or 0) >= torch.cuda.device_count():
            raise CannotRun(f"engine.device: {asked} does not exist; CUDA devices here: {torch.cuda.device_count()}")
        return torch.device("cuda", device.index or 0)
    return device


def capability(device: torch.device) -> tuple[int, int]:
    """The compute capability of a CUDA device."""
    major, minor = torch.cuda.get_device_capability(device)
    return major, minor


def synchronise(device: torch.device) -> None:
    """Return when the device has finished; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def memory_peak_bytes(device: torch.device) -> int | None:
    """High-water mark of memory the allocator reserved on the device, or None on a CPU."""
    return int(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else None


def release_memory(device: torch.device) -> None:
    """Give cached blocks back."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def set_float32_products(device: torch.device, precision: Precision) -> str:
    """Make fp32 products what the precision says: exact for fp32, TF32 inputs for tf32. Returns the state in words."""
    wanted = "tf32" if precision is Precision.TF32 else "ieee"
    torch.set_float32_matmul_precision("high" if wanted == "tf32" else "highest")
    if device.type == "cuda":
        cudnn = torch.backends.cudnn
        if hasattr(getattr(cudnn, "conv", None), "fp32_precision"):
            cudnn.conv.fp32_precision = wanted
        else:
            cudnn.allow_tf32 = wanted == "tf32"
    return wanted


def supports(device: torch.device, precision: Precision) -> bool | None:
    """Whether the device's matrix units take such inputs; None where that is not a matter of the capability."""
    if device.type != "cuda" or precision not in NATIVE_INPUTS:
        return None
    return capability(device) >= NATIVE_INPUTS[precision]


def last_level_cache_bytes(device: torch.device) -> int:
    """The largest cache, so that a stream can be made larger; a cautious guess where it cannot be read."""
    if device.type == "cuda":
        return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20))
    sizes = [32 << 20]
    for index in range(5):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size").read_text().strip()
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
    return max(sizes)


def device_facts(device: torch.device) -> dict[str, str | int]:
    """The device as the framework sees it."""
    facts: dict[str, str | int] = {"runtime.device": str(device), "framework.torch_threads": torch.get_num_threads()}
    if device.type == "cuda":
        major, minor = capability(device)
        facts["accelerator.name"] = torch.cuda.get_device_name(device)
        facts["accelerator.compute_capability"] = f"{major}.{minor}"
        facts["framework.torch_cuda"] = str(torch.version.cuda)
        facts["framework.cudnn"] = int(torch.backends.cudnn.version() or 0)
    else:
        facts["framework.torch_cpu_capability"] = str(torch.backends.cpu.get_cpu_capability())
    return facts
