"""Everything that differs between a CPU and a CUDA device, in one place; bare kernels are timed on either."""

import time
from collections.abc import Callable
from itertools import pairwise

import torch

from lynxbench.engines import host_ceilings
from lynxbench.errors import CannotRun
from lynxbench.model.precision import Precision

LEAST_REPEATS = 2
REST_S = 0.03
BURST_S = 0.03
MOST_IN_BURST = 64
"""A device rests before each burst: power caps average over tens of milliseconds, and a ceiling is what lies above them
(one H200: 8192³ bf16 products take 1.38 ms in a burst and 1.64 ms in a second of them)."""


def choose_device(name: str) -> torch.device:
    """The device that a contract names; CannotRun where it is not there."""
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise CannotRun(f"engine.device: {name} is asked for, but this torch sees no CUDA device; use auto or cpu")
        if (device.index or 0) >= torch.cuda.device_count():
            raise CannotRun(f"engine.device: {name} does not exist; CUDA devices here: {torch.cuda.device_count()}")
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


def last_level_cache_bytes(device: torch.device) -> int:
    """The largest cache, so that a stream can be made larger; a cautious guess where it cannot be read."""
    if device.type == "cuda":
        return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20))
    return host_ceilings.last_level_cache_bytes()


def device_facts(device: torch.device) -> dict[str, str | int]:
    """The device as the framework sees it."""
    facts: dict[str, str | int] = {"runtime.device": str(device), "framework.torch_threads": torch.get_num_threads()}
    if device.type == "cuda" and torch.version.hip is not None:
        facts["accelerator.name"] = torch.cuda.get_device_name(device)
        facts["accelerator.amd_arch"] = str(torch.cuda.get_device_properties(device).gcnArchName)
        facts["framework.torch_hip"] = str(torch.version.hip)
        facts["accelerator.untested"] = "ROCm's torch: untested on the real chip"
    elif device.type == "cuda":
        major, minor = capability(device)
        facts["accelerator.name"] = torch.cuda.get_device_name(device)
        facts["accelerator.compute_capability"] = f"{major}.{minor}"
        facts["framework.torch_cuda"] = str(torch.version.cuda)
        facts["framework.cudnn"] = int(torch.backends.cudnn.version() or 0)
    else:
        facts["framework.torch_cpu_capability"] = str(torch.backends.cpu.get_cpu_capability())
    return facts


# --- the shortest of repeated executions ---


def measure_best_s(work: Callable[[], object], device: torch.device, budget_s: float) -> float:
    """The shortest execution within the budget. The first warms up; it counts, beside one more, if it used it all."""
    began = time.perf_counter()
    shortest = time_once_s(work, device)
    if time.perf_counter() - began > budget_s:
        return min(shortest, time_once_s(work, device))
    if device.type == "cuda":
        return _best_of_bursts(work, device, began + budget_s)
    repeats = 0
    while repeats < LEAST_REPEATS or time.perf_counter() - began < budget_s:
        shortest = min(shortest, time_once_s(work, device))
        repeats += 1
        if time.perf_counter() - began > 2 * budget_s:
            break
    return shortest


def time_once_s(work: Callable[[], object], device: torch.device) -> float:
    """One execution by the host's clock, from an idle device to an idle device."""
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def _best_of_bursts(work: Callable[[], object], device: torch.device, until: float) -> float:
    """By the device's own events, one between any two executions of a burst: the host's part is not in it."""
    in_burst = int(min(max(BURST_S / max(time_once_s(work, device), 1e-9), LEAST_REPEATS), MOST_IN_BURST))
    stamps = [torch.cuda.Event(enable_timing=True) for _ in range(in_burst + 1)]
    shortest: float = float("inf")
    while True:
        time.sleep(REST_S)
        work()  # the clocks rise again, and the queue is never empty
        stamps[0].record()
        for stamp in stamps[1:]:
            work()
            stamp.record()
        synchronise(device)
        taken: list[float] = [before.elapsed_time(after) / 1e3 for before, after in pairwise(stamps)]
        shortest = min(shortest, *taken)
        if time.perf_counter() > until:
            return shortest
