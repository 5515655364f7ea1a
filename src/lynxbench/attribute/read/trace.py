"""A profiler trace as plain columns: one row per timed event, nanoseconds kept."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.read.counters import Counted, Counters, KernelCounters
from lynxbench.attribute.read.dataflow import Dataflow
from lynxbench.attribute.read.operands import OperatorCall

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

NONE = -1
"""Where a column has no value: no correlation, no operands, no byte count."""
STEP_NAME = re.compile(
    r"^((ProfilerStep|step)\s*#\s*\d+|execute_context_\d+\(\d+\)_generation_\d+\(\d+\)|execute_new_\d+_cached_\d+)$",
    re.IGNORECASE,
)
"""How a step is marked: by PyTorch's profiler, by whoever wrote the loop, by vLLM's engine (newer and older)."""
NESTING_SLACK_NS = 1_000
"""Stamps of begin and end are taken a little apart; an inner event may outlast its outer one by this much."""


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
    **dict.fromkeys(("cpu_op", "operator"), EventKind.OPERATOR),
    **dict.fromkeys(("user_annotation", "cpu_user_annotation"), EventKind.ANNOTATION),
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "kernel": EventKind.KERNEL,
    **dict.fromkeys(("gpu_memcpy", "memcpy"), EventKind.MEMCPY),
    **dict.fromkeys(("gpu_memset", "memset"), EventKind.MEMSET),
    **dict.fromkeys(
        ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "privateuse1_runtime"), EventKind.RUNTIME
    ),
    "overhead": EventKind.OVERHEAD,
    "python_function": EventKind.PYTHON,
}
"""Kineto's category words, lower-cased, over the versions seen."""

DEVICE_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
HOST_KINDS = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME)


@dataclass(frozen=True, slots=True)
class Unseen:
    """What a kind of record cannot tell, and what to record for it: shares stand, and nobody is blamed."""

    what: str
    ask: str


@dataclass(frozen=True, slots=True)
class Trace:
    """Rows ordered by start, longest first; name, thread and signature are indices into their tables."""

    source: str
    names: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    signatures: tuple[OperatorCall, ...]
    kind: Int8
    name: Int32
    start_ns: Int64
    dur_ns: Int64
    thread: Int32
    correlation: Int64
    external: Int64
    signature: Int32
    nbytes: Int64
    device: str | None
    notes: tuple[str, ...]
    damaged: bool
    rank: int | None = None
    """The process's number among many, where the profiler knew it."""
    counters: Counters | KernelCounters | None = None
    """Hardware counters, sampled beside the run or measured kernel by kernel, where they were recorded."""
    unseen: Unseen | None = None
    """What this kind of record leaves out, where that keeps a verdict open."""
    base_ns: int | None = None
    """The time of day (since 1970) that its stamps count from, where the profiler wrote it down."""
    dataflow: Dataflow | None = None
    """What was seen of the values of a step, where it was run operator by operator besides."""

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

    def counted(self) -> dict[int, Counted]:
        """What counters say of kernels, by the number of their name."""
        if isinstance(self.counters, KernelCounters):
            return {i: self.counters.of[name] for i, name in enumerate(self.names) if name in self.counters.of}
        if self.counters is None:
            return {}
        kernels = self.rows_of(EventKind.KERNEL)
        return self.counters.by_name(self.start_ns[kernels], self.dur_ns[kernels], self.name[kernels])

    def only(self, keep: Flags) -> Trace:
        """The same trace with some of its rows."""
        columns = ("kind", "name", "start_ns", "dur_ns", "thread", "correlation", "external", "signature", "nbytes")
        return dataclasses.replace(self, **{column: getattr(self, column)[keep] for column in columns})

    def rows_of(self, *kinds: EventKind) -> npt.NDArray[np.intp]:
        """Row numbers of the given kinds, in time order."""
        return np.flatnonzero(is_of(self.kind, kinds))

    def names_where(self, wanted: Callable[[str], object]) -> Flags:
        """Of each name in the table, whether it is wanted."""
        return np.array([bool(wanted(name)) for name in self.names], dtype=bool)

    def rows_named(self, wanted: Callable[[str], object], *kinds: EventKind) -> npt.NDArray[np.intp]:
        """Row numbers of the given kinds whose name is wanted, in time order."""
        rows = self.rows_of(*kinds)
        return rows[self.names_where(wanted)[self.name[rows]]]


