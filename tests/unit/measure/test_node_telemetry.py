"""What kept readings of a node may be judged by: repeats, gaps, counters that went back, known truth."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.energy import find_governor
from lynxbench.measure.node_telemetry import NodeTelemetry, node_doubts, node_telemetry
from lynxbench.measure.run_conditions import judge_devices, judge_host
from lynxbench.model.node_record import NodeNotes
from lynxbench.model.samples import Telemetry

SECOND = 1_000_000_000
NOTES = NodeNotes(source="scraped from gpu-7:9400", devices={"gpu0": "NVIDIA H200"})
COUNTED = [(0, 100 * SECOND)]


def kept(step_s: float = 1.0, seconds: int = 120, watts: float = 500.0, **columns: np.ndarray) -> Telemetry:
    """A device looked at every second from 10 s before the counted time on, by an exporter that looks every step."""
    at_s = np.arange(-10.0, seconds - 10.0)
    looked_s = np.floor(at_s / step_s) * step_s
    made = {"gpu0_energy_j": 1e6 + watts * (looked_s + 100), "gpu0_power_w": np.full(len(at_s), watts)}
    return Telemetry((at_s * SECOND).astype(np.int64), made | columns)


def judged(telemetry: Telemetry, notes: NodeNotes = NOTES) -> NodeTelemetry:
    return node_telemetry(telemetry, notes, COUNTED)


def test_values_shown_again_are_no_readings() -> None:
    node = judged(kept(step_s=10.0))
    assert node.record.every_s == pytest.approx(10.0)
    assert node.record.readings == 12
    assert node.record.covered == pytest.approx(1.0)
    assert node_doubts(node.record) == []


def test_without_a_counter_nobody_can_tell_and_it_is_said() -> None:
    telemetry = kept()
    del telemetry.columns["gpu0_energy_j"]
    node = judged(telemetry)
    assert node.record.readings == 120
    assert any("cannot be told" in note for note in node.record.notes)


def test_energy_of_a_counter_that_is_read_too_rarely_is_not_said() -> None:
    assert np.isfinite(judged(kept(step_s=5.0)).devices.columns["gpu0_energy_j"]).any()
    rare = judged(kept(step_s=30.0))
    assert not np.isfinite(rare.devices.columns["gpu0_energy_j"]).any()
    assert any("looks every 30 s" in note for note in rare.record.notes)


def test_a_counter_that_went_back_gives_no_energy_even_where_it_ends_higher() -> None:
    telemetry = kept()
    energy = telemetry.columns["gpu0_energy_j"].copy()
    energy[60:] -= 2_000  # 4 s of work are lost in the middle; the end is far above the beginning
    node = judged(kept(gpu0_energy_j=energy))
    assert not np.isfinite(node.devices.columns["gpu0_energy_j"]).any()
    assert any("went back while counting" in note for note in node.record.notes)


def test_a_counter_that_went_back_before_the_counted_time_is_none_the_worse() -> None:
    energy = kept().columns["gpu0_energy_j"].copy()
    energy[:5] += 1e9
    assert np.isfinite(judged(kept(gpu0_energy_j=energy)).devices.columns["gpu0_energy_j"]).all()


def test_an_exporter_that_died_covers_what_it_saw() -> None:
    alive = kept(seconds=50)  # until 40 s into the counted time
    node = judged(alive)
    assert 0.40 <= node.record.covered <= 0.43
    assert any("none came after it" in note for note in node.record.notes)
    assert "covers 4" in node_doubts(node.record)[0]


def test_an_exporter_that_answers_with_frozen_values_is_dead_too() -> None:
    telemetry = kept()
    energy = telemetry.columns["gpu0_energy_j"].copy()
    energy[50:] = energy[50]
    node = judged(kept(gpu0_energy_j=energy))
    assert node.record.covered < 0.5
    assert node_doubts(node.record)


def test_nothing_at_all_is_said() -> None:
    node = judged(Telemetry(np.empty(0, np.int64), {}))
    assert node.record.covered == 0.0
    assert node.record.readings == 0
    assert "no reading of a device came" in node.record.notes
    assert node_doubts(node.record)


def test_what_several_answered_in_turn_is_not_used() -> None:
    node = judged(kept(gpu1_power_w=np.full(120, 90.0)), NOTES.model_copy(update={"mixed": ("gpu0",)}))
    assert not [name for name in node.devices.columns if name.startswith("gpu0_")]
    assert "gpu1_power_w" in node.devices.columns
    assert any("several answered" in note for note in node.record.notes)


def test_limits_of_the_device_are_judged_as_our_own_readings_are() -> None:
    reasons = np.where(np.arange(120) % 2 == 0, 0x40, 0).astype(float)
    node = judged(kept(gpu0_throttle_reasons=reasons))
    lines = judge_devices(node.devices, node.spans(COUNTED))
    assert any(line.startswith("throttling: gpu0 hardware thermal slowdown in 5") for line in lines)
    governor = find_governor(node.devices, node.spans(COUNTED))
    assert governor is not None
    assert governor.cause == "hardware thermal slowdown"
    assert node.record.throttled["gpu0 hardware thermal slowdown"] == pytest.approx(0.5, abs=0.02)


def test_a_reading_that_may_be_older_than_the_counted_time_is_not_counted() -> None:
    """The exporter looks every 10 s; what is seen first in the counted time was read before the load."""
    reasons = np.zeros(120)
    reasons[10:20] = 0x40  # shown from 0 s to 10 s
    node = judged(kept(step_s=10.0, gpu0_throttle_reasons=reasons))
    assert judge_devices(node.devices, node.spans(COUNTED)) == []


def test_shares_of_the_cpus_come_from_their_counters() -> None:
    at_s = np.arange(0.0, 100.0)
    total, free = 2 * at_s, 2 * at_s * 0.7
    total[50:] -= 40.0  # the exporter's host was started anew
    free[50:] -= 28.0
    columns = {"cpu_total_s": total, "cpu_free_s": free, "cpu_steal_s": at_s * 0.1}
    node = judged(Telemetry((at_s * SECOND).astype(np.int64), columns))
    busy = node.host.columns["cpu_busy"]
    known = busy[np.isfinite(busy)]
    assert known == pytest.approx(0.3)
    assert np.isnan(busy[50])
    assert "cpu_total_s" not in node.host.columns


def test_memory_pressure_of_the_host_is_a_line() -> None:
    at_s = np.arange(0.0, 100.0)
    columns = {"memory_available_bytes": np.full(100, 1e8), "memory_total_bytes": np.full(100, 1e10)}
    host = judged(Telemetry((at_s * SECOND).astype(np.int64), columns)).host
    assert any(line.startswith("memory pressure") for line in judge_host(host, COUNTED))
