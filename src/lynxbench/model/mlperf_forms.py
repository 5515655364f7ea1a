"""MLPerf's four scenarios as forms of a contract: which arrivals and bounds each asks for, and what it reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lynxbench.model.document import Document
from lynxbench.model.fields import refuse
from lynxbench.model.workload import ClosedArrival, PoissonArrival, Task, Workload

MULTI_STREAM_SAMPLES = 8
"""Samples of one MultiStream query."""


class MlperfForm(StrEnum):
    """A scenario of MLPerf inference."""

    SINGLE_STREAM = "single-stream"
    """One query after the other; the 90th percentile of its latency."""
    MULTI_STREAM = "multi-stream"
    """Eight samples in a query, one query after the other; the 99th percentile of a query's latency."""
    SERVER = "server"
    """Poisson arrivals; the scheduled samples a second at which every bound holds in the 99th percentile."""
    OFFLINE = "offline"
    """Everything at once; samples a second."""

    @property
    def percentile(self) -> float | None:
        """Whose latency it reports or bounds; None for offline."""
        return {"single-stream": 90.0, "multi-stream": 99.0, "server": 99.0}.get(self.value)

    @property
    def label(self) -> str:
        """As MLPerf writes it."""
        return {
            "single-stream": "SingleStream",
            "multi-stream": "MultiStream",
            "server": "Server",
            "offline": "Offline",
        }[self.value]


def refuse_unlike(form: MlperfForm, workload: Workload, bounds: int) -> None:
    """Refuse a contract that names a form and asks for another load."""
    arrival, key = workload.arrival, "objective.mlperf"
    one_by_one = isinstance(arrival, ClosedArrival) and arrival.concurrency == 1
    if form in (MlperfForm.SINGLE_STREAM, MlperfForm.MULTI_STREAM) and not one_by_one:
        refuse(f"{form} is one query after the other: arrival {{process: closed, concurrency: 1}}", key)
    if form is MlperfForm.SINGLE_STREAM and workload.batch != 1:
        refuse("single-stream asks one sample a query: workload.batch: 1", key)
    if form is MlperfForm.MULTI_STREAM and (workload.task is Task.GENERATE or workload.batch != MULTI_STREAM_SAMPLES):
        refuse(f"multi-stream asks {MULTI_STREAM_SAMPLES} samples in one query: task embed with workload.batch: 8", key)
    if form is MlperfForm.SERVER and not isinstance(arrival, PoissonArrival):
        refuse("server asks at Poisson moments: arrival {process: poisson, rate: …}", key)
    if form is MlperfForm.SERVER and not bounds:
        refuse("server needs a latency that its 99th percentile must keep: objective.slo", key)
    if form is MlperfForm.OFFLINE and not (isinstance(arrival, ClosedArrival) and arrival.concurrency > 1):
        refuse("offline has everything to do at once: arrival {process: closed, concurrency: 256} or more", key)


class EarlyStopping(Document):
    """MLPerf's rule on one latency of a run, at 99 % confidence."""

    metric: str
    percentile: float
    queries: int
    over: Annotated[int | None, Field(exclude_if=lambda over: over is None)] = None
    """Server: queries above the bound, failed ones among them."""
    at_most_ms: Annotated[float | None, Field(exclude_if=lambda at_most_ms: at_most_ms is None)] = None
    discarded: Annotated[int | None, Field(exclude_if=lambda discarded: discarded is None)] = None
    estimate_ms: float | None = None
    """SingleStream and MultiStream: the percentile's estimate; null where there are too few queries."""
    needed: int
    """More queries that would be needed, were each within its bound; 0 where the rule is satisfied."""


class MlperfFigures(Document):
    """What a reader of MLPerf looks for. It is not an MLPerf result."""

    form: MlperfForm
    metric: str
    value: float | None
    unit: str
    early_stopping: tuple[EarlyStopping, ...] = ()
    counted_s: float
    unlike: tuple[str, ...]
    """What MLPerf asks for and this run did not do."""
