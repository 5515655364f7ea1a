"""The sampler on the real machine and on a fake NVML; its file; its cost."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from lynxbench.errors import BadResult
from lynxbench.measure import host_readings
from lynxbench.measure.host_readings import HostReader
from lynxbench.measure.nvml_readings import NvmlReader
from lynxbench.measure.telemetry import TelemetrySampler, read_telemetry
from lynxbench.model.activity import WALL_STEP

LARGEST_COST = 0.01
"""Share of one core that the sampler may take."""


class FakeNvml:
    """Two GPUs; the second offers no energy counter and no memory temperature."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_MEMORY_TEMP = 186, 82
    NVML_SUCCESS, NVML_ERROR_NOT_SUPPORTED = 0, 3

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__(f"NVML {value}")
            self.value = value

    def __init__(self) -> None:
        self.calls = 0
        self.energy_calls = 0

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return 300_000 + handle

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: N802
        self.energy_calls += handle
        if handle == 1:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return 12_345

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        return 65

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return 1980 if kind == self.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=97, memory=55)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=2**33)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        self.calls += 1
        if self.calls == 2:
            raise self.NVMLError(999)  # a passing failure
        return 0x4

    def nvmlDeviceGetViolationStatus(self, handle: int, policy: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(violationTime=7_000_000_000_000_001 if policy == 0 else 0)

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[SimpleNamespace]:  # noqa: N802
        if fields == [self.NVML_FI_DEV_POWER_INSTANT]:
            return [SimpleNamespace(nvmlReturn=0, valueType=1, value=SimpleNamespace(uiVal=310_500))]
        return [SimpleNamespace(nvmlReturn=3 if handle else 0, valueType=1, value=SimpleNamespace(uiVal=80))]


def test_gpu_columns_in_plain_units() -> None:
    nvml = FakeNvml()
    stamps = iter([0, 10**8, 2 * 10**9])
    reader = NvmlReader(nvml, clock=lambda: next(stamps))
    first = reader.read()
    assert first["gpu0_power_w"] == 300
    assert first["gpu0_power_instant_w"] == 310.5
    assert first["gpu0_energy_j"] == pytest.approx(12.345)
    assert first["gpu0_memory_temperature_c"] == 80
    assert first["gpu0_utilisation"] == 0.97
    assert first["gpu0_throttle_reasons"] == 4
    assert math.isnan(first["gpu1_energy_j"])
    assert math.isnan(first["gpu1_memory_temperature_c"])
    assert math.isnan(first["gpu1_throttle_reasons"])
    second = reader.read()
    assert second["gpu1_throttle_reasons"] == 4  # a passing failure is tried again
    assert math.isnan(second["gpu0_energy_j"])  # slow counters wait for their turn …
    assert reader.read()["gpu0_energy_j"] == pytest.approx(12.345)
    assert nvml.energy_calls == 1  # … and what the GPU does not offer is not asked for again
    assert first.keys() == second.keys()


class SharedNvml(FakeNvml):
    """The first GPU is shared: with this process's own child, a neighbour, and one that is gone."""

    NVML_ERROR_NOT_FOUND = 6

    def __init__(self, own: int, neighbour: int) -> None:
        super().__init__()
        self.listed = {0: [own, neighbour, 2**22 + 1], 1: []}
        self.activity: list[SimpleNamespace] | int = []

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=2**30) for pid in self.listed[handle]]

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[SimpleNamespace]:  # noqa: N802
        if isinstance(self.activity, int):
            raise self.NVMLError(self.activity)
        return [sample for sample in self.activity if sample.timeStamp > since]


