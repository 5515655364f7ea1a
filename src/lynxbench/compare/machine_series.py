"""Which results of a contract are one series: those of one machine. Pure.

What two machines differ by is no change of a level, and a move from one to the other is no step: each machine is judged
by itself. A changed layer of one machine is what a history is for: it stays one series. Machines with one result each
(a container is a new machine every time) are one series by their kind of accelerator: what machines differ by is in its
noise then, before a change as after it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from lynxbench.model.history import HistoryPoint
from lynxbench.model.layers import Layer

MOST_MACHINES = 20
"""Machines with a series of their own: those with the most results; the others are counted, and can be named."""


class OfMachine(Protocol):
    """A result or a point of it: which one it is, of which machine, and when it began."""

    @property
    def result_id(self) -> str: ...
    @property
    def instance_id(self) -> str: ...
    @property
    def started_at(self) -> str: ...


OneT = TypeVar("OneT", bound=OfMachine)


@dataclass(frozen=True, slots=True)
class MachineSeries(Generic[OneT]):
    """Results of one machine, or of machines of one kind with one result each."""

    points: tuple[OneT, ...]

    @property
    def machines(self) -> int:
        """How many machines they are of."""
        return len({point.instance_id for point in self.points})

    @property
    def newest(self) -> OneT:
        """The one that the machine is named by."""
        return max(self.points, key=_moment)


def tell_machines_apart(points: Iterable[HistoryPoint]) -> list[MachineSeries[HistoryPoint]]:
    """The series of each machine, that with the most results first, of as many the newest."""
    return by_machine(points, lambda point: point.layer_ids.get(Layer.ACCELERATOR, ""))


def by_machine(results: Iterable[OneT], accelerator: Callable[[OneT], str]) -> list[MachineSeries[OneT]]:
    """The same of anything that knows its machine; `accelerator` is the kind that a machine with one result is of."""
    known = list(results)
    many = Counter(point.instance_id for point in known)
    series: dict[tuple[str, str], list[OneT]] = {}
    for point in known:
        alone = many[point.instance_id] == 1
        key = ("", accelerator(point)) if alone else (point.instance_id, "")
        series.setdefault(key, []).append(point)
    apart = [MachineSeries(tuple(each)) for each in series.values()]
    return sorted(apart, key=lambda each: (len(each.points), _moment(each.newest)), reverse=True)


def _moment(point: OfMachine) -> tuple[str, str]:
    return point.started_at, point.result_id
