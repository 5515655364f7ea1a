"""Objects that live on nodes: started where they are wanted, called from here, ended for certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lynxbench.errors import CannotRun, LynxbenchError
from lynxbench.fleet.cluster import Fleet, FleetNode
from lynxbench.fleet.ray_module import import_ray


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
        """Start a call; what `gather` waits for."""
        return getattr(self.handle, method).remote(*arguments)

    def call(self, method: str, *arguments: object, timeout_s: float | None = None) -> Any:
        """Call and wait; a deliberate error of the object is raised as it was."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(self.begin(method, *arguments), timeout=timeout_s)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, LynxbenchError):
                raise error.cause from None
            raise CannotRun(f"{self.node.name}: {type(error.cause).__name__}: {error.cause}") from None
        except exceptions.RayError as error:
            raise ActorLost(f"{self.node.name}: {' '.join(str(error).split())[:200]}") from None

    def wait(self, reference: Any, timeout_s: float | None = None) -> Any:
        """The answer of a call that was begun; ActorLost where it never comes."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, LynxbenchError):
                raise error.cause from None
            raise CannotRun(f"{self.node.name}: {type(error.cause).__name__}: {error.cause}") from None
        except exceptions.RayError as error:
            raise ActorLost(f"{self.node.name}: {' '.join(str(error).split())[:200]}") from None

    def end(self) -> None:
        """End the object and its process."""
        self._ray.kill(self.handle)


class ActorLost(CannotRun):
    """The object, its process or its node is gone."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Handles of actors, for code on another node that calls them all at once. Travels with a task."""

    handles: tuple[Any, ...]

    def all(self, method: str, arguments: Sequence[tuple[object, ...]], timeout_s: float) -> list[Any]:
        """Call everyone, each with arguments of its own, and wait for all; one that is gone fails the whole."""
        ray: Any = import_ray()
        begun = [getattr(handle, method).remote(*given) for handle, given in zip(self.handles, arguments, strict=True)]
        try:
            found: list[Any] = ray.get(begun, timeout=timeout_s)
        except ray.exceptions.RayTaskError as error:
            raise CannotRun(f"a rank failed: {error.cause}") from None
        except ray.exceptions.RayError as error:
            raise ActorLost(f"a rank was lost: {' '.join(str(error).split())[:200]}") from None
        return found
