"""A server while it is asked: what its /metrics say from moment to moment, and what its threads get of the CPUs.

Reading is done by the run's parent process, which sends no load.
"""

import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from lynxbench.tables import read_table

HIGHEST = frozenset({"cache_share", "tokens_a_draft"})
"""Quantities of which several engines behind one address show the highest; all others add up."""
TREE_EVERY_S = 2.0
MOST_PROCESSES = 12
"""Processes with columns of their own, those that used most CPU first: a server of many workers stays readable."""
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MetricNames:
    """How one kind of server names what it counts."""

    key: str
    name: str
    mark: str
    """How only this server's metrics begin."""
    columns: Mapping[str, tuple[str, ...]]


METRIC_NAMES = tuple(
    MetricNames(key, keys["name"], keys["mark"], {name: tuple(names) for name, names in keys["columns"].items()})
    for key, keys in read_table("measure/server_metrics.toml").items()
)


def recognise_server(text: str) -> MetricNames | None:
    """Whose metrics these are; None where no known server's are among them."""
    return next((server for server in METRIC_NAMES if re.search(rf"^{server.mark}", text, re.MULTILINE)), None)


def read_quantities(text: str, server: MetricNames) -> dict[str, float]:
    """Every quantity that is exposed, by its name here."""
    samples: dict[str, dict[str, float]] = {}  # a series that stands twice is one
    for line in text.splitlines():
        if line.startswith(server.mark):
            name, labels, value = _parse_sample(line)
            if math.isfinite(value):
                samples.setdefault(name, {})[labels] = value
    quantities: dict[str, float] = {}
    for quantity, names in server.columns.items():
        for wanted in names:
            name, _, label = wanted.removesuffix("}").partition("{")
            values = [value for labels, value in samples.get(name, {}).items() if label in labels]
            if values:
                quantities[quantity] = max(values) if quantity in HIGHEST else sum(values)
                break
    return quantities


def _parse_sample(line: str) -> tuple[str, str, float]:
    """Name, labels and value of a line, without an exemplar behind them; NaN where there is none."""
    labels, exemplar = "", line.rfind(" # {")
    line = line if exemplar < 0 else line[:exemplar]
    if "{" in line:
        name, _, rest = line.partition("{")
        labels, _, rest = rest.rpartition("}")
    else:
        name, _, rest = line.partition(" ")
    words = rest.split()
    try:
        return name.strip(), labels, float(words[0])
    except (IndexError, ValueError):
        return name.strip(), labels, math.nan