def test_neighbours_on_a_gpu_have_columns_for_as_long_as_they_are_there(tmp_path: Path) -> None:
    neighbour = os.getppid()
    name = re.sub(r"[^A-Za-z0-9.+-]", "-", psutil.Process(neighbour).name())
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        nvml = SharedNvml(child.pid, neighbour)
        stamps = iter(range(0, 10**11, 6 * 10**8))  # every second reading is a turn of the slow ones
        reader = NvmlReader(nvml, clock=lambda: next(stamps))
        column = f"gpu0_process_{neighbour}_{name}"
        nvml.activity = [SimpleNamespace(pid=neighbour, smUtil=share, timeStamp=at) for at, share in ((5, 40), (9, 60))]
        first = reader.read()
        assert first["gpu0_own_processes"] == 1
        assert first["gpu1_own_processes"] == 0
        assert first[f"{column}_bytes"] == 2**30
        assert first[f"{column}_sm"] == 0.5
        assert first[f"gpu0_process_{2**22 + 1}_hidden_sm"] == 0
        between = reader.read()
        assert between.keys() == first.keys()
        assert math.isnan(between[f"{column}_bytes"])
        nvml.activity = nvml.NVML_ERROR_NOT_FOUND  # nobody worked since
        assert reader.read()[f"{column}_sm"] == 0
        reader.read()
        nvml.activity = nvml.NVML_ERROR_NOT_SUPPORTED
        assert math.isnan(reader.read()[f"{column}_sm"])
        reader.read()
        nvml.listed[0] = [child.pid]
        assert not any("_process_" in name for name in reader.read())
    finally:
        child.kill()
        child.wait()


def test_columns_that_come_and_go_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.csv"
    path.write_text("at_ns,a\n1,5\nat_ns,a,b\n2,6,7\nat_ns,a\n3,8\n")
    columns = read_telemetry(path).columns
    assert columns["a"].tolist() == [5, 6, 8]
    assert np.isnan(columns["b"][[0, 2]]).all()
    assert columns["b"][1] == 7


def test_own_load_is_told_from_foreign_load(tmp_path: Path) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        reader = HostReader()
        reader.watch(busy.pid)
        time.sleep(0.3)
        reader.read()  # the tree is found and its counters are taken
        time.sleep(1.0)
        reading = reader.read()
    finally:
        busy.kill()
        busy.wait()
    cpus = reader._cpus
    assert 0.05 / cpus < reading["cpu_busy_own"] <= 1.1 / cpus
    assert reading["cpu_busy"] <= 1
    assert reading["cpu_busy_foreign"] <= reading["cpu_busy"] - reading["cpu_busy_own"] + 1e-9
    assert reading["process_resident_bytes"] > 1e6


def test_without_a_process_everything_else_is_read() -> None:
    reader = HostReader()
    time.sleep(0.1)
    reading = reader.read()
    assert math.isnan(reading["cpu_busy_own"])
    assert 0 <= reading["cpu_busy_foreign"] <= 1
    assert reading["memory_available_bytes"] + reading["memory_used_bytes"] == reading["memory_total_bytes"]


def test_a_process_that_ends_leaves_no_error() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    reader = HostReader()
    reader.watch(done.pid)
    assert math.isnan(reader.read()["cpu_busy_own"])
    reader.watch(None)
    assert math.isnan(reader.read()["process_major_faults"])


