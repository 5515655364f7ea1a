"""Prometheus' text format to numbers: counters, gauges, and histograms by sum, count and buckets. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\S+)?\s*$")
_LABEL = re.compile(r'\s*(?P<key>[a-zA-Z_]\w*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*,?')


@dataclass(frozen=True, slots=True)
class PrometheusMetrics:
    """Samples by name, summed over label sets; a server's engines and models add up to the server."""

    totals: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    """Cumulative counts of a histogram by upper edge."""

    def get(self, name: str) -> float | None:
        """A sample's value, or None where it is not exported."""
        return self.totals.get(name)


def parse_prometheus(text: str) -> PrometheusMetrics:
    """Every sample of an exposition; lines that are none are skipped, as the format asks."""
    totals: dict[str, float] = {}
    buckets: dict[str, dict[float, float]] = {}
    for line in text.splitlines():
        match = None if not line or line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        name = match["name"]
        labels = {m["key"]: m["value"] for m in _LABEL.finditer(match["labels"] or "")}
        if name.endswith("_bucket") and "le" in labels:
            edge = _edge(labels["le"])
            if edge is not None:
                edges = buckets.setdefault(name.removesuffix("_bucket"), {})
                edges[edge] = edges.get(edge, 0.0) + value
            continue
        totals[name] = totals.get(name, 0.0) + value
        if "method" in labels:  # the one label that tells phases apart (TGI)
            labelled = f"{name}{{method={labels['method']}}}"
            totals[labelled] = totals.get(labelled, 0.0) + value
    return PrometheusMetrics(totals, buckets)


def _edge(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def subtract(after: PrometheusMetrics, before: PrometheusMetrics) -> tuple[PrometheusMetrics, bool]:
    """What happened in between, and whether a counter fell: a server that was restarted meanwhile."""
    restarted = False
    totals: dict[str, float] = {}
    for name, value in after.totals.items():
        grown = value - before.totals.get(name, 0.0)
        if grown < 0 and name.partition("{")[0].endswith(("_total", "_sum", "_count")):
            restarted, grown = True, value
        totals[name] = grown
    return PrometheusMetrics(totals), restarted
