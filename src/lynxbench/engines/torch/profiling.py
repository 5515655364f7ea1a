"""What ran: a profiler trace for attribution, and the kernels of one step for the verdict native or emulated."""

from __future__ import annotations

import gzip
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lynxbench.engines.torch.device import KERNEL_MARKS, MATMUL_KERNEL, synchronise
from lynxbench.model.precision import Precision

TRACE_FILE = "trace.json.gz"
KERNELS_KEPT = 12
PRODUCTS = ("mm", "linear", "matmul", "conv", "attention", "dot")
"""Parts of the names of operators that multiply matrices."""

Step = Callable[[int], object]


def _profiler(device: torch.device, *, shapes: bool) -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # it would announce every start and stop on standard error
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities, record_shapes=shapes)


def write_trace(step: Step, steps: int, device: torch.device, into: Path) -> Path:
    """Profile that many steps, each annotated `step#i`, and write the trace into the folder."""
    plain = into / TRACE_FILE.removesuffix(".gz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler warns about its own first start
        with _profiler(device, shapes=True) as profiler:
            for number in range(steps):
                with torch.profiler.record_function(f"step#{number}"):
                    step(number)
            synchronise(device)
        profiler.export_chrome_trace(str(plain))
    packed = into / TRACE_FILE
    draft = packed.with_suffix(".part")
    with plain.open("rb") as source, gzip.open(draft, "wb", compresslevel=3) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    draft.replace(packed)
    plain.unlink()
    return packed


def kernels_of(work: Callable[[], object], device: torch.device) -> tuple[str, ...]:
    """Names of what the work spent its time in, longest first: device kernels, or operators on a CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _profiler(device, shapes=False) as profiler:
            work()
            synchronise(device)
    on_device = device.type == "cuda"
    events = [event for event in profiler.key_averages() if _is_on(event, device)]
    taken = "self_device_time_total" if on_device else "self_cpu_time_total"
    events.sort(key=lambda event: getattr(event, taken), reverse=True)
    if on_device:
        return tuple(str(event.key) for event in events)
    return tuple(event.key for event in events if any(part in event.key for part in PRODUCTS))[:KERNELS_KEPT]


def _is_on(event: Any, device: torch.device) -> bool:
    kind = "CUDA" if device.type == "cuda" else "CPU"
    return str(event.device_type).endswith(kind) and not str(event.key).startswith("step#")


def matrix_kernels(kernels: tuple[str, ...]) -> tuple[str, ...]:
    """Those device kernels that multiply matrices."""
    return tuple(name for name in kernels if MATMUL_KERNEL.search(name))[:KERNELS_KEPT]


def count_telling(precision: Precision, kernels: tuple[str, ...]) -> int:
    """How many matrix kernels tell of the precision's inputs: TF32, for one, leaves products of one row alone."""
    mark = KERNEL_MARKS.get(precision)
    return sum(mark is not None and bool(mark.search(name)) for name in kernels)


def names_say(precision: Precision, kernels: tuple[str, ...]) -> bool | None:
    """Whether any matrix kernel's name tells of the precision's inputs; None where no name tells of any format."""
    mark = KERNEL_MARKS.get(precision)
    if mark is None or not kernels:
        return None
    if count_telling(precision, kernels):
        return True
    told = any(other.search(name) for other in KERNEL_MARKS.values() for name in kernels)
    return False if told else None
