"""NVIDIA GPUs through NVML: power, energy, temperature, clocks, activity, memory, and what held the clocks down."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from typing import Any

import psutil

from lynxbench.measure.device_conditions import HIDDEN

POWER_VIOLATION = 0
THERMAL_VIOLATION = 1
"""NVML's nvmlPerfPolicyType_t."""
TEMPERATURE_LIMIT = 3
"""NVML_TEMPERATURE_THRESHOLD_GPU_MAX: what the driver's own slowdown keeps the device below."""
SETTINGS = frozenset(
    {"power_limit_default_w", "sm_clock_max_mhz", "memory_clock_max_mhz", "memory_total_bytes", "temperature_limit_c"}
)
SLOW_READINGS = frozenset({"energy_j", "power_violation_ns", "thermal_violation_ns"}) | SETTINGS
SLOW_EVERY_S = 1.0
"""On an H200 these counters cost 3.1 and 0.4 ms of CPU a call, all other readings together 0.06 ms."""
MPS_SERVER = "nvidia-cuda-mps-server"
"""It carries other processes' work and has none of its own."""
GPM_METRICS: dict[str, str] = {
    "gpm_engine": "NVML_GPM_METRIC_GRAPHICS_UTIL",
    "gpm_sm": "NVML_GPM_METRIC_SM_UTIL",
    "gpm_occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "gpm_tensor": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "gpm_fp32": "NVML_GPM_METRIC_FP32_UTIL",
    "gpm_fp16": "NVML_GPM_METRIC_FP16_UTIL",
    "gpm_dram": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}
"""Columns by metric of GPU performance monitoring (Hopper and later); all are percentages of the device's most.

What NVML calls utilisation only says that a kernel ran. These say whether the engine had work at all, and which units
worked: streaming multiprocessors, tensor cores, the fp32 and fp16 pipes, memory."""


