"""Columns find their panels by name."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.report.drawn_series import ProcessSpan, Track, tracks
from lynxbench.report.svg.telemetry_plot import draw_panels, is_drawn, label_of, panels


def track(name: str, *values: float) -> Track:
    return Track(name, np.arange(len(values), dtype=float), np.array(values))


@pytest.mark.parametrize(
    ("name", "panel", "unit"),
    [
        ("cpu_busy_own", "CPU busy", "%"),
        ("cpu_steal", "CPU busy", "%"),
        ("cpu_busy_foreign", "CPU busy", "%"),
        ("cpu_clock_mhz", "Clocks", "MHz"),
        ("gpu0_sm_clock_mhz", "Clocks", "MHz"),
        ("cpu_temperature_c", "Temperature", "°C"),
        ("gpu0_temperature_c", "Temperature", "°C"),
        ("gpu0_power_w", "Power", "W"),
        ("package_power_w", "Power", "W"),
        ("memory_used_bytes", "Memory", "GiB"),
        ("gpu0_memory_used_bytes", "GPU memory", "GiB"),
        ("gpu0_memory_clock_mhz", "Clocks", "MHz"),
        ("gpu0_memory_temperature_c", "Temperature", "°C"),
        ("process_resident_bytes", "Memory", "GiB"),
        ("gpu0_utilisation", "GPU busy", "%"),
        ("fan_rpm", "fan_rpm", ""),
    ],
)
def test_panels(name: str, panel: str, unit: str) -> None:
    (found,) = panels((track(name, 0.5, 0.5),))
    assert (found.title, found.unit) == (panel, unit)


def test_fractions_become_percent_and_percent_stays() -> None:
    assert panels((track("cpu_busy_own", 0.5, 1.0),))[0].tracks[0].values == pytest.approx([50, 100])
    assert panels((track("cpu_busy_percent", 0.5, 1.0),))[0].tracks[0].values == pytest.approx([0.5, 1.0])
    assert panels((track("gpu0_utilisation", 97.0, 98.0),))[0].tracks[0].values == pytest.approx([97, 98])


@pytest.mark.parametrize(
    "name", ["gpu0_throttle_reasons", "cpu_busy", "memory_stalled_us", "package_energy_j", "load_1min"]
)
def test_masks_counters_and_totals_get_no_line(name: str) -> None:
    assert not is_drawn(name)
    assert panels((track(name, 0, 4),)) == ()


def test_throttled_stretches_are_bands() -> None:
    held = track("gpu0 power cap", 0, 1, 1, 0, 1)
    picture = draw_panels(panels((track("cpu_busy_own", *[0.5] * 5),)), (held,), (), "Telemetry", 920)
    assert picture.count('class="throttle"') == 2
    assert "Throttling was seen: gpu0 power cap" in picture


def test_processes_stand_behind_the_lines(build) -> None:
    picture = draw_panels(panels(tracks(build.telemetry())), (), (ProcessSpan("int8", 10, 60),), "Telemetry", 920)
    assert ">int8<" in picture
    assert picture.count('class="phase"') == 3


def test_labels_drop_the_unit_that_the_axis_has() -> None:
    assert label_of("gpu0_sm_clock_mhz") == "gpu0 sm clock"
