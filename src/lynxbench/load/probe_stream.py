"""A running open-loop probe that can be asked for its next requests: what the saturation search is fed with."""

from collections.abc import Sequence
from time import perf_counter_ns, sleep

import numpy as np

from lynxbench.load.load_record import COLUMNS, LoadRecord, RequestEnd
from lynxbench.load.plan import LoadPlan, OpenLoop
from lynxbench.load.processes import RunningProbe
from lynxbench.model.contract import SloMetric
from lynxbench.model.samples import Float64, Int64

POLL_S = 0.05
_PLACE = {name: index for index, name in enumerate(COLUMNS)}


class ProbeStream:
    """One Poisson probe at one rate on fresh client processes; ends with its whole record."""

    def __init__(self, plan: LoadPlan, metrics: Sequence[SloMetric], patience_s: float) -> None:
        if not isinstance(plan.load, OpenLoop):
            raise TypeError("a saturation probe is an open loop")
        self._offsets_ns = plan.load.offsets_ns
        self._metrics = tuple(metrics)
        self._patience_ns = int(patience_s * 1e9)
        self._taken = 0
        self._began_ns = perf_counter_ns()
        self._probe = RunningProbe(plan)
        self.record: LoadRecord | None = None

    def take(self, requests: int) -> Float64:
        """Latencies of the next arrivals, a column a bound; infinite where one failed or is not answered in time."""
        first, last = self._taken, min(self._taken + requests, len(self._offsets_ns))
        self._taken = last
        until_ns = self._probe.start_ns + int(self._offsets_ns[last - 1]) + self._patience_ns if last > first else 0
        while True:
            rows = self._probe.rows()
            numbers = rows[:, _PLACE["number"]]
            mine = rows[(numbers >= first) & (numbers < last)]
            if len(mine) >= last - first or perf_counter_ns() > until_ns or not self._probe.running:
                break
            sleep(POLL_S)
        values = np.full((requests, len(self._metrics)), np.inf)
        place = mine[:, _PLACE["number"]] - first
        for column, metric in enumerate(self._metrics):
            values[place, column] = row_latency_s(mine, metric)
        return values

    def end(self) -> float:
        """Ask nothing more, let what is open finish, and gather the record; the seconds all of it took."""
        try:
            self._probe.close_load()
            self.record = self._probe.finish()
        finally:
            self._probe.close()
        return (perf_counter_ns() - self._began_ns) / 1e9


def row_latency_s(rows: Int64, metric: SloMetric) -> Float64:
    """One latency of finished rows from the scheduled arrival; infinite where it failed or no token came.

    A time per token is 0 where there is a single one. A request that the client gave up took as long as it waited.
    """

    def column(name: str) -> Int64:
        return rows[:, _PLACE[name]]

    left = column("kind") == RequestEnd.CANCELLED
    ok = (column("kind") == RequestEnd.OK) | left
    if metric is SloMetric.LATENCY:
        value = (column("last_ns") - column("scheduled_ns")) / 1e9
    elif metric in (SloMetric.TIME_TO_FIRST_TOKEN, SloMetric.TIME_TO_FIRST_ANSWER):
        first_ns = column("first_token_ns" if metric is SloMetric.TIME_TO_FIRST_TOKEN else "first_answer_ns")
        first_ns = np.where(left & (first_ns == 0), column("last_ns"), first_ns)  # they waited at least so long
        ok &= first_ns > 0
        value = (first_ns - column("scheduled_ns")) / 1e9
    else:
        several = (column("output_tokens") > 1) & (column("first_token_ns") > 0)
        spent = (column("last_ns") - column("first_token_ns")) / 1e9
        value = np.where(several, spent / np.maximum(column("output_tokens") - 1, 1), 0.0)
    return np.asarray(np.where(ok, value, np.inf), dtype=np.float64)
