"""Steps of a device as operators with one kernel each: what a trace shows of operands, and its truth is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lynxbench.attribute.read.dataflow import OperatorFlow
from lynxbench.model.attribution import Attribution

Sizes = tuple[int, ...]
Operand = tuple[Sizes, Sizes]
"""Sizes and strides."""
Launched = tuple[str, list[Operand], float]
"""An operator, its operands, and the milliseconds of its kernel."""
Judge = Callable[..., Attribution]
Make = Callable[..., dict[str, Any]]
LAYERS = 40


def dense(*sizes: int) -> Operand:
    """A tensor without gaps."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return sizes, tuple(reversed(strides))


def launched_steps(make_event: Make, operators: Sequence[Launched]) -> tuple[list[dict[str, Any]], float]:
    """Five steps in which the host is far ahead, and the milliseconds of each."""
    events, number = [], 0
    whole_us = sum(ms for _, _, ms in operators) * 1e3
    for step in range(5):
        at = step * (whole_us + 100.0)
        events.append(make_event(f"step#{step}", at, whole_us + 90.0, cat="user_annotation"))
        device = at + 20.0
        for name, operands, ms in operators:
            number += 1
            ids = {"correlation": number, "External id": number}
            recorded = {
                "Input Dims": [list(sizes) for sizes, _ in operands],
                "Input Strides": [list(strides) for _, strides in operands],
                "Input type": ["float"] * len(operands),
            }
            events += [
                make_event(name, at, 6.0, **recorded, **{"External id": number}),
                make_event("cudaLaunchKernel", at + 1, 4.0, cat="cuda_runtime", **ids),
                make_event("kernel_of_it", device, ms * 1e3, cat="kernel", tid=7, stream=7, **ids),
            ]
            device += ms * 1e3
            at += 8.0
    return events, whole_us / 1e3


def awaited_layers(make_event: Make, each_us: float, kernel_us: float, *, wait: bool) -> list[dict[str, Any]]:
    """Steps of layers that are dispatched in 10 µs each; with `wait`, the host waits for every one of them."""
    events, number = [], 0
    for step in range(5):
        at = step * (LAYERS * each_us + 30.0)
        events.append(make_event(f"step#{step}", at, LAYERS * each_us + 25.0, cat="user_annotation"))
        device = at
        for layer in range(LAYERS):
            begin, number = at + layer * each_us, number + 1
            device = max(device, begin + 10.0)
            events += [
                make_event("aten::relu", begin, 10.0),
                make_event("cudaLaunchKernel", begin + 5, 4.0, cat="cuda_runtime", correlation=number),
                make_event("elementwise", device, kernel_us, cat="kernel", tid=7, stream=7, correlation=number),
            ]
            device += kernel_us
            if wait:
                events.append(make_event("cudaStreamSynchronize", begin + 10, each_us - 10, cat="cuda_runtime"))
        events.append(make_event("cudaDeviceSynchronize", at + LAYERS * each_us, 20.0, cat="cuda_runtime"))
    return events


def flow(operator: Launched, calls: int, **seen: Any) -> OperatorFlow:
    """What was seen of an operator's calls where their values were followed."""
    return OperatorFlow(operator[0], tuple(sizes for sizes, _ in operator[1]), calls, **seen)
