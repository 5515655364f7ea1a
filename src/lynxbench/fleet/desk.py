"""Messages from the nodes to whoever started them, and answers to those that wait for one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from lynxbench.fleet.cluster import Fleet
from lynxbench.fleet.local import import_ray

ANSWER_S = 60.0
"""A node waits this long for an answer, then goes on without: a run is never lost to its record."""


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
        here = fleet.ray.get_runtime_context().get_node_id()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Beside the driver: a node that is lost must not take the messages with it.
        strategy = NodeAffinitySchedulingStrategy(here, soft=True)
        actor = fleet.ray.remote(num_cpus=0, max_concurrency=1000)(_Desk)
        self.handle: Any = actor.options(scheduling_strategy=strategy).remote()

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
