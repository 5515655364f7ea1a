"""Objects that live on nodes: started where they are wanted, called and heard from here, ended for certain."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lynxbench.errors import CannotRun, LynxbenchError
from lynxbench.fleet.cluster import Fleet, FleetNode, one_line
from lynxbench.fleet.local import import_ray

ANSWER_S = 60.0
"""A node waits this long for an answer, then goes on without: a run is never lost to its record."""


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
        self.handle: Any = remote.options(scheduling_strategy=fleet.pinned(node.node_id)).remote(*arguments)

    def begin(self, method: str, *arguments: object) -> Any:
        """Start a call; what `wait` waits for."""
        return getattr(self.handle, method).remote(*arguments)

    def call(self, method: str, *arguments: object, timeout_s: float) -> Any:
        """Call and wait; a deliberate error of the object is raised as it was."""
        return self.wait(self.begin(method, *arguments), timeout_s)

    def wait(self, reference: Any, timeout_s: float) -> Any:
        """The answer of a call that was begun; ActorLost where it never comes."""
        with _plain_errors(self._ray, self.node.name, timeout_s):
            return self._ray.get(reference, timeout=timeout_s)

    def end(self) -> None:
        """End the object and its process."""
        self._ray.kill(self.handle)


def call_all(
    handles: Sequence[Any], method: str, arguments: Sequence[tuple[object, ...]], timeout_s: float
) -> list[Any]:
    """Call actors from another node, each with arguments of its own; one that is gone fails the whole."""
    ray: Any = import_ray()
    calls = [getattr(handle, method).remote(*given) for handle, given in zip(handles, arguments, strict=True)]
    with _plain_errors(ray, "a rank", timeout_s):
        return list(ray.get(calls, timeout=timeout_s))


@contextmanager
def _plain_errors(ray: Any, who: str, timeout_s: float) -> Iterator[None]:
    """What Ray raises, as errors of ours."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, LynxbenchError):
            raise error.cause from None
        raise CannotRun(f"{who}: {type(error.cause).__name__}: {error.cause}") from None
    except ray.exceptions.GetTimeoutError:
        raise ActorLost(f"{who}: no answer within {timeout_s:.0f} s: it is busier than that, or gone") from None
    except ray.exceptions.RayError as error:
        raise ActorLost(f"{who}: {one_line(error)}") from None


# --- messages from the nodes to whoever started them, and answers to those that wait for one --------------------------


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """Something a node said; `number` is set where it waits for an answer."""

    key: str
    body: dict[str, Any]
    number: int | None = None


class _Desk:
    """The actor: a list of messages, and questions that are open."""

    def __init__(self) -> None:
        self._messages: list[NodeMessage] = []
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._count = 0

    async def tell(self, key: str, body: dict[str, Any]) -> None:
        self._messages.append(NodeMessage(key, body))

    async def ask(self, key: str, body: dict[str, Any]) -> Any:
        self._count += 1
        number = self._count
        self._open[number] = asyncio.get_running_loop().create_future()
        self._messages.append(NodeMessage(key, body, number))
        return await self._open[number]

    async def answer(self, number: int, value: Any) -> None:
        waiting = self._open.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    async def drain(self) -> list[NodeMessage]:
        taken, self._messages = self._messages, []
        return taken


class Desk:
    """The driver's side of the desk."""

    def __init__(self, fleet: Fleet) -> None:
        self._ray = fleet.ray
        # Beside the driver: a node that is lost must not take the messages with it.
        beside = fleet.pinned(fleet.ray.get_runtime_context().get_node_id(), soft=True)
        actor = fleet.ray.remote(num_cpus=0, max_concurrency=1000)(_Desk)
        self.handle: Any = actor.options(scheduling_strategy=beside).remote()

    def drain(self) -> list[NodeMessage]:
        """What has been said since the last call."""
        try:
            messages: list[NodeMessage] = self._ray.get(self.handle.drain.remote())
        except self._ray.exceptions.RayError:
            return []  # lost with its node: outcomes come by another way, and those who ask go on without an answer
        return messages

    def answer(self, message: NodeMessage, value: object) -> None:
        """Let the node that asked go on."""
        if message.number is not None:
            self.handle.answer.remote(message.number, value)

    def close(self) -> None:
        """End the actor."""
        self._ray.kill(self.handle)


@dataclass(frozen=True, slots=True)
class DeskLine:
    """The node's side: travels with a task. Nothing here fails a run."""

    handle: Any
    key: str

    def tell(self, body: dict[str, Any]) -> None:
        """Say something and go on."""
        self.handle.tell.remote(self.key, body)

    def ask(self, body: dict[str, Any]) -> Any:
        """Say something and wait for the answer; None where none comes."""
        ray = import_ray()
        try:
            return ray.get(self.handle.ask.remote(self.key, body), timeout=ANSWER_S)
        except ray.exceptions.RayError:
            return None
