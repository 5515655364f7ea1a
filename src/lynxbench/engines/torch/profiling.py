"""What ran: a profiler trace for attribution, and the kernels of one step for the verdict native or emulated."""

import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from lynxbench.attribute.read.dataflow import FLOW_KEY
from lynxbench.engines.torch.device import synchronise
from lynxbench.engines.torch.number_formats import FORMATS
from lynxbench.model.precision import Precision

TRACE_FILE = "trace.json"
NAMED_SHARE = 0.05
"""Of the matrix kernels' time: another format's share that is named."""
MOST_KERNELS = 12
"""So many are named, those that took longest; all of them are judged."""
MATMUL_KERNEL = re.compile(
    r"gemm|gemv|nvjet|mma|cutlass|fprop|dgrad|wgrad|dot_kernel|int8pack_mm|triton_\w*_(?:add|b)?mm(?:_|\b)"
)
NAME_HOLDS = 0.5
"""A precision carries its name where its own kernels took more of the matrix kernels' time than all others together."""
PRODUCTS = ("mm", "linear", "matmul", "conv", "attention", "dot")
"""Parts of the names of operators that multiply matrices."""

Step = Callable[[int], object]


def _profiler(device: torch.device, *, shapes: bool) -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # it would announce every start and stop on standard error
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities, record_shapes=shapes)


def profile_steps(step: Step, steps: int, device: torch.device) -> Any:
    """That many steps under PyTorch's profiler, each annotated `step#i`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler warns about its own first start
        with _profiler(device, shapes=True) as profiler:
            for number in range(steps):
                with torch.profiler.record_function(f"step#{number}"):
                    step(number)
            synchronise(device)
    return profiler


def write_trace(profiler: Any, into: Path, flow: Mapping[str, object] | None = None) -> Path:
    """What the profiler saw as a trace in the folder, with what was seen of values before it."""
    trace = into / TRACE_FILE
    profiler.export_chrome_trace(str(trace))
    if flow is not None:
        _put_first(trace, f"{json.dumps(FLOW_KEY)}: {json.dumps(flow)}")
    return trace


def _put_first(trace: Path, entry: str) -> None:
    """An entry at the head of a file that holds one object: who reads events reads on from there."""
    draft = trace.with_suffix(".part")
    with trace.open("rb") as whole, draft.open("wb") as file:
        first = whole.read(1)
        while first.isspace():
            first = whole.read(1)
        if first != b"{":
            return  # nothing that a profiler writes; it is read, or refused, as it is
        file.write(b"{" + entry.encode() + b",")
        shutil.copyfileobj(whole, file)
    draft.replace(trace)


def product_formats(profiler: Any) -> frozenset[str]:
    """The element types, in the profiler's words, that operators took which multiply matrices."""
    events = profiler.profiler.kineto_results.events()
    products = (e for e in events if e.name().startswith("aten::") and any(part in e.name() for part in PRODUCTS))
    return frozenset(word for event in products for word in event.dtypes() if word)


