"""Objects that live on nodes: started where they are wanted, called from here, ended for certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lynxbench.errors import CannotRun, LynxbenchError
from lynxbench.fleet.cluster import Fleet, FleetNode, one_line
from lynxbench.fleet.local import import_ray


class ActorLost(CannotRun):
    """The object, its process or its node is gone."""


class Actor:
    """One object on one node."""

    def __init__(
        self, fleet: Fleet, node: FleetNode, kind: type, arguments: Sequence[object], cpus: float, gpus: float
    ):
        self.node = node
        self._ray = fleet.ray
        remote = fleet.ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(kind)
        self.handle: Any = remote.options(scheduling_strategy=fleet.pinned(node)).remote(*arguments)

    def begin(self, method: str, *arguments: object) -> Any:
        """Start a call; what `wait` waits for."""
        return getattr(self.handle, method).remote(*arguments)

    def call(self, method: str, *arguments: object, timeout_s: float) -> Any:
        """Call and wait; a deliberate error of the object is raised as it was."""
        return self.wait(self.begin(method, *arguments), timeout_s)

    def wait(self, reference: Any, timeout_s: float) -> Any:
        """The answer of a call that was begun; ActorLost where it never comes."""
        with _plain_errors(self._ray, self.node.name):
            return self._ray.get(reference, timeout=timeout_s)

    def end(self) -> None:
        """End the object and its process."""
        self._ray.kill(self.handle)


@dataclass(frozen=True, slots=True)
class Crew:
    """Handles of actors, for code on another node that calls them all at once. Travels with a task."""

    handles: tuple[Any, ...]

    def all(self, method: str, arguments: Sequence[tuple[object, ...]], timeout_s: float) -> list[Any]:
        """Call everyone, each with arguments of its own, and wait for all; one that is gone fails the whole."""
        ray: Any = import_ray()
        calls = [getattr(handle, method).remote(*given) for handle, given in zip(self.handles, arguments, strict=True)]
        with _plain_errors(ray, "a rank"):
            return list(ray.get(calls, timeout=timeout_s))


@contextmanager
def _plain_errors(ray: Any, who: str) -> Iterator[None]:
    """What Ray raises, as errors of ours."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, LynxbenchError):
            raise error.cause from None
        raise CannotRun(f"{who}: {type(error.cause).__name__}: {error.cause}") from None
    except ray.exceptions.RayError as error:
        raise ActorLost(f"{who}: {one_line(error)}") from None
