"""Which stretches of a trace are steps: annotated ones, else a run of operators or device activities that repeats.

A host range is not the step of a device: the device works on behind it. There a step's window ends when the last
activity launched in it ends, and begins where the window before it ended, so that windows follow without a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.read.trace import (
    DEVICE_KINDS,
    NONE,
    STEP_NAME,
    EventKind,
    Int32,
    Int64,
    Trace,
    distinct,
    match_ids,
)
from lynxbench.errors import BadInput

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
    """Step windows on the thread that drives them, in time order."""

    thread: int
    start_ns: Int64
    end_ns: Int64
    how: str

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def wall_ns(self) -> Int64:
        """How long each step took."""
        return self.end_ns - self.start_ns

    @property
    def annotated(self) -> bool:
        """Whether someone marked the steps; without marks there is no saying what happens between them."""
        return self.how.startswith("annotated")

    def part(self, first: int, last: int | None = None) -> Steps:
        """The steps from one number up to another."""
        return Steps(self.thread, self.start_ns[first:last], self.end_ns[first:last], self.how)


@dataclass(frozen=True, slots=True)
class Activities:
    """Device rows in time order, with the row of the host call that launched each, or NONE."""

    row: Int64
    launched_by: Int64
    step: Int64
    """The step whose host range holds the launch, or NONE."""


def find_steps(trace: Trace) -> Steps:
    """Annotated steps, else a repeating run of operators, else the whole trace as one step."""
    steps = _annotated(trace) or _repeating(trace) or _whole(trace)
    return steps.part(1) if len(steps) >= WARM_STEPS else steps


def find_windows(trace: Trace) -> tuple[Steps, Activities]:
    """The same for a trace with device work: windows on the device, and what ran there with its launches."""
    steps = find_steps(trace)
    if not steps.annotated:
        steps = _repeating_activities(trace) or steps
    activities = _link_activities(trace, steps)
    return _on_device(trace, steps, activities) or steps, activities


def is_input(name: str) -> bool:
    """Whether a range's name says that it prepares or awaits the step's input."""
    return name.startswith("enumerate(DataLoader)") or INPUT_NAME.search(name) is not None


def _annotated(trace: Trace) -> Steps | None:
    # Old writers file annotations under operators.
    rows = trace.rows_named(STEP_NAME.match, EventKind.ANNOTATION, EventKind.OPERATOR)
    rows = rows[trace.dur_ns[rows] > 0]
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
    return Steps(thread, _with_input_before(trace, thread, start, end), end, "annotated steps")


def _with_input_before(trace: Trace, thread: int, start: Int64, end: Int64) -> Int64:
    """A loader awaited between two annotated steps belongs to the later one: it would not start without it."""
    rows = trace.rows_named(is_input, EventKind.ANNOTATION)
    rows = rows[trace.thread[rows] == thread]
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
    return int(np.argmax(np.bincount(trace.thread[rows], weights=trace.dur_ns[rows])))


def _repeating(trace: Trace) -> Steps | None:
    """The shortest period after which the thread's outermost operators repeat."""
    thread = _main_thread(trace)
    if thread is None:
        return None
    rows = trace.rows_of(EventKind.OPERATOR)
    rows = rows[trace.thread[rows] == thread]
    reach = np.maximum.accumulate(trace.end_ns[rows])
    rows = rows[np.concatenate(([True], trace.start_ns[rows][1:] >= reach[:-1]))]
    period = find_period(trace.name[rows])  # names alone: shapes grow from step to step where a cache does
    if period is None:
        return None
    count = len(rows) // period
    start = trace.start_ns[rows[: count * period : period]]
    # A step lasts until the next begins; the last one, until its last operator ends.
    end = np.concatenate((start[1:], [trace.end_ns[rows[count * period - 1]]]))
    return Steps(thread, start, end, f"found by repetition: {count} runs of the same {period} operators")


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
    if thread is None and trace.unseen is not None:
        thread = NONE  # a record of the device alone
    if thread is None:
        raise BadInput(f"{trace.source}: holds no operators to attribute time to; profile with activities=[CPU]")
    rows = trace.rows_of(EventKind.OPERATOR, EventKind.RUNTIME, *DEVICE_KINDS)
    start, end = trace.start_ns[rows].min(), trace.end_ns[rows].max()
    return Steps(thread, np.array([start]), np.array([end]), "no steps are marked: the whole trace counts as one")


def _repeating_activities(trace: Trace) -> Steps | None:
    """Steps of a trace without marks, by the repetition of the device's activities; ranges are of their launches."""
    rows = trace.rows_of(*DEVICE_KINDS)
    period = find_period(trace.name[rows])
    if period is None or len(rows) // period < 2:
        return None
    count = len(rows) // period
    start = trace.start_ns[rows[: count * period : period]]
    last = trace.end_ns[rows[period - 1 : count * period : period]]
    hosts = trace.thread[trace.rows_of(EventKind.RUNTIME, EventKind.OPERATOR)]
    thread = int(np.bincount(hosts).argmax()) if len(hosts) else NONE
    how = f"found by repetition: {count} runs of the same {period} device activities"
    return Steps(thread, np.minimum.accumulate(start[::-1])[::-1], np.maximum.accumulate(last), how)


def _link_activities(trace: Trace, steps: Steps) -> Activities:
    """Each device activity with its launch, by correlation; the first call of a correlation wins."""
    rows, calls = trace.rows_of(*DEVICE_KINDS), trace.rows_of(EventKind.RUNTIME)
    at = match_ids(trace.correlation[calls], trace.correlation[rows])
    launched = np.full(len(rows), NONE, dtype=np.int64)
    launched[at != NONE] = calls[at[at != NONE]]
    when = np.where(launched != NONE, trace.start_ns[launched], trace.start_ns[rows])
    step = np.searchsorted(steps.start_ns, when, side="right") - 1
    outside = (step < 0) | (when >= steps.end_ns[np.maximum(step, 0)])
    return Activities(rows.astype(np.int64), launched, np.where(outside, NONE, step))


def _on_device(trace: Trace, steps: Steps, activities: Activities) -> Steps | None:
    """Windows between the ends of successive steps' device work; None where fewer than two steps have any."""
    last = np.full(len(steps), -1, dtype=np.int64)
    inside = activities.step != NONE
    np.maximum.at(last, activities.step[inside], trace.end_ns[activities.row[inside]])
    last = last[last >= 0]
    if len(last) < 2:
        return None
    last = np.maximum.accumulate(last)
    keep = last[1:] > last[:-1]
    if not keep.any():
        return None
    return Steps(steps.thread, last[:-1][keep], last[1:][keep], f"{steps.how}, taken on the device")
