"""What counts as a right answer to a case of gpu_live.py."""

from __future__ import annotations

from dataclasses import dataclass

COMPUTE, MEMORY, KERNELS = ("compute",), ("memory_bandwidth",), ("compute", "memory_bandwidth")


@dataclass(frozen=True)
class Live:
    """Where a case lives, and the answers that are right."""

    module: str
    bottlenecks: tuple[str, ...]
    layers: tuple[str, ...]
    bound: str = "software"
    precision: str = "bf16"
