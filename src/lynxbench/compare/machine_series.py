"""Which results of a contract are one series: those of one machine. Pure.

What two machines differ by is no change of a level, and a move from one to the other is no step: each machine is judged
by itself. A changed layer of one machine is what a history is for: it stays one series. Machines with one result each
(a container is a new machine every time) are one series by their kind of accelerator: what machines differ by is in its
noise then, before a change as after it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lynxbench.model.history import HistoryPoint
from lynxbench.model.layers import Layer

MOST_MACHINES = 20
"""Machines with a series of their own: those with the most results; the others are counted, and can be named."""


@dataclass(frozen=True, slots=True)
class MachineSeries:
    """Results of one machine, or of machines of one kind with one result each."""

    points: tuple[HistoryPoint, ...]

    @property
    def machines(self) -> int:
        """How many machines they are of."""
        return len({point.instance_id for point in self.points})

    @property
    def newest(self) -> HistoryPoint:
        """The one that the machine is named by."""
        return max(self.points, key=_moment)


def tell_machines_apart(points: Iterable[HistoryPoint]) -> list[MachineSeries]:
    """The series of each machine, that with the most results first, of as many the newest."""
    known = list(points)
    many = Counter(point.instance_id for point in known)
    series: dict[tuple[str, str], list[HistoryPoint]] = {}
    for point in known:
        alone = many[point.instance_id] == 1
        key = ("", point.layer_ids.get(Layer.ACCELERATOR, "")) if alone else (point.instance_id, "")
        series.setdefault(key, []).append(point)
    apart = [MachineSeries(tuple(each)) for each in series.values()]
    return sorted(apart, key=lambda each: (len(each.points), _moment(each.newest)), reverse=True)


def _moment(point: HistoryPoint) -> tuple[str, str]:
    return point.started_at, point.result_id
