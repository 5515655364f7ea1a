"""What ran: a profiler trace for attribution, and the kernels of one step for the verdict native or emulated."""

from __future__ import annotations

import gzip
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from lynxbench.engines.torch.device import KERNEL_MARKS, MATMUL_KERNEL, synchronise
from lynxbench.model.precision import Precision

TRACE_FILE = "trace.json.gz"
TOLD_SHARE = 0.05
"""Of the matrix kernels' time: another format's share that is named."""
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


def kernels_of(work: Callable[[], object], device: torch.device) -> dict[str, float]:
    """What the work spent its time in with that time (µs), longest first: device kernels, or operators on a CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _profiler(device, shapes=False) as profiler:
            work()
            synchronise(device)
    on_device = device.type == "cuda"
    taken = "self_device_time_total" if on_device else "self_cpu_time_total"
    events = [event for event in profiler.key_averages() if _is_on(event, device)]
    events.sort(key=lambda event: getattr(event, taken), reverse=True)
    times = {str(event.key): float(getattr(event, taken)) for event in events}
    if on_device:
        return times
    products = [name for name in times if any(part in name for part in PRODUCTS)][:KERNELS_KEPT]
    return {name: times[name] for name in products}


def _is_on(event: Any, device: torch.device) -> bool:
    kind = "CUDA" if device.type == "cuda" else "CPU"
    return str(event.device_type).endswith(kind) and not str(event.key).startswith("step#")


def matrix_kernels(kernels: Mapping[str, float]) -> dict[str, float]:
    """Those device kernels that multiply matrices, with their times."""
    names = [name for name in kernels if MATMUL_KERNEL.search(name)][:KERNELS_KEPT]
    return {name: kernels[name] for name in names}


def names_say(precision: Precision, kernels: Iterable[str]) -> bool | None:
    """Whether any matrix kernel's name tells of the precision's inputs; None where no name tells of any format."""
    mark = KERNEL_MARKS.get(precision)
    names = tuple(kernels)
    if mark is None or not names:
        return None
    if any(mark.search(name) for name in names):
        return True
    return False if any(_told_by(name) for name in names) else None


def telling(precision: Precision, kernels: Mapping[str, float]) -> str:
    """How many matrix kernels tell of the precision's inputs, how much of their time, and what the others tell of.

    Not every product of a step need be of the precision: TF32 leaves products of one row alone, and an attention that
    falls back to plain operators may compute in fp32.
    """
    mark, whole = KERNEL_MARKS.get(precision), sum(kernels.values())
    own = [name for name in kernels if mark is not None and mark.search(name)]
    words = f"{len(own)} of {len(kernels)} matrix kernels seen"
    if not own or whole <= 0:
        return words
    others: dict[Precision, float] = {}
    for name in kernels.keys() - set(own):
        told = _told_by(name)
        if told is not None:
            others[told] = others.get(told, 0.0) + kernels[name] / whole
    large = [
        f"; {share:.0%} in kernels of {told.value}"
        for told, share in sorted(others.items(), key=lambda pair: -pair[1])
        if share >= TOLD_SHARE
    ]
    return f"{words}, {sum(kernels[name] for name in own) / whole:.0%} of their time{''.join(large)}"


def _told_by(name: str) -> Precision | None:
    return next((precision for precision, mark in KERNEL_MARKS.items() if mark.search(name)), None)
