"""Telemetry of other makers' devices on stand-ins: units, N/A, errors, and what it must never become."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.measure.energy import own_devices
from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.measure.vendor_readings import VendorReader, amd_devices, intel_devices, open_vendors, tpu_devices
from lynxbench.model.contract import Protocol
from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry
from maker_modules import AmdSmi, AmdSmiLibraryException, TpuMonitoring

SECOND = 1_000_000_000


def amd(**answers: Any) -> tuple[VendorReader, dict[str, float]]:
    reader = VendorReader(list(amd_devices(0, AmdSmi(count=1, **answers))))
    return reader, reader.read()


def test_amd_readings_have_our_units() -> None:
    reader, columns = amd()
    assert columns["gpu0_power_w"] == 512
    assert columns["gpu0_energy_j"] == pytest.approx(1_001_000 * 15.3 / 1e6)
    assert columns["gpu0_hotspot_temperature_c"] == 71
    assert columns["gpu0_gfx_clock_mhz"] == 2100
    assert columns["gpu0_utilisation"] == pytest.approx(0.96)
    assert columns["gpu0_memory_used_bytes"] == 1024 * 2**20
    assert columns["gpu0_untested"] == 1.0
    assert math.isnan(columns["gpu0_temperature_c"])
    assert "NOT_SUPPORTED" in reader.reasons["gpu0_temperature_c"]
    assert not [name for name in columns if "sm_clock" in name or "throttle" in name], "rules of NVIDIA's do not apply"


def test_names_of_earlier_versions_are_read_too() -> None:
    _, columns = amd(
        power={"average_socket_power": 300, "gfx_voltage": 1},
        clock={"cur_clk": 1700},
        energy={"power": 10, "counter_resolution": 15.3, "timestamp": 1},
    )
    assert columns["gpu0_power_w"] == 300
    assert columns["gpu0_gfx_clock_mhz"] == 1700
    assert columns["gpu0_energy_j"] == pytest.approx(10 * 15.3 / 1e6)


@pytest.mark.parametrize(
    ("answers", "column"),
    [
        ({"power": {"socket_power": "N/A", "average_socket_power": "N/A"}}, "gpu0_power_w"),
        ({"power": AmdSmiLibraryException("busy")}, "gpu0_power_w"),
        ({"power": {}}, "gpu0_power_w"),
        ({"power": {"socket_power": -1}}, "gpu0_power_w"),
        ({"temperature": 71000}, "gpu0_hotspot_temperature_c"),
        ({"activity": {"gfx_activity": 65535}}, "gpu0_utilisation"),
        ({"activity": {"gfx_activity": True}}, "gpu0_utilisation"),
        ({"activity": {"gfx_activity": "N/A"}}, "gpu0_energy_j"),
        ({"vram": "N/A"}, "gpu0_memory_used_bytes"),
    ],
)
def test_no_reading_is_empty_with_its_reason_and_never_zero(answers: dict[str, Any], column: str) -> None:
    reader, columns = amd(**answers)
    assert math.isnan(columns[column])
    assert reader.reasons[column]


def test_zero_is_a_reading_of_an_idle_device() -> None:
    _, columns = amd(activity={"gfx_activity": 0})
    assert columns["gpu0_utilisation"] == 0.0


def test_devices_are_numbered_after_those_of_nvml() -> None:
    assert [device.name for device in amd_devices(2, AmdSmi(count=2))] == ["gpu2", "gpu3"]


def test_intel_power_is_the_growth_of_its_counter(tmp_path: Path) -> None:
    device = tmp_path / "card1" / "device"
    (device / "hwmon/hwmon2").mkdir(parents=True)
    (device / "vendor").write_text("0x8086\n")
    counter = device / "hwmon/hwmon2/energy1_input"
    counter.write_text("1000000\n")
    (tmp_path / "card1" / "gt_act_freq_mhz").write_text("2450\n")
    (tmp_path / "card1-DP-1").mkdir()
    clock = iter([0, 2 * SECOND, 4 * SECOND])
    reader = VendorReader(list(intel_devices(tmp_path, lambda: next(clock))))
    assert math.isnan(reader.read()["xpu0_power_w"]), "one value of a counter is no power"
    counter.write_text("201000000\n")
    columns = reader.read()
    assert columns["xpu0_power_w"] == pytest.approx(100.0)
    assert columns["xpu0_gfx_clock_mhz"] == 2450
    counter.write_text("5\n")
    assert math.isnan(reader.read()["xpu0_power_w"]), "a counter that went back"


def test_tpu_texts_are_numbers_of_their_chip() -> None:
    reader = VendorReader(list(tpu_devices(TpuMonitoring(hbm_capacity_usage=["1024", "N/A"]))))
    columns = reader.read()
    assert columns["tpu0_utilisation"] == pytest.approx(0.935)
    assert columns["tpu0_memory_used_bytes"] == 1024
    assert math.isnan(columns["tpu1_memory_used_bytes"])


def test_nothing_is_opened_where_nothing_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lynxbench.measure.vendor_readings.DRM", tmp_path)
    assert [reader for reader in open_vendors() if not reader.read()] == []


def telemetry(busy: float) -> Telemetry:
    at_ns = np.arange(100, dtype=np.int64) * SECOND
    columns = {
        "cpu_busy_foreign": np.zeros(100),
        "gpu0_utilisation": np.full(100, busy),
        "gpu0_energy_j": 500.0 * np.arange(100),
        "gpu0_untested": np.ones(100),
        "package_energy_j": 50.0 * np.arange(100),
    }
    return Telemetry(at_ns, columns)


@pytest.mark.parametrize(("busy", "said"), [(0.9, True), (0.0, False)])
def test_a_run_that_used_such_a_device_says_that_its_probe_is_untested(busy: float, said: bool) -> None:
    lines = judge_conditions(telemetry(busy), [(0, 99 * SECOND)], Protocol())
    assert any("untested on the real chip" in line for line in lines) is said


@pytest.mark.parametrize(("busy", "whose"), [(0.9, "gpu0"), (0.0, "package")])
def test_energy_is_of_such_a_device_only_where_it_worked(busy: float, whose: str) -> None:
    rows = Iterations(np.array([0]), np.array([99 * SECOND]), np.array([10]))
    marks = Marks(np.empty(0, np.int64), np.empty(0, np.int64))
    samples = ProcessSamples(0, "fp32", (0, 0), None, rows, marks)
    process = CountedProcess(samples, np.array([Phase.STEADY], np.int8))
    assert own_devices(telemetry(busy), [process])[0] == (whose,)
