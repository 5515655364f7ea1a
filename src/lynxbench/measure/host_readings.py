"""Load, clocks, memory, power and temperature of the host, from the kernel's files and psutil."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from lynxbench.model.activity import WALL_STEP

CLOCKS_READ = 8
"""Cores whose clock is read: some kernels take a millisecond a core, and the mean of a few tells the same."""
CHILDREN_EVERY_S = 2.0
"""How often the process tree is walked anew; walking looks at every process of the machine."""

_CPU = Path("/sys/devices/system/cpu")
_POWERCAP = Path("/sys/class/powercap")
_THERMAL = Path("/sys/class/thermal")
_HWMON = Path("/sys/class/hwmon")
_VMSTAT = Path("/proc/vmstat")
_PRESSURE = Path("/proc/pressure")


class HostReader:
    """Readings of the host; fractions are of all its CPUs and of the time since the reading before."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns, wall: Callable[[], int] = time.time_ns) -> None:
        self._clock, self._wall = clock, wall
        self._cpus = psutil.cpu_count() or 1
        self._clock_files = _clock_files()
        self._energy = _EnergyCounter()
        self._temperature_files = _temperature_files()
        self._harness = psutil.Process()
        self._tree: list[psutil.Process] = []
        self._last_cpu: dict[int, float] = {}
        self._tree_at_ns = 0
        self._pid: int | None = None
        self._also: tuple[int, ...] = ()
        self._last_at_ns = clock()
        self._last_wall_ns = wall()
        self._last_times = psutil.cpu_times()
        self._last_harness_s = _own_cpu_s(self._harness)

    def watch(self, pid: int | None, also: tuple[int, ...] = ()) -> None:
        """Change the process whose tree counts as the run's own, and those that count beside it (a server)."""
        if pid != self._pid or also != self._also:
            self._pid, self._also, self._tree, self._last_cpu, self._tree_at_ns = pid, also, [], {}, 0

    def read(self) -> dict[str, float]:
        """One reading of every column."""
        at_ns, wall_ns = self._clock(), self._wall()
        elapsed_s = max((at_ns - self._last_at_ns) / 1e9, 1e-9)
        wall_step_s = ((wall_ns - self._last_wall_ns) - (at_ns - self._last_at_ns)) / 1e9
        self._last_at_ns, self._last_wall_ns = at_ns, wall_ns
        busy, steal = self._busy()
        own, faults, resident = self._own(at_ns, elapsed_s)
        harness_s = _own_cpu_s(self._harness)
        harness = (harness_s - self._last_harness_s) / (elapsed_s * self._cpus)
        self._last_harness_s = harness_s
        memory = psutil.virtual_memory()
        swapped_in, swapped_out = _swapped_pages()
        power_w = self._energy.power_w(elapsed_s)
        return {
            "cpu_busy": busy,
            "cpu_busy_own": own,
            "cpu_busy_harness": harness,
            "cpu_busy_foreign": max(busy - (0.0 if math.isnan(own) else own) - harness, 0.0),
            "cpu_steal": steal,
            "cpu_clock_mhz": _mean_clock_mhz(self._clock_files),
            "load_1min": os.getloadavg()[0],
            "memory_used_bytes": float(memory.total - memory.available),
            "memory_available_bytes": float(memory.available),
            "memory_total_bytes": float(memory.total),
            "memory_stalled_us": _stalled_us("memory"),
            "io_stalled_us": _stalled_us("io"),
            "swap_in_pages": swapped_in,
            "swap_out_pages": swapped_out,
            "process_major_faults": faults,
            "process_resident_bytes": resident,
            "package_power_w": power_w,
            "package_energy_j": self._energy.total_j,
            "cpu_temperature_c": _highest_c(self._temperature_files),
            WALL_STEP: wall_step_s,
        }

    def _busy(self) -> tuple[float, float]:
        now, before = psutil.cpu_times(), self._last_times
        self._last_times = now
        spent = {name: getattr(now, name) - getattr(before, name) for name in now._fields}
        # Guests are already counted in user and nice; waiting for a disk leaves a CPU free.
        total = sum(value for name, value in spent.items() if name not in ("guest", "guest_nice"))
        if total <= 0:
            return math.nan, math.nan
        free = spent["idle"] + spent.get("iowait", 0.0)
        return (total - free) / total, spent.get("steal", 0.0) / total

    def _own(self, at_ns: int, elapsed_s: float) -> tuple[float, float, float]:
        """CPU share, major faults and resident bytes of the watched tree."""
        if self._pid is None:
            return math.nan, math.nan, math.nan
        if not self._tree or at_ns - self._tree_at_ns > CHILDREN_EVERY_S * 1e9:
            self._tree_at_ns = at_ns
            self._tree = [process for root in (self._pid, *self._also) for process in _tree_of(root)]
        spent_s, faults, resident = 0.0, 0.0, 0.0
        alive: list[psutil.Process] = []
        for process in self._tree:
            try:
                with process.oneshot():
                    cpu_s = _own_cpu_s(process)
                    resident += process.memory_info().rss
                    faults += _major_faults(process)
            except psutil.Error:
                continue
            alive.append(process)
            spent_s += cpu_s - self._last_cpu.get(process.pid, cpu_s)
            self._last_cpu[process.pid] = cpu_s
        self._tree = alive
        if not alive:
            return math.nan, math.nan, math.nan
        return spent_s / (elapsed_s * self._cpus), faults, resident