def kernels_of(work: Callable[[], object], device: torch.device) -> dict[str, float]:
    """What the work spent its time in with that time (µs), longest first: device kernels, or operators on a CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _profiler(device, shapes=False) as profiler:
            work()
            synchronise(device)
    if device.type != "cuda":
        times = own_times(profiler.profiler.kineto_results.events())
        return {name: us for name, us in times.items() if any(part in name for part in PRODUCTS)}
    events = [event for event in profiler.key_averages() if _is_kernel(event)]
    events.sort(key=lambda event: event.self_device_time_total, reverse=True)
    kernels = {str(event.key): float(event.self_device_time_total) for event in events}
    return with_operands(kernels, compiled_operands())


def own_times(events: Iterable[Any]) -> dict[str, float]:
    """Operators on the host with the time (µs) that each spent outside those it called, longest first.

    The profiler's own averages say the same a second later: they build a tree of objects for it.
    """
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for event in events:
        start_ns = event.start_ns()
        span = (start_ns, -(start_ns + event.duration_ns()), event.name())
        spans.setdefault(event.start_thread_id(), []).append(span)
    own_ns: dict[str, int] = {}
    for thread in spans.values():
        around: list[tuple[int, str]] = []
        for start_ns, negative_end_ns, name in sorted(thread, key=lambda span: span[:2]):
            end_ns = -negative_end_ns
            while around and around[-1][0] <= start_ns:
                around.pop()
            own_ns[name] = own_ns.get(name, 0) + end_ns - start_ns
            if around:  # inside: its time is not that of the one around it
                own_ns[around[-1][1]] -= min(end_ns, around[-1][0]) - start_ns
            around.append((end_ns, name))
    longest_first = sorted(own_ns.items(), key=lambda pair: -pair[1])
    return {name: ns / 1e3 for name, ns in longest_first}


def compiled_operands() -> dict[str, tuple[str, ...]]:
    """Types of what the compiler's own kernels read and write, by kernel, as their signatures state them."""
    compiled = sys.modules.get("torch._inductor.codecache")
    operands: dict[str, set[str]] = {}
    for module in [] if compiled is None else compiled.PyCodeCache.modules:
        for name, kernel in vars(module).items():
            signature = (getattr(kernel, "triton_meta", None) or {}).get("signature", {})
            pointers = {word for word in map(str, signature.values()) if word.startswith("*")}
            operands.setdefault(name, set()).update(pointers)
    return {name: tuple(sorted(words)) for name, words in operands.items() if words}


def with_operands(kernels: Mapping[str, float], operands: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """Names of compiled kernels tell of no format; with their operands behind them they do."""
    return {f"{name} [{' '.join(operands[name])}]" if name in operands else name: us for name, us in kernels.items()}


def _is_kernel(event: Any) -> bool:
    return str(event.device_type).endswith("CUDA") and not str(event.key).startswith("step#")


def matrix_kernels(kernels: Mapping[str, float]) -> dict[str, float]:
    """Those device kernels that multiply matrices, with their times."""
    return {name: us for name, us in kernels.items() if MATMUL_KERNEL.search(name)}


def share_of_time(precision: Precision, kernels: Mapping[str, float]) -> float | None:
    """What the precision's own kernels took of the time of those whose names tell of a format; None where none does."""
    own = sum(us for name, us in kernels.items() if FORMATS[precision].names(name))
    others = sum(us for name, us in kernels.items() if not FORMATS[precision].names(name) and _format_of(name))
    return own / (own + others) if own + others > 0 else None


def share_of_all(precision: Precision, kernels: Mapping[str, float]) -> float | None:
    """What the precision's own kernels or operators took of the time of all, silent ones too; None where none ran."""
    whole = sum(kernels.values())
    own = sum(us for name, us in kernels.items() if FORMATS[precision].names(name))
    return own / whole if whole > 0 else None


def describe_kernels(precision: Precision, kernels: Mapping[str, float]) -> str:
    """How many matrix kernels tell of the precision's inputs, how much of their time, and what the others tell of.

    Not every product of a step need be of the precision: TF32 leaves products of one row alone, and an attention that
    falls back to plain operators may compute in fp32.
    """
    whole = sum(kernels.values())
    own = [name for name in kernels if FORMATS[precision].names(name)]
    words = f"{len(own)} of {len(kernels)} matrix kernels seen"
    if not own or whole <= 0:
        return words
    shares: dict[Precision, float] = {}
    for name in kernels.keys() - set(own):
        other = _format_of(name)
        if other is not None:
            shares[other] = shares.get(other, 0.0) + kernels[name] / whole
    large = [
        f"; {share:.0%} in kernels of {other.value}"
        for other, share in sorted(shares.items(), key=lambda pair: -pair[1])
        if share >= NAMED_SHARE
    ]
    return f"{words}, {sum(kernels[name] for name in own) / whole:.0%} of their time{''.join(large)}"


def _format_of(kernel: str) -> Precision | None:
    return next((precision for precision, known in FORMATS.items() if known.names(kernel)), None)
