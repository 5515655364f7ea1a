"""A server watched while clients ask it: its own series beside the machine's, by a process that sends no load."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from lynxbench.attribute.attributing import WatchedServer
from lynxbench.attribute.judge.server_figures import DeviceCondition
from lynxbench.attribute.tile.served_series import Span
from lynxbench.errors import BadResult
from lynxbench.executor.server import Address, CapturedServer, read_metrics
from lynxbench.measure.device_activity import SOURCE, device_activity
from lynxbench.measure.device_conditions import LOCKED_CLOCK, LOWERED_LIMIT, NEIGHBOUR, device_findings
from lynxbench.measure.server_readings import MetricsReader, ThreadReader
from lynxbench.measure.telemetry import ReadingsSampler, TelemetryReader, read_telemetry
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.samples import Telemetry

SERVER_FILE = "server.csv"
"""Beside the telemetry, in its form and on its clock."""
INTERVAL_S = 0.5
"""A request takes seconds, and a look some milliseconds of the server's front end (10 ms on vLLM 0.26): twice a second
costs it two hundredths of a core."""


@contextmanager
def watched_server(folder: Path, address: Address | None, server: CapturedServer) -> Iterator[None]:
    """Keep the server's series in the run's folder for as long as it is asked; None has no metrics at its address."""
    readers: list[TelemetryReader] = []
    if address is not None:
        readers.append(MetricsReader(lambda: read_metrics(address)))
    if server.process is not None:
        readers.append(ThreadReader(server.process.pid))
    with ReadingsSampler(folder / SERVER_FILE, readers, INTERVAL_S) if readers else nullcontext():
        yield


def server_series(folder: Path) -> Telemetry | None:
    """What was kept of a server; None where it was not watched, as in runs of earlier versions."""
    file = folder / SERVER_FILE
    if not file.exists():
        return None
    try:
        return read_telemetry(file)
    except BadResult:
        return None  # a run that died before its first line


def watched_of(
    folder: Path, executor: Executor, machine: Telemetry | None, spans: Sequence[Span], source: str = SOURCE
) -> WatchedServer | None:
    """What was kept of a server beside its requests, and of the devices that it runs on."""
    series = server_series(folder)
    if series is None:
        return None
    conditions: tuple[DeviceCondition, ...] = ()
    if machine is not None and len(machine.at_ns):
        seen = np.any([(machine.at_ns > start) & (machine.at_ns <= end) for start, end in spans], axis=0)
        findings = device_findings(machine, seen) if np.any(seen) else []
        conditions = tuple(DeviceCondition(CONDITIONS[each.cause], each.evidence, each.most) for each in findings)
    return WatchedServer(series, spans, launch_of(executor), device_activity(machine, spans, source), conditions)


CONDITIONS = {NEIGHBOUR: "neighbour", LOCKED_CLOCK: "clock", LOWERED_LIMIT: "power"}


def launch_of(executor: Executor) -> tuple[str, ...]:
    """The server's command line as its process shows it, else as it was declared."""
    fields = executor.layers.get(Layer.SERVING, {})
    for name in ("server_command", "server_launch"):
        field = fields.get(name)
        if field is not None and isinstance(field.value, list):
            return tuple(str(word) for word in field.value)
    return ()
