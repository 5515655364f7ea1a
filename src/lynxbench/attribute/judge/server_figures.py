"""What a verdict on a server rests on, and the limits that can be found in it: whose each is, and what moves it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.tile.client_view import ClientView
from lynxbench.attribute.tile.served_series import ServedSeries
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.tables import read_table

WAITS = 0.5
"""Share of looks at which a request waited before a queue is said to stand: one that comes and goes is arrivals'."""


@dataclass(frozen=True, slots=True)
class LimitCause:
    """What a limit means: whose it is, why, and what moves it."""

    name: str
    category: Category
    bound: Bound
    layer: Layer
    why: str
    next_step: str
    flags: Mapping[str, str]

    def step_for(self, server: str) -> str:
        """The next step, with the server's own option where it has one."""
        flag = self.flags.get(server)
        return self.next_step.format(flag=f" ({flag})" if flag else "")


CAUSES: dict[str, LimitCause] = {
    name: LimitCause(
        name,
        Category(keys["category"]),
        Bound(keys["bound"]),
        Layer(keys["layer"]),
        keys["why"],
        keys["next_step"],
        keys.get("flags", {}),
    )
    for name, keys in read_table("attribute/judge/server_limits.toml").items()
}


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """Something that held the device, as telemetry shows it: `neighbour`, `clock` or `power`."""

    cause: str
    evidence: str
    most: float = math.nan
    """How many times faster the device could be without it, at the most."""


@dataclass(frozen=True, slots=True)
class ServedFigures:
    """Everything that a verdict on a server rests on."""

    series: ServedSeries
    load: ClientView
    arguments: Mapping[str, str]
    activity: DeviceActivity | None
    conditions: tuple[DeviceCondition, ...] = ()
    network: float = 0.0
    """Share of a request that the client waited beyond what the server counts."""
    others: str = ""
    """Whether others asked the server meanwhile, in words: whose limit shows is then not known."""

    @property
    def busy(self) -> float:
        """Share of the time in which the device had work; NaN where nobody knows."""
        return math.nan if self.activity is None or self.activity.engine is None else min(1.0, self.activity.engine)

    @property
    def idle(self) -> float:
        """Share of the time in which the device waited; NaN where nobody knows."""
        return 1.0 - self.busy

    @property
    def reached(self) -> float:
        """How far the busier of arithmetic and memory was used while the device had work; NaN where nobody knows."""
        if self.activity is None or not self.busy > 0:
            return math.nan
        known = [share for share in (self.activity.arithmetic, self.activity.dram) if share is not None]
        return min(1.0, max(known) / self.busy) if known else math.nan

    @property
    def queues(self) -> bool:
        """Whether requests stood waiting in the server."""
        waiting = self.series.gauges.get("waiting", np.empty(0))
        return len(waiting) > 0 and float(np.mean(waiting >= 1)) >= WAITS


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that bounds a server, in words, and what moving it gains by which model."""

    cause: LimitCause
    says: str
    gain: Interval
    model: str
    sure: bool = True

    @property
    def share(self) -> float:
        """The share of the time that goes with it."""
        return 1.0 - 1.0 / max(1.0, self.gain.estimate)
