"""Which stretches of a trace are steps: annotated ones, else a run of operators that repeats."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.trace_columns import EventKind, Int32, Int64, Trace, distinct
from lynxbench.errors import BadInput

STEP_NAME = re.compile(r"^(ProfilerStep|step)\s*#\s*\d+$", re.IGNORECASE)
INPUT_NAME = re.compile(
    r"(^|[^a-z])(input|inputs|data[_ -]?load(er|ing)?|load[_ -]?(data|batch)|(prepare|fetch|get|next)[_ -]?(data|batch)"
    r"|collate|tokeni[sz](e|er|ation|ing)|pre[_-]?process(ing)?)([^a-z]|$)",
    re.IGNORECASE,
)
"""Ranges in which a step waits for, or makes, what it works on. Words of people, hence a word list and not a guess."""
WARM_STEPS = 3
"""With at least this many steps the first is dropped: it pays for what the others find ready."""
REPEATS_ALIKE = 0.98
"""Share of operator names that must agree one period later for a run of operators to count as repeating."""
EQUALLY_ALIKE = 0.001
FEWEST_REPEATS = 3
LONGEST_SEARCH = 20_000
"""Names looked at: the search is quadratic, and no step has more outermost operators than a third of this."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Step windows on the thread that drives them, in time order; the first may have been dropped."""

    thread: int
    start_ns: Int64
    end_ns: Int64
    how: str
    dropped: int

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def annotated(self) -> bool:
        """Whether someone marked the steps; without marks there is no saying what happens between them."""
        return self.how.startswith("annotated")


def find_steps(trace: Trace) -> Steps:
    """Annotated steps, else a repeating run of operators, else the whole trace as one step."""
    found = _annotated(trace) or _repeating(trace) or _whole(trace)
    if len(found) < WARM_STEPS:
        return found
    return Steps(found.thread, found.start_ns[1:], found.end_ns[1:], found.how, found.dropped + 1)


def is_input(name: str) -> bool:
    """Whether a range's name says that it prepares or awaits the step's input."""
    return name.startswith("enumerate(DataLoader)") or INPUT_NAME.search(name) is not None


def _annotated(trace: Trace) -> Steps | None:
    is_step = np.array([STEP_NAME.match(name) is not None for name in trace.names], dtype=bool)
    rows = trace.rows_of(EventKind.ANNOTATION, EventKind.OPERATOR)  # old writers file annotations under operators
    rows = rows[is_step[trace.name[rows]] & (trace.dur_ns[rows] > 0)]
    if not len(rows):
        return None
    # One family on one thread: a user's own `step#` inside the profiler's would count every step twice.
    family = np.array([trace.names[i].lower().startswith("profilerstep") for i in trace.name[rows]])
    keys = trace.thread[rows].astype(np.int64) * 2 + family
    values = distinct(keys)
    counts = np.bincount(np.searchsorted(values, keys))
    rows = rows[keys == values[np.argmax(counts)]]
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    apart = np.concatenate(([True], start[1:] >= np.maximum.accumulate(end)[:-1]))
    start, end = start[apart], end[apart]
    thread = int(trace.thread[rows[0]])
    return Steps(thread, _with_input_before(trace, thread, start, end), end, "annotated steps", 0)


def _with_input_before(trace: Trace, thread: int, start: Int64, end: Int64) -> Int64:
    """A loader awaited between two annotated steps belongs to the later one: it would not start without it."""
    named = np.array([is_input(name) for name in trace.names], dtype=bool)
    rows = trace.rows_of(EventKind.ANNOTATION)
    rows = rows[named[trace.name[rows]] & (trace.thread[rows] == thread)]
    if not len(rows) or len(start) < 2:
        return start
    start = start.copy()
    first, last = trace.start_ns[rows], trace.end_ns[rows]
    for i in range(1, len(start)):
        between = (first >= end[i - 1]) & (last <= start[i])
        if between.any():
            start[i] = end[i - 1]
    return start


def _main_thread(trace: Trace) -> int | None:
    rows = trace.rows_of(EventKind.OPERATOR)
    if not len(rows):
        return None
    spent = np.bincount(trace.thread[rows], weights=trace.dur_ns[rows])
    return int(np.argmax(spent))


def _repeating(trace: Trace) -> Steps | None:
    """The shortest period after which the thread's outermost operators repeat."""
    thread = _main_thread(trace)
    if thread is None:
        return None
    rows = trace.rows_of(EventKind.OPERATOR)
    rows = rows[trace.thread[rows] == thread]
    reach = np.maximum.accumulate(trace.end_ns[rows])
    rows = rows[np.concatenate(([True], trace.start_ns[rows][1:] >= reach[:-1]))]
    # Names alone: shapes grow from step to step where a cache does.
    names = trace.name[rows]
    period = find_period(names)
    if period is None:
        return None
    count = len(rows) // period
    first = rows[np.arange(count) * period]
    start = trace.start_ns[first]
    last = rows[np.minimum(np.arange(1, count + 1) * period, len(rows)) - 1]
    # A step lasts until the next begins; the last one, until its last operator ends.
    end = np.concatenate((start[1:], [trace.end_ns[last[-1]]]))
    return Steps(thread, start, end, f"found by repetition: {count} runs of the same {period} operators", 0)


def find_period(names: Int32 | Int64) -> int | None:
    """The shortest distance after which a sequence of names repeats as well as at any other distance.

    A stretch inside a step (one layer of many) repeats too, but breaks at every step's edge; the step itself does not.
    """
    names = names[:LONGEST_SEARCH]
    periods = range(1, len(names) // FEWEST_REPEATS + 1)
    alike = np.array([float(np.mean(names[period:] == names[:-period])) for period in periods])
    if not len(alike) or alike.max() < REPEATS_ALIKE:
        return None
    return 1 + int(np.flatnonzero(alike >= alike.max() - EQUALLY_ALIKE)[0])


def _whole(trace: Trace) -> Steps:
    thread = _main_thread(trace)
    if thread is None and len(calls := trace.rows_of(EventKind.RUNTIME)):
        thread = int(np.bincount(trace.thread[calls]).argmax())
    if thread is None:
        raise BadInput(f"{trace.source}: holds no operators to attribute time to; profile with activities=[CPU]")
    rows = trace.rows_of(EventKind.OPERATOR, EventKind.RUNTIME, EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
    start, end = trace.start_ns[rows].min(), trace.end_ns[rows].max()
    return Steps(thread, np.array([start]), np.array([end]), "no steps are marked: the whole trace counts as one", 0)
