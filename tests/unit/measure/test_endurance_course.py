"""How a figure held: planted steps, drifts, throttling, leaks and gaps come out as planted, and calm runs show none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lynxbench.measure.endurance_course import describe_endurance
from lynxbench.measure.host_readings import inlet_file, read_celsius, resident_bytes
from lynxbench.measure.rolled import measure_rolled
from lynxbench.model.endurance import Endurance
from lynxbench.model.samples import Telemetry
from rolled_runs import NOON_NS, SECOND, endurance_contract, made_iterations, roll_up, rolled

CONTRACT = endurance_contract("20 min")
MB = 1 << 20
Speed = Callable[[np.ndarray], np.ndarray]


def described(
    folder: Path,
    speed: Speed = np.ones_like,
    telemetry: Telemetry | None = None,
    resident: Callable[[int], int] = lambda number: 100 * MB,
) -> Endurance:
    roll_up(folder, made_iterations(1200, seed=1, speed=speed), resident=resident)
    return describe_endurance(CONTRACT, measure_rolled(CONTRACT, rolled(folder), "call"), telemetry, "call")


def test_a_calm_run_is_steady_to_its_end_in_every_period(tmp_path: Path) -> None:
    endurance = described(tmp_path)
    assert endurance.measured_s == pytest.approx(1200, abs=1)
    assert endurance.steady_until_s == pytest.approx(1200, abs=1)
    assert len(endurance.periods) == 12
    assert endurance.gaps == ()
    assert all(period.throughput.estimate == pytest.approx(10, rel=0.01) for period in endurance.periods)  # type: ignore[union-attr]
    assert all(period.p50_ms == pytest.approx(100, rel=0.011) for period in endurance.periods)
    assert sum(period.iterations for period in endurance.periods) <= endurance.iterations
    assert endurance.excerpted >= 240 * 15


def test_a_step_late_in_the_run_ends_the_steady_state_where_it_happened(tmp_path: Path) -> None:
    endurance = described(tmp_path, lambda t: np.where(t < 800, 1.0, 0.9))
    assert endurance.steady_until_s is not None
    assert 600 <= endurance.steady_until_s <= 810
    assert endurance.worst_period in (8, 9, 10, 11)


def test_a_drift_from_the_start_was_never_steady_for_long(tmp_path: Path) -> None:
    endurance = described(tmp_path, lambda t: 1 - 0.2 * t / 1200)
    assert endurance.steady_until_s is None or endurance.steady_until_s < 200
    rates = [period.throughput.estimate for period in endurance.periods if period.throughput is not None]
    assert rates == sorted(rates, reverse=True)  # type: ignore[type-var]
    assert endurance.worst_period == 11


def test_a_leak_is_told_with_its_size_and_memory_that_settles_is_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    jitter = (rng.normal(0, 0.2, 2000) * MB).astype(int).tolist()
    leak = described(tmp_path / "leak", resident=lambda n: 100 * MB + n * MB // 10 + jitter[n]).memory
    assert leak is not None
    assert leak.growth_bytes.low <= 24 * MB <= leak.growth_bytes.high  # 240 slices of a tenth
    assert leak.growth_bytes.low > 20 * MB
    warm = described(tmp_path / "warm", resident=lambda n: 100 * MB + min(n, 10) * MB + jitter[n]).memory
    assert warm is not None
    assert abs(warm.growth_bytes.estimate) < MB
    assert warm.highest_bytes >= 109 * MB


def telemetry(**columns: Callable[[np.ndarray], np.ndarray]) -> Telemetry:
    at_s = np.arange(0, 1200, 0.2)
    begun_ns = NOON_NS + SECOND
    return Telemetry((begun_ns + at_s * 1e9).astype(np.int64), {name: make(at_s) for name, make in columns.items()})


def test_a_throttled_stretch_is_an_episode_with_what_it_cost(tmp_path: Path) -> None:
    hot = telemetry(gpu0_throttle_reasons=lambda t: np.where((t > 600) & (t < 700), 0x40, 0.0))
    endurance = described(tmp_path, lambda t: np.where((t > 600) & (t < 690), 0.8, 1.0), hot)
    (episode,) = endurance.episodes
    assert episode.from_s == pytest.approx(600, abs=2)
    assert episode.seconds == pytest.approx(100, abs=2)
    assert episode.rate == pytest.approx(0.82, abs=0.03)
    assert endurance.unwatched == ""


def test_a_clock_that_dips_for_a_minute_is_an_episode_and_one_that_jumps_is_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    dips = telemetry(cpu_clock_mhz=lambda t: np.where((t > 300) & (t < 360), 2500.0, 3000.0))
    assert [round(e.seconds) for e in described(tmp_path / "1", telemetry=dips).episodes] == [60]
    jumps = telemetry(cpu_clock_mhz=lambda t: 3000.0 - 400.0 * (rng.random(len(t)) < 0.1))
    assert described(tmp_path / "2", telemetry=jumps).episodes == ()


def test_a_power_cap_that_always_holds_is_the_regime_and_no_episode(tmp_path: Path) -> None:
    capped = telemetry(gpu0_throttle_reasons=lambda t: np.full(len(t), 4.0))
    assert described(tmp_path, telemetry=capped).episodes == ()


def test_a_machine_that_shows_neither_says_that_nothing_could_be_seen(tmp_path: Path) -> None:
    blind = telemetry(cpu_clock_mhz=lambda t: np.full(len(t), np.nan))
    assert "neither throttle reasons nor clocks" in described(tmp_path, telemetry=blind).unwatched


def test_gaps_and_stretches_are_told_with_their_reasons(tmp_path: Path) -> None:
    for number in range(3):
        begun = made_iterations(400, seed=number)
        offset_ns = NOON_NS + number * 500 * SECOND
        roll_up(tmp_path / str(number), begun, unix_offset_ns=offset_ns, killed=number < 2)
    process = rolled(*(tmp_path / str(n) for n in range(3)), ends=["killed by signal 9", "the machine was rebooted"])
    endurance = describe_endurance(CONTRACT, measure_rolled(CONTRACT, process, "call"), None, "call")
    assert [gap.why for gap in endurance.gaps] == ["killed by signal 9", "the machine was rebooted"]
    assert all(gap.seconds == pytest.approx(102.5, abs=3) for gap in endurance.gaps)
    assert endurance.gaps[0].from_s == pytest.approx(397.5, abs=3)
    assert [stretch.ended for stretch in endurance.stretches][-1] == "to its end"
    assert endurance.measured_s == pytest.approx(1195, abs=6)
    assert endurance.periods[-1].until_s > 1300  # by the clock, gaps included


def test_a_clock_of_day_that_was_set_back_gives_no_negative_gap(tmp_path: Path) -> None:
    roll_up(tmp_path / "1", made_iterations(400, seed=1))
    roll_up(tmp_path / "2", made_iterations(400, seed=2), unix_offset_ns=NOON_NS + 300 * SECOND)
    result = measure_rolled(CONTRACT, rolled(tmp_path / "1", tmp_path / "2", ends=["killed"]), "call")
    assert [gap.seconds for gap in describe_endurance(CONTRACT, result, None, "call").gaps] == [0.0]


def test_the_inlet_is_a_sensor_that_calls_itself_that(tmp_path: Path) -> None:
    def sensor(name: str, label: str, reading: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "temp1_label").write_text(f"{label}\n")
        (folder / "temp1_input").write_text(reading)

    assert inlet_file(tmp_path) is None
    sensor("hwmon0", "Core 0", "71000")
    assert inlet_file(tmp_path) is None
    sensor("hwmon1", "Inlet Temp", "23500")
    assert read_celsius(inlet_file(tmp_path)) == 23.5
    assert read_celsius(None) is None
    process = rolled_with_inlet(tmp_path / "run", (22.0, 24.0))
    inlet = describe_endurance(CONTRACT, process, None, "call").inlet
    assert inlet is not None
    assert (inlet.lowest_c, inlet.highest_c) == (22.0, 24.0)


def rolled_with_inlet(folder: Path, readings: tuple[float, float]):  # type: ignore[no-untyped-def]
    roll_up(folder, made_iterations(1200, seed=1))
    process = rolled(folder)
    (stretch,) = process.stretches
    slices = tuple(
        each.model_copy(update={"inlet_c": readings[number % 2]}) for number, each in enumerate(stretch.slices)
    )
    return measure_rolled(CONTRACT, replace(process, stretches=(replace(stretch, slices=slices),)), "call")


def test_resident_memory_of_a_process_that_is_gone_is_unknown() -> None:
    assert resident_bytes(2**22 + 1) is None