def is_of(kind: Int8, wanted: tuple[EventKind, ...]) -> Flags:
    """Which rows are of a wanted kind."""
    flags: Flags = kind == int(wanted[0])
    for other in wanted[1:]:  # a comparison runs many times faster than a look-up by index
        flags |= kind == int(other)
    return flags


def match_ids(keys: Int64, wanted: Int64) -> Int64:
    """Where each wanted id first stands among the keys; NONE where it does not, or is none itself."""
    at = np.full(len(wanted), NONE, dtype=np.int64)
    if len(keys):
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        place = np.minimum(np.searchsorted(ordered, wanted), len(keys) - 1)
        known = (ordered[place] == wanted) & (wanted != NONE)
        at[known] = order[place[known]]
    return at


_Integer = TypeVar("_Integer", bound=np.integer[Any])


def distinct(values: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Distinct values in order. Sorting beats numpy's hashing by far on stamps, which come in long ordered runs."""
    ordered = np.sort(values, kind="stable")
    if not len(ordered):
        return ordered
    keep = np.empty(len(ordered), dtype=bool)
    keep[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def nest_events(start: Int64, end: Int64) -> tuple[Int64, Int64, int]:
    """The event around each (or NONE), ends cut to it, and how many outlasted it by more than the slack."""
    misnested = 0
    while True:
        parent = _parents(start, end)
        limit = np.where(parent != NONE, end[parent], end)
        if (limit <= start).any():
            return _nest_one_by_one(start, end, misnested)
        over = end - limit
        if not (over > 0).any():
            return parent, end, misnested
        misnested += int((over > NESTING_SLACK_NS).sum())
        end = np.minimum(end, limit)  # a cut can free events that began in the overhang: look again


def _nest_one_by_one(start: Int64, end: Int64, misnested: int) -> tuple[Int64, Int64, int]:
    """The same for events that cross each other, where no level can be trusted."""
    parent = np.full(len(start), NONE, dtype=np.int64)
    ends = end.tolist()
    stack: list[int] = []
    for i, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            parent[i] = stack[-1]
            misnested += ends[i] - ends[stack[-1]] > NESTING_SLACK_NS
            ends[i] = min(ends[i], ends[stack[-1]])
        stack.append(i)
    return parent, np.array(ends, dtype=np.int64), misnested


def flatten_events(start: Int64, end: Int64) -> tuple[Int64, Int64, Int64, int]:
    """Stretches that do not overlap, each with the number of its innermost event, and how many outlasted theirs.

    Events come ordered by start, longest first.
    """
    parent, end, misnested = nest_events(start, end)
    # Boundaries in time order; of those at one instant, inner events end first, and outer ones begin first.
    when = np.concatenate((end[::-1], start))
    order = np.argsort(when, kind="stable")
    at = np.concatenate((parent[::-1], np.arange(len(start))))[order]
    when = when[order]
    keep = (when[1:] > when[:-1]) & (at[:-1] != NONE)
    return when[:-1][keep], when[1:][keep], at[:-1][keep], misnested


def _parents(start: Int64, end: Int64) -> Int64:
    """The innermost event open when each begins, level by level."""
    count = len(start)
    # Of the events before it, those that have ended are not around it.
    depth = np.arange(count) - np.searchsorted(np.sort(end, kind="stable"), start, side="right")
    parent = np.full(count, NONE, dtype=np.int64)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    for level in range(1, len(edges) - 1):
        outer, inner = order[edges[level - 1] : edges[level]], order[edges[level] : edges[level + 1]]
        parent[inner] = outer[np.searchsorted(outer, inner) - 1]
    return parent
