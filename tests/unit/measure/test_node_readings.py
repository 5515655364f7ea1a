"""Readings of a node by its exporters: units, and everything that must not become a reading."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from exporters import device_lines, host_lines
from lynxbench.measure.exposition import parse_exposition
from lynxbench.measure.node_readings import BEGINNINGS, NodeReader, NodeReading, read_samples


def read(text: str, gpus: tuple[int, ...] | None = None) -> NodeReading:
    return read_samples(parse_exposition(text, BEGINNINGS).samples, gpus)


def test_units_become_those_of_our_own_readings() -> None:
    reading = read(device_lines(energy_mj=5_000_000_500, reasons=0x4) + host_lines(100.0))
    columns = reading.columns
    assert columns["gpu0_power_w"] == 612.5
    assert columns["gpu0_energy_j"] == pytest.approx(5_000_000.5)
    assert columns["gpu0_sm_clock_mhz"] == 1980
    assert columns["gpu0_utilisation"] == pytest.approx(0.97)
    assert columns["gpu0_memory_used_bytes"] == 120000 * 2**20
    assert columns["gpu0_throttle_reasons"] == 4
    assert columns["gpu0_gpm_dram"] == 0.62
    assert columns["cpu_clock_mhz"] == pytest.approx(3100)
    assert columns["cpu_total_s"] == pytest.approx(200.0)
    assert columns["memory_available_bytes"] == 1.2e10
    assert reading.models == {"gpu0": "NVIDIA H200"}
    assert not reading.left_out


def test_times_of_violation_have_no_certain_unit_and_are_not_taken() -> None:
    assert not [name for name in read(device_lines()).columns if "violation" in name]


@pytest.mark.parametrize("model", ["NVIDIA A100-SXM4-80GB", "Tesla T4", "", "NVIDIA H1000X"])
def test_profiling_ratios_of_other_chips_are_shown_and_judge_nothing(model: str) -> None:
    columns = read(device_lines(model=model)).columns
    assert columns["gpu0_prof_dram"] == 0.62
    assert not [name for name in columns if "_gpm_" in name]


def test_a_line_without_its_device_is_no_reading() -> None:
    reading = read('DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1"} 300\nDCGM_FI_DEV_POWER_USAGE 300\n')
    assert not reading.columns
    assert reading.left_out == {"DCGM_FI_DEV_POWER_USAGE does not say of which device it is (label gpu)": 2}


def test_two_values_of_one_device_are_none_and_equal_ones_are_one() -> None:
    twice = 'DCGM_FI_DEV_POWER_USAGE{{gpu="0",pod="a"}} 300\nDCGM_FI_DEV_POWER_USAGE{{gpu="0",pod="b"}} {}\n'
    assert read(twice.format(300)).columns == {"gpu0_power_w": 300.0}
    differing = read(twice.format(301))
    assert not differing.columns
    assert differing.left_out == {"DCGM_FI_DEV_POWER_USAGE has several values of one device at once": 1}


def test_lines_of_several_nodes_are_of_no_device() -> None:
    reading = read(device_lines(uuid="a") + device_lines(uuid="b") + device_lines(1))
    assert not [name for name in reading.columns if name.startswith("gpu0_")]
    assert reading.columns["gpu1_power_w"] == 612.5
    assert any("lines of several nodes" in reason for reason in reading.left_out)


def test_a_part_of_a_device_is_not_the_device() -> None:
    reading = read(device_lines(extra=',GPU_I_PROFILE="1g.18gb",GPU_I_ID="7"'))
    assert not reading.columns
    assert any("MIG" in reason for reason in reading.left_out)


@pytest.mark.parametrize(
    "value", ["2147483632", "2147483634", "9223372036854775794", "140737488355328", "NaN", "+Inf", "-1", "100001"]
)
def test_a_mark_for_no_value_is_no_power(value: str) -> None:
    reading = read(f'DCGM_FI_DEV_POWER_USAGE{{gpu="0"}} {value}\n')
    assert not reading.columns
    assert sum(reading.left_out.values()) == 1


def test_zero_is_a_reading() -> None:
    assert read('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 0\n').columns == {"gpu0_utilisation": 0.0}


@pytest.mark.parametrize("line", ['DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 81', 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 9700'])
def test_a_share_in_another_unit_is_outside_of_what_it_can_be(line: str) -> None:
    assert not read(line + "\n").columns


def test_only_the_named_devices_are_read() -> None:
    reading = read(device_lines(0) + device_lines(1), gpus=(1,))
    assert {name[:4] for name in reading.columns} == {"gpu1"}
    assert set(reading.models) == {"gpu1"}


def test_the_same_cpu_twice_is_no_sum() -> None:
    line = 'node_cpu_seconds_total{cpu="0",mode="idle"} 5\n'
    reading = read(line + line)
    assert "cpu_free_s" not in reading.columns
    assert reading.left_out["node_cpu_seconds_total has lines twice"] == 2  # for the whole and for what was free


def failing() -> str:
    raise OSError("connection refused")


def test_an_exporter_that_dies_leaves_empty_columns_and_its_reason() -> None:
    texts: list[Callable[[], str]] = [device_lines, failing, device_lines]

    def scrape() -> str:
        return texts.pop(0)()

    reader = NodeReader({"gpu-7:9400": scrape}, clock=lambda: 0, wall=lambda: 0)
    first, second, third = reader.read(), reader.read(), reader.read()
    assert first["gpu0_power_w"] == third["gpu0_power_w"] == 612.5
    assert list(second) == list(first)
    assert all(math.isnan(value) for value in second.values())
    assert (reader.asked, reader.unanswered["gpu-7:9400"]) == (3, 1)
    assert "refused" in reader.why["gpu-7:9400"]


def test_an_address_behind_which_nodes_take_turns_is_noticed() -> None:
    uuids = iter("aba")
    reader = NodeReader({"gpus:9400": lambda: device_lines(uuid=next(uuids))})
    for _ in range(3):
        reader.read()
    assert reader.mixed == ("gpu0",)


def test_the_clock_of_the_node_is_told() -> None:
    reader = NodeReader({"n": lambda: host_lines(5.0, now_s=1002.5)}, clock=lambda: 0, wall=lambda: 1_000_000_000_000)
    reader.read()
    assert reader.skews_s == [pytest.approx(2.5)]
