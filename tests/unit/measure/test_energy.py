"""Energy and governors from telemetry: between a counter's own readings, and only where a limit was really active."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.energy import counted_span_ns, energy_beside, energy_per_unit, find_governor
from lynxbench.model.activity import EnergyBeside
from lynxbench.model.figures import Figure
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


def _node(own: dict[int, float], busy: dict[int, float], watts: dict[int, float], package_w: float) -> Telemetry:
    """Counters of several GPUs; whose processes hold them (`own`, NaN: not readable) and how busy they are."""
    seconds = np.arange(300) / 5
    columns = {f"gpu{gpu}_energy_j": draw * seconds for gpu, draw in watts.items()}
    columns |= {f"gpu{gpu}_own_processes": np.full(300, share) for gpu, share in own.items()}
    columns |= {f"gpu{gpu}_utilisation": np.full(300, share) for gpu, share in busy.items()}
    return _telemetry(package_energy_j=package_w * seconds, **columns)


EIGHT = {0: 350.0} | dict.fromkeys(range(1, 8), 45.0)
"""Watts: one works and seven idle; at five units a second 70 J a unit, and 63 J that belong to nobody."""


@pytest.mark.parametrize(
    ("own", "busy", "how"),
    [
        ({0: 1.0} | dict.fromkeys(range(1, 8), 0.0), {}, "held by the run's own processes"),
        (dict.fromkeys(range(8), np.nan), {0: 0.9} | dict.fromkeys(range(1, 8), 0.0), "busy while counting"),
        (dict.fromkeys(range(8), 0.0), {0: 0.9} | dict.fromkeys(range(1, 8), 0.0), "busy while counting"),
    ],
)
def test_only_the_device_that_worked_counts_and_the_others_have_figures_of_their_own(
    own: dict[int, float], busy: dict[int, float], how: str
) -> None:
    telemetry = _node(own, busy, EIGHT, package_w=150.0)
    figure, beside = (read(telemetry, [_process()], "token") for read in (energy_per_unit, energy_beside))
    assert isinstance(figure, Figure)
    assert figure.estimate == pytest.approx(70)
    assert isinstance(beside, EnergyBeside)
    assert beside.devices == ("gpu0",)
    assert how in beside.how
    assert beside.package_j_per_unit is not None
    assert beside.package_j_per_unit.estimate == pytest.approx(30)
    assert beside.other_devices == tuple(f"gpu{gpu}" for gpu in range(1, 8))
    assert beside.other_devices_j_per_unit is not None
    assert beside.other_devices_j_per_unit.estimate == pytest.approx(63)


def test_a_neighbours_busy_device_is_not_the_runs_own() -> None:
    telemetry = _node({0: 1.0, 1: 0.0}, {0: 0.4, 1: 1.0}, {0: 100.0, 1: 700.0}, package_w=50.0)
    figure = energy_per_unit(telemetry, [_process()], "token")
    assert figure is not None
    assert figure.estimate == pytest.approx(20)


def test_several_devices_of_one_run_add_up() -> None:
    figure = energy_per_unit(
        _node({0: 1.0, 1: 1.0, 2: 0.0}, {}, dict.fromkeys(range(3), 100.0), 50.0), [_process()], "x"
    )
    assert figure is not None
    assert figure.estimate == pytest.approx(40)


@pytest.mark.parametrize("gpus", [0, 2])
def test_without_a_busy_accelerator_the_package_is_the_device(gpus: int) -> None:
    idle = dict.fromkeys(range(gpus), 0.0)
    telemetry = _node(idle, idle, dict.fromkeys(range(gpus), 45.0), package_w=50.0)
    figure, beside = (read(telemetry, [_process()], "token") for read in (energy_per_unit, energy_beside))
    assert isinstance(figure, Figure)
    assert figure.estimate == pytest.approx(10)
    assert isinstance(beside, EnergyBeside)
    assert beside.devices == ("package",)


def test_an_own_device_without_a_readable_counter_leaves_no_figure() -> None:
    telemetry = _node({0: 1.0, 1: 1.0}, {}, {0: 100.0, 1: np.nan}, package_w=50.0)
    assert energy_per_unit(telemetry, [_process()], "token") is None


def test_evidence_without_the_identity_of_devices_says_that_it_is_all_of_them() -> None:
    telemetry = _node({}, {}, EIGHT, package_w=150.0)
    figure, beside = (read(telemetry, [_process()], "token") for read in (energy_per_unit, energy_beside))
    assert isinstance(figure, Figure)
    assert figure.estimate == pytest.approx(133)
    assert isinstance(beside, EnergyBeside)
    assert "all accelerators" in beside.how
    before = energy_per_unit(telemetry, [_process()], "token", every_device=True)
    assert before is not None
    assert before.estimate == pytest.approx(163)  # as results of earlier editions: the package is in it


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
