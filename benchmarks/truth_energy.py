"""Energy with known truth: machines on which the run holds some devices, others idle, and neighbours work.

Every shape is a machine whose devices draw what is written here, read through counters as a driver offers them: once a
second, in steps, between other columns. The truth is what the run's own devices drew for a unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from lynxbench.measure.energy import energy_beside, energy_per_unit
from lynxbench.model.figures import Figure
from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry
from truth_promise import Promise

SECOND = 1_000_000_000
ERROR = 0.02
"""Of the figure: counters tick once a second, and a process is counted for a minute."""
UNITS_PER_S = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """Watts by device; which of them the run holds, and what the driver tells about that."""

    name: str
    watts: dict[str, float]
    own: tuple[str, ...]
    package_w: float | None = 150.0
    told: bool = True
    """Whether the driver names the run's processes; in a container it may not."""
    busy: dict[str, float] = field(default_factory=dict)
    """Utilisation, where it is not 0.9 for own devices and 0 for the others."""
    processes: int = 2
    swing: float = 0.1
    """Power moves by so much, slowly."""


def _idle(first: int, last: int, watts: float = 45.0) -> dict[str, float]:
    return {f"gpu{index}": watts for index in range(first, last + 1)}


MACHINES = (
    Machine("one of eight works, seven idle", {"gpu0": 350.0} | _idle(1, 7), ("gpu0",)),
    Machine("one of eight works, the driver names no process", {"gpu0": 350.0} | _idle(1, 7), ("gpu0",), told=False),
    Machine("two of eight work", {"gpu0": 600.0, "gpu1": 640.0} | _idle(2, 7), ("gpu0", "gpu1")),
    Machine("the last of four works", _idle(0, 2) | {"gpu3": 400.0}, ("gpu3",)),
    Machine("a neighbour works harder", {"gpu0": 120.0, "gpu1": 700.0}, ("gpu0",), busy={"gpu1": 1.0}),
    Machine("a neighbour on seven devices", {"gpu0": 90.0} | _idle(1, 7, 690.0), ("gpu0",),
            busy=dict.fromkeys(_idle(1, 7), 1.0)),
    Machine("one device, hardly busy", {"gpu0": 80.0}, ("gpu0",), busy={"gpu0": 0.03}),
    Machine("one device, no package counter", {"gpu0": 300.0}, ("gpu0",), package_w=None),
    Machine("the processor alone, no accelerator", {}, ("package",)),
    Machine("the processor alone, eight idle accelerators", _idle(0, 7), ("package",)),
    Machine("the processor alone, the driver names no process", _idle(0, 7), ("package",), told=False),
    Machine("a short process among others", {"gpu0": 350.0} | _idle(1, 7), ("gpu0",), processes=5, swing=0.3),
)  # fmt: skip


def _process(index: int, start_s: float, seconds: int) -> CountedProcess:
    starts = (np.arange(seconds * UNITS_PER_S) / UNITS_PER_S + start_s) * SECOND
    starts = starts.astype(np.int64)
    phase = np.full(len(starts), Phase.STEADY, dtype=np.int8)
    phase[: 5 * UNITS_PER_S] = Phase.WARMUP
    nothing = Marks(np.empty(0, np.int64), np.empty(0, np.int64))
    rows = Iterations(starts, starts + SECOND // UNITS_PER_S, np.ones(len(starts), dtype=np.int64))
    return CountedProcess(ProcessSamples(index, "fp32", (0, 0), None, rows, nothing), phase)


def _measured(machine: Machine, rng: np.random.Generator) -> tuple[Telemetry, list[CountedProcess], dict[str, float]]:
    """Telemetry and processes of one run, and the joules a unit that each device really drew while counting."""
    seconds = [int(rng.integers(40, 70)) for _ in range(machine.processes)]
    starts = np.cumsum([3.0, *(length + 4.0 for length in seconds)])[:-1]
    processes = [_process(i, s, n) for i, (s, n) in enumerate(zip(starts, seconds, strict=True))]
    at_s = np.arange(0.0, starts[-1] + seconds[-1] + 3, 0.1)
    slow = np.arange(len(at_s)) % 10 == int(rng.integers(10))
    columns: dict[str, np.ndarray] = {}
    truth: dict[str, float] = {}
    devices = dict(machine.watts) | ({} if machine.package_w is None else {"package": machine.package_w})
    for device, watts in devices.items():
        wave = 1 + machine.swing * np.sin(at_s / float(rng.uniform(5, 60)) + float(rng.uniform(0, 6)))
        joules = np.concatenate(([0.0], np.cumsum(watts * wave[:-1] * 0.1))) + 1e6
        each = []
        for start, length in zip(starts, seconds, strict=True):
            spent = np.interp(start + length, at_s, joules) - np.interp(start + 5, at_s, joules)
            each.append(spent / ((length - 5) * UNITS_PER_S))
        truth[device] = float(np.mean(each))
        read = np.floor(joules * 1e3) / 1e3
        columns[f"{device}_energy_j"] = read if device == "package" else np.where(slow, read, np.nan)
        if device != "package":
            held = float(device in machine.own) if machine.told else 0.0
            columns[f"{device}_own_processes"] = np.where(slow, held, np.nan)
            working = machine.busy.get(device, 0.9 if device in machine.own else 0.0)
            columns[f"{device}_utilisation"] = np.clip(working * rng.uniform(0.9, 1.1, len(at_s)), 0, 1)
    return Telemetry((at_s * SECOND).astype(np.int64), columns), processes, truth


def _error(said: Figure | None, real: float | None) -> float:
    """How far a figure is off; a figure of nothing, or none of something, is off for good."""
    if said is None or said.estimate is None or real is None:
        return 0.0 if said is None and real is None else np.inf
    return abs(said.estimate / real - 1)


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """The figure is the run's own devices', and what drew beside it stands apart."""
    rng = np.random.default_rng((seed, 9))
    few = max(20, runs // 4)
    for machine in MACHINES:
        errors, beside_errors, named = [], [], 0
        for _ in range(few):
            telemetry, processes, truth = _measured(machine, rng)
            figure, beside = (
                energy_per_unit(telemetry, processes, "unit"),
                energy_beside(telemetry, processes, "unit"),
            )
            own = sum(truth[device] for device in machine.own)
            errors.append(_error(figure, own))
            if beside is None:
                continue
            named += beside.devices == machine.own
            others = [device for device in truth if device not in (*machine.own, "package")]
            beside_errors.append(_error(beside.package_j_per_unit, truth.get("package")))
            beside_errors.append(_error(beside.other_devices_j_per_unit, sum(truth[d] for d in others) or None))
        worst = float(np.max(errors))
        words = f"joules a unit of the run's own devices, off by at most {ERROR:.0%}"
        yield Promise(f"energy: {machine.name}", words, worst, ERROR, worst <= ERROR)
        yield Promise(
            f"energy: {machine.name}", "its own devices are named in every run", named / few, 1.0, named == few
        )
        worst = float(np.max(beside_errors))
        words = f"package and other devices as figures of their own, off by at most {ERROR:.0%}"
        yield Promise(f"energy: {machine.name}", words, worst, ERROR, worst <= ERROR)
