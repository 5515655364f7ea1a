"""A server's series over the counted time: what stood in its batch and queue, what it counted, what its threads got."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lynxbench.model.requests import Mask
from lynxbench.model.samples import Float64, Telemetry

Span = tuple[int, int]

PROCESS = re.compile(r"process_(?P<pid>\d+)_(?P<name>.+)_(?P<what>cores|busiest|waited|allowed)$")
QUANTITY = re.compile(r"(?P<server>[a-z]+)_(?P<name>[a-z_]+)$")
GAUGES = ("running", "waiting", "cache_share", "tokens_a_draft")


@dataclass(frozen=True, slots=True)
class ServerThreads:
    """One process of a server, in cores on average: all threads, the busiest alone, and how long that one waited."""

    name: str
    cores: float
    busiest: float
    waited: float
    """NaN where the kernel does not tell."""
    allowed: float
    """CPUs that its busiest thread may run on."""

    @property
    def wanted(self) -> float:
        """What the busiest thread would have run, had it had a CPU of its own."""
        return self.busiest + (0.0 if math.isnan(self.waited) else self.waited)


@dataclass(frozen=True, slots=True)
class ServedSeries:
    """What was seen of a server while requests were counted."""

    server: str
    """Whose metrics they are, by the key of the tables; empty where none were read."""
    seconds: float
    """Between the first and the last look that were counted."""
    gauges: Mapping[str, Float64]
    """Looks at what stands now, by quantity; those that failed are left out."""
    grown: Mapping[str, float]
    """What counters grew by, over the looks at which they only grew."""
    threads: tuple[ServerThreads, ...] = ()
    throttled: float = math.nan
    """Share of the time for which a quota held the server."""
    restarted: bool = False
    """Whether a counter went back."""
    looks: int = 0
    answered_s: float = math.nan
    """How long the server took to answer a look, in the middle."""
    asked: tuple[str, ...] = field(default=(), repr=False)

    def level(self, name: str) -> float:
        """The mean of a gauge; NaN where it was not read."""
        values = self.gauges.get(name, np.empty(0))
        return float(values.mean()) if len(values) else math.nan

    def per_s(self, name: str) -> float:
        """What a counter grew by a second; NaN where it was not read."""
        return self.grown[name] / self.seconds if name in self.grown and self.seconds > 0 else math.nan

    @property
    def busiest(self) -> ServerThreads | None:
        """The process whose busiest thread wanted most of a core."""
        return max(self.threads, key=lambda process: process.wanted, default=None)


def tile_series(series: Telemetry, spans: Sequence[Span]) -> ServedSeries:
    """The series of the counted spans alone; a counter's growth is between two looks within one span."""
    masks = [(series.at_ns >= start) & (series.at_ns <= end) for start, end in spans if end > start]
    inside: Mask = np.any(masks, axis=0) if masks else np.zeros(len(series.at_ns), bool)
    named = _quantities(series)
    server = max(named, key=lambda key: len(named[key]), default="")
    columns = named.get(server, {})
    grown: dict[str, float] = {}
    restarted = False
    for name, column in columns.items():
        if name in GAUGES:
            continue
        steps = [np.diff(column[mask & np.isfinite(column)]) for mask in masks]
        increments = np.concatenate(steps) if steps else np.empty(0)
        restarted |= bool((increments < 0).any())
        if len(increments):
            grown[name] = float(increments[increments > 0].sum())
    stamps = [series.at_ns[mask] for mask in masks if mask.sum() > 1]
    return ServedSeries(
        server=server,
        seconds=sum(float(part[-1] - part[0]) for part in stamps) / 1e9,
        gauges={name: _known(columns[name], inside) for name in GAUGES if name in columns},
        grown=grown,
        threads=_threads(series, inside),
        throttled=_throttled(series, masks),
        restarted=restarted,
        looks=int(inside.sum()),
        answered_s=_median(series.columns.get("metrics_s"), inside),
        asked=tuple(sorted(columns)),
    )


def _quantities(series: Telemetry) -> dict[str, dict[str, Float64]]:
    named: dict[str, dict[str, Float64]] = {}
    for column, values in series.columns.items():
        match = None if PROCESS.match(column) else QUANTITY.match(column)
        if match is not None and match["server"] not in ("metrics", "throttled"):
            named.setdefault(match["server"], {})[match["name"]] = values
    return named


def _threads(series: Telemetry, inside: Mask) -> tuple[ServerThreads, ...]:
    processes: dict[tuple[str, str], dict[str, float]] = {}
    for column, values in series.columns.items():
        if match := PROCESS.match(column):
            known = _known(values, inside)
            mean = float(known.mean()) if len(known) else math.nan
            processes.setdefault((match["pid"], match["name"]), {})[match["what"]] = mean
    whole = [
        ServerThreads(name, **parts)
        for (_, name), parts in processes.items()
        if len(parts) == 4 and not math.isnan(parts["busiest"])
    ]
    return tuple(sorted(whole, key=lambda process: -process.cores))


def _throttled(series: Telemetry, masks: Sequence[Mask]) -> float:
    column = series.columns.get("throttled_us")
    if column is None:
        return math.nan
    held_us = seconds = 0.0
    for mask in masks:
        known = mask & np.isfinite(column)
        if known.sum() > 1:
            held_us += max(0.0, float(column[known][-1] - column[known][0]))
            seconds += float(series.at_ns[known][-1] - series.at_ns[known][0]) / 1e9
    return held_us / 1e6 / seconds if seconds > 0 else math.nan


def _median(column: Float64 | None, inside: Mask) -> float:
    known = _known(column, inside) if column is not None else np.empty(0)
    return float(np.median(known)) if len(known) else math.nan


def _known(column: Float64, inside: Mask) -> Float64:
    chosen = column[inside]
    return np.asarray(chosen[np.isfinite(chosen)], dtype=np.float64)