def _tree_of(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _own_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _major_faults(process: psutil.Process) -> float:
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        return float(text[text.rindex(")") + 2 :].split()[9])  # proc(5): majflt is field 12
    except (OSError, ValueError, IndexError):
        return math.nan


def _clock_files() -> list[Path]:
    files = sorted(_CPU.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return files[:: max(1, len(files) // CLOCKS_READ)][:CLOCKS_READ]


def _mean_clock_mhz(files: list[Path]) -> float:
    known = [value / 1e3 for value in map(_number, files) if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _temperature_files() -> list[Path]:
    files = [*_THERMAL.glob("thermal_zone*/temp"), *_HWMON.glob("hwmon*/temp*_input")]
    return [file for file in files if not math.isnan(_number(file))]


def _highest_c(files: list[Path]) -> float:
    known = [value / 1e3 for value in map(_number, files) if not math.isnan(value)]
    return max(known) if known else math.nan


def resident_bytes(pid: int) -> int | None:
    """What a process holds in memory; None where it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def inlet_file(hwmon: Path = _HWMON) -> Path | None:
    """The sensor that calls itself the inlet or the ambient air; None where none does."""
    for label in sorted(hwmon.glob("hwmon*/temp*_label")):
        try:
            named = label.read_text().lower()
        except OSError:
            continue
        file = label.with_name(label.name.replace("_label", "_input"))
        if ("inlet" in named or "ambient" in named) and not math.isnan(_number(file)):
            return file
    return None


def read_celsius(file: Path | None) -> float | None:
    """A sensor's reading; None where there is no sensor, or it does not answer."""
    value = math.nan if file is None else _number(file) / 1e3
    return None if math.isnan(value) else value


def _number(file: Path) -> float:
    try:
        return float(file.read_bytes())
    except (OSError, ValueError):
        return math.nan


def _swapped_pages() -> tuple[float, float]:
    try:
        pairs = dict(line.split() for line in _VMSTAT.read_text().splitlines() if line.startswith("pswp"))
        return float(pairs["pswpin"]), float(pairs["pswpout"])
    except (OSError, ValueError, KeyError):
        return math.nan, math.nan


def _stalled_us(what: str) -> float:
    """Time since boot in which some task waited for memory, or for a disk (Linux pressure stall information)."""
    try:
        some = next(line for line in (_PRESSURE / what).read_text().splitlines() if line.startswith("some"))
        return float(some.rsplit("total=", 1)[1])
    except (OSError, ValueError, StopIteration, IndexError):
        return math.nan


class _EnergyCounter:
    """Energy of all processor packages (RAPL), through the counters' wrap-around."""

    def __init__(self) -> None:
        zones = [zone for zone in sorted(_POWERCAP.glob("*:*")) if zone.name.count(":") == 1]
        readable = [zone for zone in zones if not math.isnan(_number(zone / "energy_uj"))]
        self._zones = [(zone / "energy_uj", _number(zone / "max_energy_range_uj")) for zone in readable]
        self._last = [_number(file) for file, _ in self._zones]
        self.total_j = 0.0 if self._zones else math.nan

    def power_w(self, elapsed_s: float) -> float:
        if not self._zones:
            return math.nan
        used_uj = 0.0
        for position, (file, wraps_at) in enumerate(self._zones):
            now, before = _number(file), self._last[position]
            self._last[position] = now
            used_uj += now - before if now >= before else now - before + wraps_at
        if math.isnan(used_uj):
            return math.nan
        self.total_j += used_uj / 1e6
        return used_uj / 1e6 / elapsed_s