def open_nvml() -> NvmlReader | None:
    """A reader of this machine's GPUs; None where there is no NVML or no GPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # the package may be missing, the library too, and both fail in their own ways
        return None
    reader = NvmlReader(pynvml)
    return reader if reader.count else None


class NvmlReader:
    """Readings of every GPU, in columns named `gpu0_…`. A reading that a GPU does not offer is NaN for good."""

    def __init__(self, nvml: Any, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._nvml = nvml
        self._clock = clock
        self._slow_at_ns: int | None = None
        self.count = int(nvml.nvmlDeviceGetCount())
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(self.count)]
        self._gpm = [open_gpm(nvml, handle) for handle in self._handles]
        self._failed: set[tuple[int, str]] = set()
        self._own: frozenset[int] = frozenset({os.getpid()})
        self._activity_at = [0] * self.count
        self._process_columns: tuple[str, ...] = ()
        self._readings: dict[str, Callable[[Any], float]] = {
            "power_w": lambda h: nvml.nvmlDeviceGetPowerUsage(h) / 1e3,
            "power_instant_w": lambda h: self._field(h, "NVML_FI_DEV_POWER_INSTANT") / 1e3,
            "power_limit_w": lambda h: nvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3,
            "power_limit_default_w": lambda h: nvml.nvmlDeviceGetPowerManagementDefaultLimit(h) / 1e3,
            "energy_j": lambda h: nvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3,
            "temperature_c": lambda h: nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU),
            "memory_temperature_c": lambda h: self._field(h, "NVML_FI_DEV_MEMORY_TEMP"),
            "temperature_limit_c": lambda h: nvml.nvmlDeviceGetTemperatureThreshold(h, TEMPERATURE_LIMIT),
            "sm_clock_max_mhz": lambda h: nvml.nvmlDeviceGetMaxClockInfo(h, nvml.NVML_CLOCK_SM),
            "sm_clock_mhz": lambda h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM),
            "memory_clock_max_mhz": lambda h: nvml.nvmlDeviceGetMaxClockInfo(h, nvml.NVML_CLOCK_MEM),
            "memory_clock_mhz": lambda h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM),
            "utilisation": lambda h: nvml.nvmlDeviceGetUtilizationRates(h).gpu / 100,
            "memory_utilisation": lambda h: nvml.nvmlDeviceGetUtilizationRates(h).memory / 100,
            "memory_used_bytes": lambda h: nvml.nvmlDeviceGetMemoryInfo(h).used,
            "memory_total_bytes": lambda h: nvml.nvmlDeviceGetMemoryInfo(h).total,
            "throttle_reasons": nvml.nvmlDeviceGetCurrentClocksThrottleReasons,
            "power_violation_ns": lambda h: nvml.nvmlDeviceGetViolationStatus(h, POWER_VIOLATION).violationTime,
            "thermal_violation_ns": lambda h: nvml.nvmlDeviceGetViolationStatus(h, THERMAL_VIOLATION).violationTime,
        }

    def watch(self, *pids: int) -> None:
        """The roots of the run's own processes, beside this one; all others on a GPU are neighbours."""
        self._own = frozenset({os.getpid(), *pids})

    def read(self) -> dict[str, float]:
        """One reading of every column of every GPU; slow counters are NaN between their turns.

        Neighbours have columns of their own for as long as they are there.
        """
        at_ns = self._clock()
        slow_too = self._slow_at_ns is None or at_ns - self._slow_at_ns >= SLOW_EVERY_S * 1e9
        if slow_too:
            self._slow_at_ns = at_ns
        readings = {
            f"gpu{index}_{name}": self._try(index, handle, name) if slow_too or name not in SLOW_READINGS else math.nan
            for index, handle in enumerate(self._handles)
            for name in self._readings
        }
        for index, gpm in enumerate(self._gpm):
            if gpm is not None:
                readings.update({f"gpu{index}_{name}": value for name, value in gpm.read().items()})
        processes = dict.fromkeys(self._process_columns, math.nan)
        if slow_too:
            each = (self._processes(index, handle) for index, handle in enumerate(self._handles))
            processes = {column: value for readings_of in each for column, value in readings_of.items()}
            self._process_columns = tuple(processes)
        return readings | processes

    def _processes(self, index: int, handle: Any) -> dict[str, float]:
        """How many of the run's own processes are on a GPU, and each neighbour's memory and share of activity."""
        nvml = self._nvml
        try:
            listed = {p.pid: p.usedGpuMemory for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        except (nvml.NVMLError, AttributeError):
            return {f"gpu{index}_own_processes": math.nan}
        names = {pid: _whose(pid, self._own) for pid in listed}
        neighbours = {pid: name for pid, name in names.items() if name not in (None, MPS_SERVER)}
        readings = {f"gpu{index}_own_processes": float(sum(name is None for name in names.values()))}
        shares = self._shares(index, handle) if listed else {}
        for pid, name in neighbours.items():
            column = f"gpu{index}_process_{pid}_{name}"
            readings[f"{column}_bytes"] = float(listed[pid] or 0)
            readings[f"{column}_sm"] = math.nan if shares is None else shares.get(pid, 0.0)
        return readings

    def _shares(self, index: int, handle: Any) -> dict[int, float] | None:
        """Each process's share of activity since the last look; None where the GPU does not tell."""
        nvml = self._nvml
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(handle, self._activity_at[index])
        except (nvml.NVMLError, AttributeError) as error:
            quiet = getattr(error, "value", None) == getattr(nvml, "NVML_ERROR_NOT_FOUND", None)
            return {} if quiet and not isinstance(error, AttributeError) else None
        self._activity_at[index] = max((sample.timeStamp for sample in samples), default=self._activity_at[index])
        shares: dict[int, list[float]] = {}
        for sample in samples:
            shares.setdefault(sample.pid, []).append(sample.smUtil / 100)
        return {pid: sum(each) / len(each) for pid, each in shares.items()}

    def _try(self, index: int, handle: Any, name: str) -> float:
        if (index, name) in self._failed:
            return math.nan
        try:
            return float(self._readings[name](handle))
        except (self._nvml.NVMLError, AttributeError) as error:
            # Only what the GPU will never offer is given up; a passing failure (busy, lost) is tried again.
            unsupported = getattr(self._nvml, "NVML_ERROR_NOT_SUPPORTED", None)
            if isinstance(error, AttributeError) or getattr(error, "value", None) == unsupported:
                self._failed.add((index, name))
            return math.nan

    def _field(self, handle: Any, name: str) -> float:
        """A field value; NVML answers each field with its own status and the member of a union that its type names."""
        nvml = self._nvml
        answer = nvml.nvmlDeviceGetFieldValues(handle, [getattr(nvml, name)])[0]
        if answer.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(answer.nvmlReturn)
        members = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
        return float(getattr(answer.value, members[answer.valueType]))


class GpmReader:
    """The share that each unit was active since the last reading; NaN at the first, and where a reading fails."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._ids = {column: int(getattr(nvml, name)) for column, name in GPM_METRICS.items()}
        self._earlier, self._later = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        self._began = False

    def read(self) -> dict[str, float]:
        """One reading of every column."""
        unknown = dict.fromkeys(GPM_METRICS, math.nan)
        try:
            self._nvml.nvmlGpmSampleGet(self._handle, self._later)
        except self._nvml.NVMLError:
            self._began = False  # the next span would reach back over the gap
            return unknown
        self._earlier, self._later = self._later, self._earlier
        if not self._began:
            self._began = True
            return unknown
        return self._between(earlier=self._later, later=self._earlier)

    def _between(self, earlier: Any, later: Any) -> dict[str, float]:
        nvml = self._nvml
        query = nvml.c_nvmlGpmMetricsGet_t()
        query.version = nvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics = len(self._ids)
        query.sample1, query.sample2 = earlier, later
        for place, number in enumerate(self._ids.values()):
            query.metrics[place].metricId = number
        try:
            nvml.nvmlGpmMetricsGet(query)
        except nvml.NVMLError:
            return dict.fromkeys(GPM_METRICS, math.nan)
        answers = (query.metrics[place] for place in range(len(self._ids)))
        return {
            column: answer.value / 100 if answer.nvmlReturn == nvml.NVML_SUCCESS else math.nan
            for column, answer in zip(self._ids, answers, strict=True)
        }


def open_gpm(nvml: Any, handle: Any) -> GpmReader | None:
    """A reader of one GPU; None where the device, the driver, the binding or the permission does not have it."""
    try:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return GpmReader(nvml, handle)
    except (nvml.NVMLError, AttributeError):
        return None


def _whose(pid: int, own: frozenset[int]) -> str | None:
    """None for a process of the run; otherwise its name, in letters a column's name may have."""
    try:
        process = psutil.Process(pid)
        if pid in own or any(parent.pid in own for parent in process.parents()):
            return None
        return re.sub(r"[^A-Za-z0-9.+-]", "-", process.name()) or HIDDEN
    except psutil.Error:
        return HIDDEN
