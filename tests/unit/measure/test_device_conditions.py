"""Neighbours, locked clocks and lowered limits of a device, from telemetry made by hand with the cause known."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.device_conditions import LOCKED_CLOCK, LOWERED_LIMIT, NEIGHBOUR, device_findings
from lynxbench.measure.energy import find_governor
from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.model.contract import Protocol
from lynxbench.model.layers import Layer
from lynxbench.model.samples import Telemetry

ROWS = 300
TENTH = 10**8
COUNTED = (100 * TENTH, 300 * TENTH)
"""Ten seconds before it nobody of the run is alive."""


def telemetry(**columns: object) -> Telemetry:
    """Ten rows a second of a device at full clock, capped by nothing; slow columns are read once a second."""
    healthy: dict[str, object] = {
        "cpu_busy_own": np.where(np.arange(ROWS) < 80, np.nan, 0.1),
        "cpu_busy_foreign": 0.0,
        "gpu0_utilisation": np.where(np.arange(ROWS) < 90, 0.0, 0.99),
        "gpu0_sm_clock_mhz": 1980.0,
        "gpu0_sm_clock_max_mhz": slow(1980.0),
        "gpu0_power_w": 400.0,
        "gpu0_power_limit_w": 700.0,
        "gpu0_power_limit_default_w": slow(700.0),
        "gpu0_temperature_c": 45.0,
        "gpu0_temperature_limit_c": slow(87.0),
        "gpu0_throttle_reasons": 0.0,
        "gpu0_own_processes": slow(1.0),
    }
    filled = {
        name: np.broadcast_to(np.asarray(value, np.float64), ROWS).copy() for name, value in (healthy | columns).items()
    }
    return Telemetry(np.arange(1, ROWS + 1) * TENTH, filled)


def slow(value: float, start: int = 0, end: int = ROWS) -> np.ndarray:  # type: ignore[type-arg]
    """Once a second within rows, NaN otherwise."""
    rows = np.arange(ROWS)
    return np.where((rows % 10 == 0) & (rows >= start) & (rows < end), value, np.nan)


def findings(**columns: object) -> list[tuple[str, str]]:
    seen = np.arange(ROWS) >= 100
    return [(each.cause, each.evidence) for each in device_findings(telemetry(**columns), seen)]


LOCKED = {"gpu0_sm_clock_mhz": 600.0, "gpu0_power_w": 262.0}
LOWERED = {
    "gpu0_power_limit_w": 350.0,
    "gpu0_power_w": 347.0,
    "gpu0_throttle_reasons": 4.0,
    "gpu0_sm_clock_mhz": np.where(np.arange(ROWS) % 3 == 0, 750.0, 795.0),
}


def test_a_healthy_device_has_no_finding() -> None:
    assert findings() == []


def test_a_neighbour_is_named_with_its_share() -> None:
    busy = {"gpu0_process_457_python3_bytes": slow(2.0**30), "gpu0_process_457_python3_sm": slow(0.5)}
    ((cause, evidence),) = findings(**busy)
    assert cause == NEIGHBOUR
    assert evidence == "python3 (process 457) was active for 50% of the counted time and held 1.0 GiB of gpu0"


def test_a_neighbour_that_comes_late_counts_for_the_time_it_was_there() -> None:
    late = {"gpu0_process_9_python3_bytes": slow(2.0**30, 250), "gpu0_process_9_python3_sm": slow(0.5, 250)}
    ((_, evidence),) = findings(**late)
    assert "active for 12% of the counted time" in evidence


def test_a_neighbour_whose_activity_cannot_be_read_is_named_all_the_same() -> None:
    ((_, evidence),) = findings(gpu0_process_7_hidden_bytes=slow(2.0**30), gpu0_process_7_hidden_sm=np.nan)
    assert evidence == "a process whose name is hidden (process 7) was there while counting and held 1.0 GiB of gpu0"


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(
            {"gpu0_process_4_python3_bytes": slow(2.0**30), "gpu0_process_4_python3_sm": slow(0.0)}, id="idle"
        ),
        pytest.param(
            {"gpu0_process_4_python3_bytes": slow(2.0**30, 0, 90), "gpu0_process_4_python3_sm": slow(0.9, 0, 90)},
            id="gone before counting",
        ),
        pytest.param(
            {
                "gpu1_process_4_python3_bytes": slow(2.0**30),
                "gpu1_process_4_python3_sm": slow(0.9),
                "gpu1_utilisation": 0.9,
                "gpu1_own_processes": slow(0.0),
            },
            id="on a device that idles for the run is somebody else's business",
        ),
    ],
)
def test_no_neighbour_is_blamed_who_took_nothing(columns: dict[str, object]) -> None:
    own_elsewhere = {**columns, "cpu_busy_own": 0.1} if "gpu1_utilisation" in columns else columns
    assert findings(**own_elsewhere) == []


def test_activity_before_the_run_is_somebody_elses_where_no_process_is_listed() -> None:
    ((cause, evidence),) = findings(gpu0_own_processes=slow(0.0), gpu0_utilisation=0.99)
    assert cause == NEIGHBOUR
    assert "99% busy in 80 readings while no process of this run was alive" in evidence


def test_the_runs_own_activity_just_before_is_not_held_against_anybody() -> None:
    rows = np.arange(ROWS)
    away = (rows >= 80) & (rows < 98)
    left_over = np.where(away & (rows >= 90), 0.0, 0.99)  # utilisation looks back a second
    assert (
        findings(gpu0_own_processes=slow(0.0), gpu0_utilisation=left_over, cpu_busy_own=np.where(away, np.nan, 1)) == []
    )


def test_a_locked_clock_is_told_from_a_power_cap() -> None:
    ((cause, evidence),) = findings(**LOCKED, gpu0_throttle_reasons=4.0)  # the driver calls it a power cap
    assert cause == LOCKED_CLOCK
    assert "600 of 1980 MHz" in evidence
    assert "262 of 700 W" in evidence


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({**LOCKED, "gpu0_power_w": 695.0}, id="power at its limit"),
        pytest.param({**LOCKED, "gpu0_temperature_c": 86.0}, id="heat at its limit"),
        pytest.param({**LOCKED, "gpu0_throttle_reasons": 8.0}, id="the board slowed down by itself"),
        pytest.param({**LOCKED, "gpu0_utilisation": 0.1}, id="too idle to tell"),
        pytest.param({**LOCKED, "gpu0_sm_clock_mhz": np.where(np.arange(ROWS) < 5, 1980.0, 600.0)}, id="once higher"),
        pytest.param({**LOCKED, "gpu0_sm_clock_mhz": np.linspace(900, 600, ROWS)}, id="not constant"),
        pytest.param({"gpu0_sm_clock_mhz": 1830.0}, id="a few steps below the highest"),
        pytest.param({**LOCKED, "gpu0_sm_clock_max_mhz": np.nan}, id="highest clock unknown"),
    ],
)
def test_a_clock_that_may_have_another_cause_is_not_called_locked(columns: dict[str, object]) -> None:
    assert LOCKED_CLOCK not in {cause for cause, _ in findings(**columns)}


def test_a_lowered_limit_is_named_where_it_was_reached() -> None:
    ((cause, evidence),) = findings(**LOWERED)
    assert cause == LOWERED_LIMIT
    assert "350 W, 50% of its default 700 W" in evidence
    assert findings(**{**LOWERED, "gpu0_power_w": 200.0}) == []
    assert findings(**{**LOWERED, "gpu0_power_limit_default_w": slow(350.0)}) == []


def test_settings_are_the_governor_and_a_doubt_with_its_owner() -> None:
    counted = [COUNTED]
    rising = np.arange(ROWS) * float(TENTH)
    locked = telemetry(**LOCKED, gpu0_power_violation_ns=rising, gpu0_thermal_violation_ns=rising)
    governor = find_governor(locked, counted)
    assert governor is not None
    assert governor.cause == LOCKED_CLOCK
    (line,) = judge_conditions(locked, counted, Protocol(), {Layer.SYSTEM: "node team"}.__getitem__)
    assert line.startswith("locked clock: gpu0 ran at 600 of 1980 MHz")
    assert line.endswith("(layer system, node team)")
    lowered = find_governor(telemetry(**LOWERED), counted)
    assert lowered is not None
    assert lowered.cause == LOWERED_LIMIT


FULL = {"gpu0_memory_used_bytes": 97 * 2.0**30, "gpu0_memory_total_bytes": slow(100 * 2.0**30)}


def test_an_idle_neighbour_is_named_where_it_leaves_no_memory() -> None:
    idle = {"gpu0_process_8_notebook_bytes": slow(90 * 2.0**30), "gpu0_process_8_notebook_sm": slow(0.0)}
    ((cause, evidence),) = findings(**idle, **FULL)
    assert cause == NEIGHBOUR
    assert evidence.startswith("notebook (process 8) was active for 0% of the counted time and held 90.0 GiB of gpu0")
    assert evidence.endswith("which left 3.0% of its memory free")
    assert findings(**idle, **(FULL | {"gpu0_memory_used_bytes": 91 * 2.0**30})) == [], "room enough is left"
    small = {"gpu0_process_8_notebook_bytes": slow(2.0**30), "gpu0_process_8_notebook_sm": slow(0.0)}
    assert findings(**small, **FULL) == [], "the run itself fills the memory"


def test_a_locked_memory_clock_is_named_and_one_that_others_hold_is_not() -> None:
    low = {"gpu0_memory_clock_mhz": 1593.0, "gpu0_memory_clock_max_mhz": slow(3201.0)}
    ((cause, evidence),) = findings(**low)
    assert (cause, "memory ran at 1593 of 3201 MHz" in evidence) == (LOCKED_CLOCK, True)
    for other in (
        {"gpu0_memory_clock_mhz": 3201.0},
        {"gpu0_memory_clock_max_mhz": np.nan},
        {"gpu0_throttle_reasons": 8.0},
        {"gpu0_utilisation": 0.1},
        {"gpu0_memory_clock_mhz": np.linspace(1500, 2500, ROWS)},
    ):
        assert LOCKED_CLOCK not in {cause for cause, _ in findings(**(low | other))}, other
