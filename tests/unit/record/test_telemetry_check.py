"""Telemetry that contradicts itself: what no sampler writes is found, what a machine may show is accused of nothing."""

import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.errors import BadResult
from lynxbench.measure.telemetry import TelemetrySampler, read_stretches, read_telemetry
from lynxbench.model.verification import Check, CheckOutcome
from lynxbench.record.telemetry_check import check_telemetry

NAMES = (
    "cpu_busy",
    "cpu_busy_own",
    "cpu_busy_harness",
    "cpu_busy_foreign",
    "memory_used_bytes",
    "memory_available_bytes",
    "memory_total_bytes",
    "package_energy_j",
    "gpu0_memory_used_bytes",
    "gpu0_memory_total_bytes",
)
HEAD = ",".join(("at_ns", *NAMES))
Row = dict[str, float]


def honest(number: int, busy: float = 0.6, own: float = 0.4, harness: float = 0.05) -> Row:
    """A reading as the sampler makes it."""
    foreign = max(busy - (0.0 if math.isnan(own) else own) - harness, 0.0)
    used = 4_000_000_000 + 4096.0 * number
    return {
        "at_ns": 1_000_000_000 + 200_000_000 * number,
        "cpu_busy": busy,
        "cpu_busy_own": own,
        "cpu_busy_harness": harness,
        "cpu_busy_foreign": foreign,
        "memory_used_bytes": used,
        "memory_available_bytes": 16_000_000_000 - used,
        "memory_total_bytes": 16_000_000_000.0,
        "package_energy_j": 12.5 * number,
        "gpu0_memory_used_bytes": 1e9,
        "gpu0_memory_total_bytes": 8e9,
    }


def text(rows: list[Row]) -> str:
    def cell(value: float) -> str:
        return "" if math.isnan(value) else str(int(value)) if value == int(value) else f"{value:.9g}"

    return "".join(",".join(cell(row[name]) for name in ("at_ns", *NAMES)) + "\n" for row in rows)


def judge(tmp_path: Path, *stretches: list[Row]) -> Check:
    file = tmp_path / "telemetry.csv"
    file.write_text("".join(f"{HEAD}\n{text(rows)}" for rows in stretches))
    (check,) = check_telemetry(file)
    return check


def rows_of(count: int = 100, **more: float) -> list[Row]:
    return [honest(number, **more) for number in range(count)]


@pytest.mark.parametrize("own", [0.0, 0.4, 0.7, math.nan])
def test_what_a_sampler_writes_holds(tmp_path: Path, own: float) -> None:
    busy = 0.72 if own == 0.7 else 0.6  # own load and lynxbench's may exceed the whole by a tick
    assert judge(tmp_path, rows_of(busy=busy, own=own)).outcome is CheckOutcome.HOLDS


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 3), min_size=1, max_size=40))
def test_no_honest_sum_is_called_wrong(
    tmp_path_factory: pytest.TempPathFactory, shares: list[tuple[float, ...]]
) -> None:
    rows = [honest(number, *three) for number, three in enumerate(shares)]
    check = judge(tmp_path_factory.mktemp("t"), rows)
    assert check.outcome is not CheckOutcome.DOES_NOT_HOLD, check.why


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cpu_busy_foreign": 0.0}, "is not what own load and lynxbench's leave of cpu_busy at 9000000000"),
        ({"cpu_busy_own": 0.55}, "cpu_busy_foreign is not"),
        ({"cpu_busy": 0.45}, "cpu_busy_foreign is not"),
        ({"memory_used_bytes": 17e9}, "used and available memory are not the total at 9000000000 ns"),
        ({"memory_available_bytes": 15.9e9}, "used and available memory are not the total"),
        ({"at_ns": 1_000_000_000 + 200_000_000 * 39}, "its clock stands still or goes back at 8800000000 ns"),
        ({"at_ns": 5}, "its clock stands still or goes back at 5 ns"),
    ],
)  # fmt: skip
def test_a_reading_that_was_changed_is_found(tmp_path: Path, changed: Row, told: str) -> None:
    """Found: a cell that hides another's load, or a row that was put in, passed `verify` with everything around it."""
    rows = rows_of()
    rows[40] |= changed
    check = judge(tmp_path, rows)
    assert check.outcome is CheckOutcome.DOES_NOT_HOLD
    assert told in check.why


def test_rows_in_another_order_are_found(tmp_path: Path) -> None:
    rows = rows_of()
    rows[10], rows[11] = rows[11], rows[10]
    assert "its clock stands still or goes back" in judge(tmp_path, rows).why


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (rows_of(busy=0.3, own=0.9), "90% of the machine, of which 30% was busy: one of the two accounts is wrong"),
        (rows_of(busy=1.0, own=1.4), "took 140% of the machine"),
        ([{**row, "gpu0_memory_used_bytes": 9e9} for row in rows_of()], "gpu0_memory_used_bytes is more than there is"),
        ([{**row, "package_energy_j": -row["package_energy_j"]} for row in rows_of()], "package_energy_j, which only"),
    ],
)  # fmt: skip
def test_what_a_machine_may_get_wrong_is_told_and_accuses_nobody(tmp_path: Path, rows: list[Row], told: str) -> None:
    check = judge(tmp_path, rows)
    assert check.outcome is CheckOutcome.CANNOT
    assert told in check.why


def test_ticks_and_moments_are_no_contradiction(tmp_path: Path) -> None:
    """CPU times come in ticks, and are read one after another: a moment shows more own load than there is."""
    rng = np.random.default_rng(4)
    rows = [
        honest(n, busy=0.5 + 0.05 * rng.standard_normal(), own=0.48 + 0.05 * rng.standard_normal()) for n in range(99)
    ]
    assert judge(tmp_path, rows).outcome is CheckOutcome.HOLDS
    assert judge(tmp_path, rows_of(9, busy=0.2, own=0.9)).outcome is CheckOutcome.HOLDS, "too short to tell"


def test_a_resumed_run_begins_a_clock_of_its_own(tmp_path: Path) -> None:
    """A machine that was started again counts from zero, and so does its energy; a header stands between the two."""
    assert judge(tmp_path, rows_of(50), rows_of(60)).outcome is CheckOutcome.HOLDS
    file = tmp_path / "telemetry.csv"
    file.write_text(f"{HEAD}\n{text(rows_of(5))}12345,0.1\n\n{HEAD}\n{text(rows_of(5))}999,0.")
    assert [len(part.at_ns) for part in read_stretches(file)] == [5, 5], "what is torn is no reading"
    assert check_telemetry(file)[0].outcome is CheckOutcome.HOLDS
    assert len(read_telemetry(file).at_ns) == 10
    file.write_text("1,2\n")
    with pytest.raises(BadResult, match="no header line"):
        read_stretches(file)


def test_a_sampler_on_this_machine_holds(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.csv"
    with TelemetrySampler(file, interval_s=0.02) as sampler:
        sampler.watch(1)
        time.sleep(0.5)
    assert check_telemetry(file)[0].outcome is not CheckOutcome.DOES_NOT_HOLD
