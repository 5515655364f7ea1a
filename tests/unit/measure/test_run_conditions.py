"""Reasons for doubt from telemetry made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.measure.validity import judge_settings
from lynxbench.model.contract import Protocol
from lynxbench.model.executor import Executor, measured
from lynxbench.model.layers import Layer
from lynxbench.model.samples import Telemetry

SECOND = 10**9
ROWS = 60
SPANS = [(0, 30 * SECOND), (40 * SECOND, 60 * SECOND)]


def telemetry(**columns: object) -> Telemetry:
    """One row a second; quiet unless a column says otherwise."""
    quiet: dict[str, object] = {
        "cpu_busy_foreign": 0.01,
        "cpu_steal": 0.0,
        "cpu_clock_mhz": 3000.0,
        "memory_available_bytes": 8 * 2**30,
        "memory_total_bytes": 16 * 2**30,
        "swap_in_pages": 5.0,
        "swap_out_pages": 0.0,
        "memory_stalled_us": 0.0,
        "process_major_faults": 120.0,
        "gpu0_sm_clock_mhz": 1980.0,
        "gpu0_throttle_reasons": 0.0,
        "gpu0_power_violation_ns": 1e12,
    }
    filled = {
        name: np.broadcast_to(np.asarray(value, np.float64), ROWS).copy() for name, value in (quiet | columns).items()
    }
    return Telemetry(np.arange(1, ROWS + 1) * SECOND, filled)


def judge(**columns: object) -> list[str]:
    return judge_conditions(telemetry(**columns), SPANS, Protocol())


def during(start: int, end: int, value: float, other: float = 0.0) -> np.ndarray:  # type: ignore[type-arg]
    column = np.full(ROWS, other)
    column[start:end] = value
    return column


def test_a_quiet_machine_gives_no_reason() -> None:
    assert judge() == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"cpu_busy_foreign": 0.23}, "foreign load: other programs used 23 % of the CPUs"),
        ({"cpu_busy_foreign": 0.23, "cpu_steal": 0.1}, "10 % taken by the hypervisor"),
        ({"cpu_busy_foreign": np.nan}, "foreign load could not be read"),
        ({"gpu0_throttle_reasons": during(0, 15, 4)}, "gpu0 software power cap in 30 % of 50 samples"),
        ({"gpu0_throttle_reasons": 0x40 | 0x08}, "gpu0 hardware thermal slowdown in 100 %"),
        ({"gpu0_power_violation_ns": np.arange(ROWS) * 0.1e9}, "clocks held down by power for 4.8 of 50.0 s"),
        ({"cpu_clock_mhz": during(0, 12, 3000, 2700)}, "clock change: cpu between 2700 and 3000 MHz (10 %)"),
        ({"gpu0_sm_clock_mhz": during(40, 60, 1755, 1980)}, "gpu0 sm between 1755 and 1980 MHz (11 %)"),
        ({"memory_available_bytes": during(20, 21, 2**28, 2**33)}, "0.2 GiB (2 %) of memory were free"),
        ({"swap_out_pages": np.arange(ROWS) * 256.0}, "swapping: 48.0 MiB"),
        ({"memory_stalled_us": np.arange(ROWS) * 1e5}, "waited for memory for 4.8 of 50.0 s"),
        ({"process_major_faults": np.arange(ROWS) * 10.0}, "480 pages of the process came from disk"),
    ],
)
def test_each_disturbance_is_one_line_with_figures(columns: dict[str, object], said: str) -> None:
    lines = judge(**columns)
    assert any(said.replace(" %", "%") in line.replace(" %", "%") for line in lines), lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    "columns",
    [
        {"cpu_busy_foreign": during(31, 39, 1.0)},
        {"gpu0_throttle_reasons": during(31, 39, 4)},
        {"swap_out_pages": during(35, 60, 1000.0)},
        {"cpu_clock_mhz": during(30, 40, 1000, 3000)},
        {"gpu0_throttle_reasons": 0x1 | 0x2 | 0x10},
        {"cpu_clock_mhz": 3000 * (1 + 0.01 * np.sin(np.arange(ROWS)))},
        {"cpu_clock_mhz": np.nan},
    ],
)
def test_what_happens_outside_the_counted_time_or_within_bounds_does_not_count(columns: dict[str, object]) -> None:
    assert judge(**columns) == []


PAGED = np.arange(ROWS) * 10.0


@pytest.mark.parametrize(
    ("waited_us", "rules", "said"),
    [
        (np.arange(ROWS) * 9e3, 8, []),
        (
            np.arange(ROWS) * 5e4,
            8,
            ["480 pages of the process came from disk in 50.0 s counted; tasks waited 2.4 s for a disk"],
        ),
        (during(31, ROWS, 5e6), 8, []),  # between the counted spans
        (np.nan, 8, ["480 pages"]),
        (np.where(np.arange(ROWS) < 35, 0.0, np.nan), 8, ["480 pages"]),  # of the second span nothing is known
        (np.arange(ROWS) * 9e3, 7, ["480 pages of the process came from disk in 50.0 s counted"]),
    ],
)
def test_pages_from_a_disk_are_a_doubt_unless_nobody_waited_for_them(
    waited_us: object, rules: int, said: list[str]
) -> None:
    read = telemetry(process_major_faults=PAGED, io_stalled_us=waited_us)
    lines = judge_conditions(read, SPANS, Protocol(), rules=rules)
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True)), lines
    assert rules >= 8 or all(line.endswith("counted") for line in lines)


def test_no_telemetry_is_said() -> None:
    nothing = Telemetry(np.empty(0, np.int64), {})
    assert judge_conditions(nothing, SPANS, Protocol()) == [
        "no telemetry covers the counted time: foreign load, clocks and memory are unknown"
    ]
    assert judge_conditions(nothing, [], Protocol()) == []


def test_a_limit_that_hardly_held_is_no_doubt_and_one_of_a_hundredth_is() -> None:
    rows, counted = 400, [(0, 400 * SECOND)]
    quiet = {"cpu_busy_foreign": np.zeros(rows), "gpu0_sm_clock_mhz": np.full(rows, 1980.0)}

    def judged(capped: int, held_s: float = 0.0) -> list[str]:
        reasons, held = np.zeros(rows), np.linspace(0.0, held_s * 1e9, rows)
        reasons[:capped] = 4
        columns = quiet | {"gpu0_throttle_reasons": reasons, "gpu0_power_violation_ns": held}
        return judge_conditions(Telemetry(np.arange(1, rows + 1) * SECOND, columns), counted, Protocol())

    assert judged(3) == []
    assert judged(4) == ["throttling: gpu0 software power cap in 1% of 400 samples while counting"]
    assert judged(0, held_s=3.9) == []
    assert judged(0, held_s=4.1) == ["throttling: gpu0 clocks held down by power for 4.1 of 400.0 s counted"]


def test_other_programs_are_somebodys_to_stop_and_earlier_editions_did_not_say_whose() -> None:
    loaded = telemetry(cpu_busy_foreign=0.23)
    (line,) = judge_conditions(loaded, SPANS, Protocol(), {Layer.SYSTEM: "node team"}.__getitem__)
    (earlier,) = judge_conditions(loaded, SPANS, Protocol(), {Layer.SYSTEM: "node team"}.__getitem__, rules=3)
    assert line == f"{earlier} (layer system, node team)"


@pytest.mark.parametrize(("value", "doubted"), [("1", True), ("0", False), ("", False), (None, False)])
def test_launches_that_block_are_a_doubt_with_its_owner(value: str | None, doubted: bool) -> None:
    variables = {} if value is None else {"CUDA_LAUNCH_BLOCKING": value}
    executor = Executor(layers={Layer.SYSTEM: {"environment": measured(variables, "environ")}})
    found = judge_settings(executor, {Layer.SYSTEM: "node team"}.__getitem__)
    assert [doubt.reason.endswith("(layer system, node team)") and not doubt.void for doubt in found] == [
        True
    ] * doubted
