"""The server about itself, for Prometheus: what it counts, how long it takes, and what is read when somebody asks."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PREFIX = "lynxbench"


class ServerMetrics(Collector):
    """Counters, one histogram, and gauges that are read when somebody asks."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # their time is the server's own start time
        self._registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests by route.", "route", "method", "status")
        self.sign_ins_refused = self._counter("sign_ins_refused", "Sign-ins that were refused.")
        self.submissions = self._counter("submissions", "Bundles that were taken in.")
        self.entries_added = self._counter("entries_added", "Entries that submissions added.")
        self.recomputed = self._counter("recomputed", "Results that were recomputed, by what came of it.", "state")
        self.regressions = self._counter("regressions", "Regressions that were found.")
        self.messages = self._counter("messages", "Messages to owners.", "state")
        self.durations = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "Time to answer a request.",
            ["route"],
            unit="seconds",
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._gauges: dict[str, tuple[str, Callable[[], float | Mapping[str, float]], str]] = {}
        self._registry.register(self)

    def gauge(self, name: str, meaning: str, read: Callable[[], float | Mapping[str, float]], label: str = "") -> None:
        """A value that is read when somebody asks; with a label, one for each of its values."""
        self._gauges[name] = (meaning, read, label)

    def collect(self) -> Iterable[Metric]:
        """Every gauge as it is now."""
        for name, (meaning, read, label) in self._gauges.items():
            family = GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=[label] if label else [])
            value = read()
            for labelled, number in value.items() if isinstance(value, Mapping) else [("", value)]:
                family.add_metric([labelled] if label else [], number)
            yield family

    def render(self) -> bytes:
        """All of it as OpenMetrics text."""
        return bytes(generate_latest(self._registry))  # type: ignore[no-untyped-call]

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", meaning, labels, registry=self._registry)
