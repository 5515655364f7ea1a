"""A profiler trace as plain columns: one row per timed event, nanoseconds kept."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.counters import Counters

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]

NONE = -1
"""Where a column has no value: no correlation, no stream, no byte count."""


class EventKind(IntEnum):
    """What the profiler says an event is; the words of the file are mapped once, here."""

    OPERATOR = 0
    ANNOTATION = 1
    DEVICE_ANNOTATION = 2
    KERNEL = 3
    MEMCPY = 4
    MEMSET = 5
    RUNTIME = 6
    OVERHEAD = 7
    PYTHON = 8
    OTHER = 9


KIND_OF_CATEGORY: dict[str, EventKind] = {
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "cpu_user_annotation": EventKind.ANNOTATION,
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY,
    "memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET,
    "memset": EventKind.MEMSET,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "hip_runtime": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,
    "privateuse1_runtime": EventKind.RUNTIME,
    "overhead": EventKind.OVERHEAD,
    "python_function": EventKind.PYTHON,
}
"""Kineto's category words, lower-cased, over the versions seen."""

DEVICE_KINDS: tuple[EventKind, ...] = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)


@dataclass(frozen=True, slots=True)
class OperandTensor:
    """One operand: its sizes, its strides where recorded, and the profiler's word for its element type."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """What an operator was called with, argument by argument; a list of tensors is flattened in place."""

    arguments: tuple[tuple[OperandTensor, ...], ...] = ()
    concrete: tuple[str, ...] = ()
    results: tuple[tuple[int, ...], ...] = ()
    """Sizes of what it returned, where the profiler says so or an inner allocation tells."""

    @property
    def tensors(self) -> tuple[OperandTensor, ...]:
        """All operands in order."""
        return tuple(tensor for argument in self.arguments for tensor in argument)


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel's launch geometry."""

    blocks: int
    threads_per_block: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Rows ordered by start, longest first; name, thread, signature and launch are indices into their tables."""

    source: str
    names: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    signatures: tuple[OperatorCall, ...]
    launches: tuple[Launch, ...]
    kind: Int8
    name: Int32
    start_ns: Int64
    dur_ns: Int64
    thread: Int32
    stream: Int32
    correlation: Int64
    external: Int64
    signature: Int32
    launch: Int32
    nbytes: Int64
    device: str | None
    raw_bytes: int
    notes: tuple[str, ...]
    damaged: bool
    rank: int | None = None
    """The process's number among many, where the profiler knew it."""
    counters: Counters | None = None
    """Hardware counters sampled beside the run, where they were recorded."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64:
        """When each event ended."""
        return self.start_ns + self.dur_ns

    @property
    def has_device_work(self) -> bool:
        """Whether anything ran on an accelerator."""
        return bool(is_of(self.kind, DEVICE_KINDS).any())

    def rows_of(self, *kinds: EventKind) -> npt.NDArray[np.intp]:
        """Row numbers of the given kinds, in time order."""
        return np.flatnonzero(is_of(self.kind, kinds))


def is_of(kind: Int8, wanted: tuple[EventKind, ...]) -> npt.NDArray[np.bool_]:
    """Which rows are of a wanted kind."""
    found: npt.NDArray[np.bool_] = kind == int(wanted[0])
    for one in wanted[1:]:  # a comparison runs many times faster than a look-up by index
        found |= kind == int(one)
    return found


_Integer = TypeVar("_Integer", bound=np.integer[Any])


def distinct(values: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Distinct values in order. Sorting beats hashing on stamps, which come in long ordered runs.

    numpy's own function would import masked arrays first, which takes as long as reading three megabytes of trace.
    """
    ordered = np.sort(values, kind="stable")
    if not len(ordered):
        return ordered
    keep = np.empty(len(ordered), dtype=bool)
    keep[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def quartiles(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """First, second and third quartile along the first axis, between neighbours by their distance, as numpy has them.

    numpy's own function imports masked arrays too.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=0)
    place = (len(ordered) - 1) * np.array([0.25, 0.5, 0.75])
    low = np.floor(place).astype(np.int64)
    part = (place - low).reshape((3,) + (1,) * (ordered.ndim - 1))
    below, above = ordered[low], ordered[np.minimum(low + 1, len(ordered) - 1)]
    # From the nearer end, so that the result never passes it by rounding.
    between: npt.NDArray[np.float64] = np.where(
        part < 0.5, below + (above - below) * part, above - (above - below) * (1 - part)
    )
    return between
