"""Figures from slices against the same figures from every sample; resumed, rebooted, stalled and stopped processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lynxbench.measure.precision_figures import measure_precision
from lynxbench.measure.rolled import RolledProcess, judge_rolled, measure_rolled, reading_interval_s
from lynxbench.model.samples import Iterations, Marks, Phase, ProcessSamples, Telemetry
from lynxbench.model.verdicts import SteadyVerdict
from rolled_runs import NOON_NS, SECOND, STEP_S, endurance_contract, made_iterations, roll_up, rolled

CONTRACT = endurance_contract()


def quiet_telemetry(process: RolledProcess, every_s: float = 0.2) -> Telemetry:
    at_ns = np.arange(process.starts_ns[0], process.ends_ns[-1], int(every_s * 1e9))
    columns = {"cpu_busy_foreign": 0.0, "memory_available_bytes": 1e10, "memory_total_bytes": 2e10}
    return Telemetry(at_ns, {name: np.full(len(at_ns), value) for name, value in columns.items()})


def test_rolled_up_figures_are_those_of_every_sample(tmp_path: Path) -> None:
    iterations = made_iterations(600, seed=1)
    roll_up(tmp_path, iterations)
    none = np.empty(0, np.int64)
    raw = ProcessSamples(0, "fp32", (0, SECOND), None, iterations, Marks(none, none))
    usual = measure_precision(CONTRACT, [raw], "call")
    result = measure_rolled(CONTRACT, rolled(tmp_path), "call").measured
    assert result.steady.verdict is usual.steady.verdict is SteadyVerdict.STEADY
    assert result.throughput.estimate == pytest.approx(usual.throughput.estimate, rel=2e-3)  # of counts cut elsewhere
    assert result.steady.counted_iterations <= len(iterations)
    assert result.steady.executed_s == pytest.approx(usual.steady.executed_s, rel=1e-9)
    for mine, theirs in zip(result.latency_ms["latency"][:4], usual.latency_ms["latency"][:4], strict=True):
        assert mine.estimate == pytest.approx(theirs.estimate, rel=0.011)  # the sketch's 0.5 %, and the cut
        assert mine.low is not None
        assert mine.high is not None
        assert mine.low <= theirs.estimate <= mine.high  # type: ignore[operator]


def test_counted_and_excluded_iterations_are_all_there_were(tmp_path: Path) -> None:
    slow_start = made_iterations(600, seed=2, speed=lambda t: np.where(t < 60, 0.6, 1.0))
    roll_up(tmp_path, slow_start)
    steady = measure_rolled(CONTRACT, rolled(tmp_path), "call").measured.steady
    assert steady.verdict is SteadyVerdict.STEADY
    assert sum(part.iterations for part in steady.excluded) + steady.counted_iterations == len(slow_start)
    assert sum(part.seconds for part in steady.excluded[2:]) >= 60
    assert steady.counted_s + sum(part.seconds for part in steady.excluded) == pytest.approx(steady.executed_s)


def test_a_rebooted_machine_s_clock_starts_anew_and_the_time_of_day_puts_its_slices_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    roll_up(first, made_iterations(300, seed=1, begun_ns=10**6 * SECOND), unix_offset_ns=NOON_NS, killed=True)
    later_ns = NOON_NS + 10**6 * SECOND + 400 * SECOND
    roll_up(second, made_iterations(300, seed=2, begun_ns=3 * SECOND), unix_offset_ns=later_ns)
    process = rolled(first, second, ends=["the machine was rebooted"])
    assert (np.diff(process.starts_ns) > 0).all()
    result = measure_rolled(CONTRACT, process, "call")
    gap_s = float(process.starts_ns[59] - process.ends_ns[58]) / 1e9
    assert 95 < gap_s < 115
    phases = result.measured.processes[0].phase
    assert phases[59] == Phase.WARMUP  # of the process that took over
    assert len(result.stretches) == 2
    assert result.measured.steady.verdict is SteadyVerdict.STEADY
    assert not judge_rolled(result, quiet_telemetry(process), CONTRACT, ())


def test_what_is_unlike_the_first_part_after_a_takeover_is_seen(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    roll_up(first, made_iterations(300, seed=1), killed=True)
    slower = made_iterations(300, seed=2, speed=lambda t: np.full_like(t, 0.9))
    roll_up(second, slower, unix_offset_ns=NOON_NS + 400 * SECOND)
    result = measure_rolled(CONTRACT, rolled(first, second, ends=["killed"]), "call")
    assert result.measured.steady.verdict is SteadyVerdict.NOT_STEADY
    assert result.measured.sustained is None


def with_pause(seconds: float) -> Iterations:
    usual = made_iterations(600, seed=4)
    later = np.where(np.arange(len(usual)) >= len(usual) // 2, int(seconds * 1e9), 0)
    return Iterations(usual.start_ns + later, usual.end_ns + later, usual.units)


def test_a_process_that_stood_still_or_stalled_is_doubted_and_a_calm_one_is_not(tmp_path: Path) -> None:
    def doubts(name: str, iterations: Iterations) -> str:
        roll_up(tmp_path / name, iterations)
        process = rolled(tmp_path / name)
        result = measure_rolled(CONTRACT, process, "call")
        return "; ".join(doubt.reason for doubt in judge_rolled(result, quiet_telemetry(process), CONTRACT, ()))

    assert doubts("calm", made_iterations(600, seed=3)) == ""
    assert "standstill: the process did nothing for 30.0 s" in doubts("stopped", with_pause(30))
    usual = made_iterations(600, seed=5)
    ends = usual.end_ns.copy()
    later = np.where(np.arange(len(ends)) >= 3000, 20 * SECOND, 0)
    stalled = Iterations(usual.start_ns + np.where(np.arange(len(ends)) > 3000, later, 0), ends + later, usual.units)
    assert "stalls: 1 iterations took more than 10 times the median" in doubts("stalled", stalled)


def test_telemetry_that_stopped_is_missed_and_telemetry_of_weeks_is_not(tmp_path: Path) -> None:
    roll_up(tmp_path, made_iterations(600, seed=6))
    process = rolled(tmp_path)
    result = measure_rolled(CONTRACT, process, "call")
    whole = quiet_telemetry(process)
    half = Telemetry(whole.at_ns[:1000], {name: column[:1000] for name, column in whole.columns.items()})
    assert any("telemetry has gaps" in doubt.reason for doubt in judge_rolled(result, half, CONTRACT, ()))
    assert any("no telemetry" in doubt.reason for doubt in judge_rolled(result, None, CONTRACT, ()))
    assert reading_interval_s(7200, 0.2) == 0.5
    assert reading_interval_s(600, 0.2) == 0.2
    weeks = endurance_contract("336 h")
    rare = quiet_telemetry(process, reading_interval_s(14 * 86_400, 0.2))
    assert not [d for d in judge_rolled(result, rare, weeks, ()) if "gaps" in d.reason]


def test_an_objective_is_judged_by_the_sketch(tmp_path: Path) -> None:
    roll_up(tmp_path, made_iterations(600, seed=7))
    for limit, verdict in ((STEP_S * 1.2, "met"), (STEP_S * 0.9, "missed")):
        bound = {"metric": "latency", "percentile": 90, "at_most": f"{limit * 1e3:g} ms"}
        strict = CONTRACT.model_validate(CONTRACT.canonical() | {"objective": {"slo": [bound]}}, strict=False)
        (outcome,) = measure_rolled(strict, rolled(tmp_path), "call").measured.slo
        assert outcome.verdict == verdict