class MetricsReader:
    """Columns `vllm_running` and so on; how long an answer took is `metrics_s`. NaN where none came."""

    def __init__(self, scrape: Callable[[], str | None], clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._scrape, self._clock = scrape, clock
        self._columns: tuple[str, ...] = ()

    def read(self) -> dict[str, float]:
        """One reading of every column."""
        asked_ns = self._clock()
        text = self._scrape()
        took_s = (self._clock() - asked_ns) / 1e9
        server = recognise_server(text) if text is not None else None
        if text is None or server is None:
            return dict.fromkeys(("metrics_s", *self._columns), math.nan)
        quantities = {f"{server.key}_{name}": value for name, value in read_quantities(text, server).items()}
        self._columns = tuple(dict.fromkeys((*self._columns, *quantities)))
        return {"metrics_s": took_s, **{name: quantities.get(name, math.nan) for name in self._columns}}


class ThreadReader:
    """What the processes of a tree get of the CPUs, each in columns `process_PID_NAME_…`, in cores since the last look.

    cores     all its threads together
    busiest   its busiest thread alone
    waited    how long that thread was ready to run and had no CPU, in the same measure; NaN where the kernel is silent
    allowed   how many CPUs that thread may run on
    """

    def __init__(self, root: int, clock: Callable[[], int] = time.perf_counter_ns, proc: Path = _PROC) -> None:
        self._root, self._clock, self._proc = root, clock, proc
        self._tree: tuple[int, ...] = ()
        self._tree_at_ns: int | None = None
        self._last_at_ns: int | None = None
        self._threads: dict[tuple[int, int], tuple[int, float]] = {}
        self._spent_ns: dict[int, int] = {}
        self._throttle_file = _throttle_file(root, proc)

    def read(self) -> dict[str, float]:
        """One reading of every process; nothing at the first look."""
        at_ns = self._clock()
        if self._tree_at_ns is None or at_ns - self._tree_at_ns >= TREE_EVERY_S * 1e9:
            self._tree, self._tree_at_ns = _tree_of(self._root), at_ns
        elapsed_ns = 0 if self._last_at_ns is None else at_ns - self._last_at_ns
        self._last_at_ns = at_ns
        before, self._threads = self._threads, {}
        readings: dict[int, dict[str, float]] = {}
        for pid in self._tree:
            grown = []
            for thread, (run_ns, wait_ns) in read_threads(pid, self._proc).items():
                self._threads[pid, thread] = (run_ns, wait_ns)
                if (pid, thread) in before:
                    earlier_run_ns, earlier_wait_ns = before[pid, thread]
                    grown.append((run_ns - earlier_run_ns, wait_ns - earlier_wait_ns, thread))
            if not grown or not elapsed_ns:
                continue
            busiest_ns, waited_ns, thread = max(grown, key=lambda thread: (thread[0], -thread[2]))
            total_ns = sum(run_ns for run_ns, _, _ in grown)
            self._spent_ns[pid] = self._spent_ns.get(pid, 0) + total_ns
            readings[pid] = {
                "cores": total_ns / elapsed_ns,
                "busiest": busiest_ns / elapsed_ns,
                "waited": waited_ns / elapsed_ns,
                "allowed": _allowed(thread),
            }
        shown = sorted(readings, key=lambda pid: (-self._spent_ns[pid], pid))[:MOST_PROCESSES]
        columns = {
            f"process_{pid}_{_name_of(pid, self._proc)}_{what}": value
            for pid in sorted(shown)
            for what, value in readings[pid].items()
        }
        return {"throttled_us": _throttled_us(self._throttle_file), **columns}


def read_threads(pid: int, proc: Path = _PROC) -> dict[int, tuple[int, float]]:
    """Each thread's time on a CPU and, where the kernel keeps it, ready without one, in ns since its start."""
    threads: dict[int, tuple[int, float]] = {}
    try:
        ids = [name for name in os.listdir(proc / str(pid) / "task") if name.isdecimal()]
    except OSError:
        return threads
    for name in ids:
        folder = proc / str(pid) / "task" / name
        try:
            words = (folder / "schedstat").read_text().split()
            threads[int(name)] = int(words[0]), float(words[1])
        except (OSError, ValueError, IndexError):
            ticks = _ticks(folder / "stat")
            if ticks is not None:
                threads[int(name)] = ticks * TICK_NS, math.nan
    return threads


def _ticks(file: Path) -> int | None:
    try:
        text = file.read_text()
        words = text[text.rindex(")") + 2 :].split()
        return int(words[11]) + int(words[12])  # proc(5): utime and stime are fields 14 and 15
    except (OSError, ValueError, IndexError):
        return None


def _tree_of(root: int) -> tuple[int, ...]:
    try:
        process = psutil.Process(root)
        return root, *sorted(child.pid for child in process.children(recursive=True))
    except psutil.Error:
        return ()


def _allowed(thread: int) -> float:
    try:
        return float(len(os.sched_getaffinity(thread)))
    except OSError:
        return math.nan


def _name_of(pid: int, proc: Path) -> str:
    try:
        name = (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        name = ""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip("-") or "unnamed"


def _throttle_file(pid: int, proc: Path) -> Path | None:
    """Where the server's own control group accounts the time that its quota took."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    file = None if path is None else _CGROUPS / path / "cpu.stat"
    return file if file is not None and file.exists() else None


def _throttled_us(file: Path | None) -> float:
    try:
        pairs: Sequence[Sequence[str]] = (
            [] if file is None else [line.split() for line in file.read_text().splitlines()]
        )
        return next((float(words[1]) for words in pairs if words[0] == "throttled_usec"), math.nan)
    except (OSError, ValueError, IndexError):
        return math.nan