def test_energy_counters_wrap_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, energy in (("intel-rapl:0", 900_000), ("intel-rapl:0:0", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text(str(energy))
        (tmp_path / name / "max_energy_range_uj").write_text("1000000")
    monkeypatch.setattr(host_readings, "_POWERCAP", tmp_path)
    stamps = iter([0, 10**9, 2 * 10**9])
    reader = HostReader(clock=lambda: next(stamps))
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("950000")
    first = reader.read()
    assert first["package_power_w"] == pytest.approx(0.05)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("50000")
    second = reader.read()
    assert second["package_power_w"] == pytest.approx(0.1)
    assert second["package_energy_j"] == pytest.approx(0.15)


def test_clocks_and_temperatures_from_the_kernels_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, khz in enumerate((2_000_000, 3_000_000)):
        (tmp_path / f"cpu{cpu}" / "cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "cpufreq" / "scaling_cur_freq").write_text(f"{khz}\n")
    for zone, value in (("thermal_zone0", "41000"), ("thermal_zone1", "67500"), ("thermal_zone2", "no number")):
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "temp").write_text(value)
    monkeypatch.setattr(host_readings, "_CPU", tmp_path)
    monkeypatch.setattr(host_readings, "_THERMAL", tmp_path)
    reading = HostReader().read()
    assert reading["cpu_clock_mhz"] == 2500
    assert reading["cpu_temperature_c"] == 67.5


def test_samples_are_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.csv"
    before = time.perf_counter_ns()
    with TelemetrySampler(path, interval_s=0.02, nvml=FakeNvml()) as sampler:
        sampler.watch(None)
        time.sleep(0.2)
    telemetry = read_telemetry(path)
    assert len(telemetry.at_ns) >= 3
    assert before < telemetry.at_ns[0] < telemetry.at_ns[-1] < time.perf_counter_ns()
    assert (np.diff(telemetry.at_ns) > 0).all()
    assert (telemetry.columns["gpu0_power_violation_ns"] != 7_000_000_000_000_001).all()  # not due yet after the start
    np.testing.assert_array_equal(telemetry.columns["gpu0_sm_clock_mhz"], 1980)
    assert np.isnan(telemetry.columns["gpu1_energy_j"]).all()
    assert np.isfinite(telemetry.columns["memory_available_bytes"]).all()


def test_counters_keep_every_digit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with TelemetrySampler(path, interval_s=0.3, nvml=FakeNvml()):
        time.sleep(2.4)
    violation = read_telemetry(path).columns["gpu0_power_violation_ns"]
    assert set(violation[np.isfinite(violation)]) == {7_000_000_000_000_001}


def test_a_torn_line_is_dropped_and_a_resumed_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.csv"
    path.write_text("at_ns,a,b\n1,2,3\n2,,4\n3,5")
    torn = read_telemetry(path)
    assert torn.at_ns.tolist() == [1, 2]
    assert math.isnan(torn.columns["a"][1])
    with TelemetrySampler(path, interval_s=0.01):
        time.sleep(0.05)
    resumed = read_telemetry(path)
    assert resumed.at_ns[:2].tolist() == [1, 2]
    assert len(resumed.at_ns) > 2
    assert np.isnan(resumed.columns["a"][2:]).all()
    assert np.isnan(resumed.columns["cpu_busy"][:2]).all()


@pytest.mark.parametrize("text", ["", "1,2,3\n", "nonsense", "at_ns,a"])
def test_files_without_a_header_are_bad(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(BadResult, match="no header"):
        read_telemetry(path)
    with pytest.raises(BadResult, match="cannot be read"):
        read_telemetry(tmp_path / "absent.csv")


def test_a_killed_sampler_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    code = (
        "import sys, time; from pathlib import Path; from lynxbench.measure.telemetry import TelemetrySampler; "
        f"TelemetrySampler(Path({str(path)!r}), interval_s=0.005).start(); print('on', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.3)
    child.kill()
    child.wait()
    child.stdout.close()
    assert len(read_telemetry(path).at_ns) >= 3


def test_sampling_costs_less_than_a_hundredth_of_a_core(tmp_path: Path) -> None:
    """Of several windows the cheapest: what else the machine does costs the others their core."""
    costs: list[float] = []
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        while len(costs) < 12 and min(costs, default=1.0) >= LARGEST_COST:
            sampler = TelemetrySampler(tmp_path / f"{len(costs)}.csv")
            sampler.watch(child.pid)
            start = time.perf_counter()
            with sampler:
                time.sleep(1.0)
            costs.append(sampler.spent_s / (time.perf_counter() - start))
    finally:
        child.kill()
        child.wait()
    assert min(costs) < LARGEST_COST


def test_machines_without_nvml_sample_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_reader() -> Any:
        return None

    monkeypatch.setattr("lynxbench.measure.telemetry.open_nvml", no_reader)
    assert TelemetrySampler(tmp_path / "t").interval_s == 0.2
    assert TelemetrySampler(tmp_path / "t", nvml=FakeNvml()).interval_s == 0.1


def test_a_clock_that_is_set_shows_in_the_reading_after_it() -> None:
    stamps, walls = iter(range(0, 10 * 10**9, 10**9)), iter([0, 10**9, (2 - 3600) * 10**9, (3 - 3600) * 10**9])
    reader = HostReader(clock=lambda: next(stamps), wall=lambda: next(walls))
    assert [reader.read()[WALL_STEP] for _ in range(3)] == [0, -3600, 0]
