"""Nsight Compute's CSV (`ncu --csv`, page raw or details): how long kernels took, and how near their ceilings.

Kernels are measured one by one, so they are laid end to end: what lay between them nobody recorded.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lynxbench.attribute.read.counters import LEAST_BUSY, Counted, KernelCounters
from lynxbench.attribute.read.csv_tables import CsvTable, read_table_rows
from lynxbench.attribute.read.trace import EventKind, Trace, Unseen
from lynxbench.attribute.read.trace_rows import LATEST_NS, TraceRows, nanoseconds
from lynxbench.errors import BadInput

KERNEL = "Kernel Name"
LONG = ("ID", KERNEL, "Metric Name", "Metric Unit", "Metric Value")
"""Columns of the page `details`: a row for each launch and metric. On the page `raw`, each metric is a column."""
DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "Duration")
ARITHMETIC = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput",
    "Compute (SM) [%]",
    "SM [%]",
)
MEMORY = (
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory Throughput",
    "Memory [%]",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput",
)
"""Metrics by their raw names and those of the sections, the first that a launch has: percent of a unit's peak."""
WANTED = frozenset((*DURATION, *ARITHMETIC, *MEMORY))
UNIT_NS = {
    **dict.fromkeys(("ns", "nsecond"), 1.0),
    **dict.fromkeys(("us", "µs", "usecond"), 1e3),
    **dict.fromkeys(("ms", "msecond"), 1e6),
    **dict.fromkeys(("s", "second"), 1e9),
}
_DECIMAL_COMMA = re.compile(r"^\d+,(\d{1,2}|\d{4,})$|^\d{1,3}(\.\d{3})+,\d+$|^\d{1,3}(\.\d{3}){2,}$")
_DECIMAL_POINT = re.compile(r"^\d+\.(\d{1,2}|\d{4,})$|^\d{1,3}(,\d{3})+\.\d+$|^\d{1,3}(,\d{3}){2,}$")
"""Numbers that one way of writing alone explains; `1,205` and `117.344` could be either."""

_ALONE = Unseen(
    "Nsight Compute measures each kernel by itself (by default at a fixed clock, with cold caches): the host, copies "
    "and what lies between kernels are not recorded",
    "record the same steps with Nsight Systems or the framework's profiler: which share kernels have of a step decides",
)


@dataclass
class _Launch:
    """One launch of a kernel with the metrics that were wanted, as written."""

    kernel: str
    metrics: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By name: value and unit."""


def read_compute(path: Path) -> Trace:
    """The kernels of a CSV page, laid end to end; BadInput in one line where none has a time."""
    table, rows = read_table_rows(path, (KERNEL,))
    is_long = set(LONG) <= table.columns.keys()
    if not is_long and ("ID" not in table.columns or "Metric Name" in table.columns):
        raise BadInput(f"{path}: lists no single launches; write it with ncu --csv --page raw, without --print-summary")
    if is_long:
        table.need(*LONG)
    launches = list(_long_launches(table, rows) if is_long else _raw_launches(table, rows))
    comma = _uses_comma(path, (value for launch in launches for value, _ in launch.metrics.values()))
    columns, counted = TraceRows(), _Means()
    at = 0
    for launch in launches:
        took = _first(launch, DURATION, comma)
        took_ns = nanoseconds(took[0], UNIT_NS.get(took[1], -1.0)) if took is not None else -1
        if took_ns <= 0 or not launch.kernel or at + took_ns >= LATEST_NS:
            columns.unusable += 1
            continue
        columns.add(EventKind.KERNEL, launch.kernel, at, at + took_ns, ("device 0", "kernels"))
        at += took_ns
        shares = [_share(launch, names, comma) for names in (ARITHMETIC, MEMORY)]
        counted.take(launch.kernel, took_ns, *shares)
    if not columns:
        raise BadInput(
            f"{path}: holds no kernel with a duration ({columns.unusable:,} launches without); record "
            "gpu__time_duration.sum, or the section SpeedOfLight"
        )
    columns.notes += table.notes
    if table.short:
        columns.notes.append(f"{table.short:,} rows lack columns and were left out")
    return columns.trace(path, counters=counted.counters(), unseen=_ALONE)


def _long_launches(table: CsvTable, rows: Iterable[list[str]]) -> Iterator[_Launch]:
    launches: dict[tuple[str, str, str], _Launch] = {}
    for row in rows:
        metric = table.pick(row, "Metric Name")
        kernel = table.pick(row, KERNEL)
        key = (table.pick(row, "Process ID"), table.pick(row, "ID"), kernel)
        launch = launches.setdefault(key, _Launch(kernel))
        unit = table.pick(row, "Metric Unit").strip()
        # Sections use one name for two things: a rate and its share of the peak.
        if metric in WANTED and (metric in DURATION or unit == "%"):
            launch.metrics.setdefault(metric, (table.pick(row, "Metric Value"), unit))
    yield from launches.values()


def _raw_launches(table: CsvTable, rows: Iterable[list[str]]) -> Iterator[_Launch]:
    wanted = [name for name in table.names if name in WANTED]
    units: dict[str, str] = {}
    for row in rows:
        if not table.pick(row, "ID").strip():  # the row of units stands under the header
            units = {name: table.pick(row, name).strip() for name in wanted}
            continue
        yield _Launch(table.pick(row, KERNEL), {name: (table.pick(row, name), units.get(name, "")) for name in wanted})


def _uses_comma(path: Path, values: Iterable[str]) -> bool:
    """Whether numbers are written with a decimal comma, as some locales have it; BadInput where the file does both."""
    written = list(values)
    comma = next((value for value in written if _DECIMAL_COMMA.match(value)), None)
    point = next((value for value in written if _DECIMAL_POINT.match(value)), None)
    if comma is not None and point is not None:
        raise BadInput(f"{path}: numbers such as {comma!r} and {point!r} contradict each other; write it with LC_ALL=C")
    return comma is not None


def _number(text: str, comma: bool) -> float | None:
    text = text.strip()
    text = text.replace(".", "").replace(",", ".") if comma else text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        return None  # `n/a`: not measured on this device


def _first(launch: _Launch, names: tuple[str, ...], comma: bool) -> tuple[float, str] | None:
    for name in names:
        value, unit = launch.metrics.get(name, ("", ""))
        number = _number(value, comma)
        if number is not None:
            return number, unit
    return None


def _share(launch: _Launch, names: tuple[str, ...], comma: bool) -> float | None:
    found = _first(launch, names, comma)
    return min(1.0, found[0] / 100.0) if found is not None and 0 <= found[0] < float("inf") else None


class _Means:
    """Shares of the units by kernel, weighted by time."""

    def __init__(self) -> None:
        self.launches = 0
        self._sums: dict[str, list[float]] = {}

    def take(self, kernel: str, took_ns: int, arithmetic: float | None, memory: float | None) -> None:
        """One launch; a launch with one of the two says nothing about which of them binds."""
        if arithmetic is None or memory is None:
            return
        self.launches += 1
        sums = self._sums.setdefault(kernel, [0.0, 0.0, 0.0])
        for place, amount in enumerate((1.0, arithmetic, memory)):
            sums[place] += took_ns * amount

    def counters(self) -> KernelCounters | None:
        """What the counters say of each kernel; None where they say nothing."""
        means = {kernel: Counted(units / ns, moved / ns) for kernel, (ns, units, moved) in self._sums.items()}
        told = {kernel: counted for kernel, counted in means.items() if counted.reached >= LEAST_BUSY}
        return KernelCounters(told, self.launches) if told else None
