"""Energy and governors from telemetry: between a counter's own readings, and only where a limit was really active."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.energy import counted_span_ns, energy_per_unit, find_governor
from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry

SECOND = 1_000_000_000


def _process(seconds: int = 60, warm_up: int = 10) -> CountedProcess:
    starts = np.arange(seconds, dtype=np.int64) * SECOND
    phase = np.full(seconds, Phase.STEADY, dtype=np.int8)
    phase[:warm_up] = Phase.WARMUP
    nothing = Marks(np.empty(0, np.int64), np.empty(0, np.int64))
    rows = Iterations(starts, starts + SECOND, np.full(seconds, 5, dtype=np.int64))
    return CountedProcess(ProcessSamples(0, "fp32", (0, 0), None, rows, nothing), phase)


def _telemetry(**columns: np.ndarray) -> Telemetry:
    return Telemetry(np.arange(0, 60 * SECOND, SECOND // 5, dtype=np.int64), columns)


def test_the_counted_span_leaves_out_warm_up() -> None:
    assert counted_span_ns(_process()) == (10 * SECOND, 60 * SECOND)


def test_joules_per_unit_from_a_counter_that_is_read_rarely() -> None:
    seconds = np.arange(300) / 5
    counter = np.where(np.arange(300) % 10 == 0, 1000 + 100 * seconds, np.nan)  # 100 W, read every two seconds
    figure = energy_per_unit(_telemetry(gpu0_energy_j=counter), [_process()], "token")
    assert figure is not None
    assert figure.estimate == pytest.approx(20)
    assert figure.unit == "J/token"


def test_devices_add_up() -> None:
    seconds = np.arange(300) / 5
    both = _telemetry(gpu0_energy_j=100 * seconds, package_energy_j=50 * seconds)
    found = energy_per_unit(both, [_process()], "token")
    assert found is not None
    assert found.estimate == pytest.approx(30)


def test_no_counter_or_too_short_a_run_gives_no_figure() -> None:
    assert energy_per_unit(None, [_process()], "token") is None
    assert energy_per_unit(_telemetry(cpu_busy=np.zeros(300)), [_process()], "token") is None
    assert energy_per_unit(_telemetry(gpu0_energy_j=np.full(300, np.nan)), [_process()], "token") is None
    short = _process(seconds=15, warm_up=10)
    assert energy_per_unit(_telemetry(gpu0_energy_j=np.arange(300.0)), [short], "token") is None


def test_the_limit_that_was_active_governs() -> None:
    spans = [counted_span_ns(_process())]
    capped = np.full(300, 0.0)
    capped[100:] = 4.0
    found = find_governor(_telemetry(gpu0_throttle_reasons=capped), spans)
    assert found is not None
    assert found.cause == "software power cap"
    assert "80%" in found.evidence
    rarely = np.full(300, 0.0)
    rarely[100:103] = 4.0
    assert find_governor(_telemetry(gpu0_throttle_reasons=rarely), spans) is None
    assert find_governor(None, spans) is None
