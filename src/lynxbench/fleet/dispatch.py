"""Tasks onto nodes, each alone on what it measures. Ray places and watches; what is lost is tried again or reported.

A task takes all CPUs (and the GPUs it asks for) of its node from Ray, so that nothing else of the cluster runs beside
it; nodes of one host take turns unless told otherwise, because Ray's counting knows nothing of hosts.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lynxbench.errors import LynxbenchError
from lynxbench.fleet.actors import Desk, DeskLine, NodeMessage
from lynxbench.fleet.cluster import Fleet, FleetNode, one_line
from lynxbench.model.fleet import AttemptNote

MOST_ATTEMPTS = 3
"""A task that took its worker down three times is what takes workers down."""
POLL_S = 0.25
GRACE_S = 15.0
"""After an interrupt: for runs to write down what they have."""


@dataclass(frozen=True, slots=True)
class FleetTask:
    """One piece of work: where it belongs, and what it takes of its node."""

    key: str
    payload: object
    node: FleetNode | None = None
    """None may go to any node, and to another one when that is lost."""
    gpus: float = 0.0
    cpus: float | None = None
    """None takes all of the node's."""
    substitutes: bool = False
    """Whether a spare node may stand in when its own is lost."""


class End(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    FAILED = "failed"
    """The work itself said no: trying again would say no again."""
    CRASHED = "worker lost"
    NODE_LOST = "node lost"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What became of a task, with every attempt at it. `error` is a deliberate one of ours."""

    task: FleetTask
    end: End
    value: object
    why: str
    attempts: tuple[AttemptNote, ...]
    error: LynxbenchError | None = None


@dataclass(slots=True)
class _Open:
    task: FleetTask
    attempts: list[AttemptNote] = field(default_factory=list)
    node: FleetNode | None = None
    reference: Any = None
    started: float = 0.0

    def note(self, end: End, why: str = "") -> None:
        """The attempt under way has ended."""
        assert self.node is not None
        seconds = round(time.monotonic() - self.started, 3)
        self.attempts.append(AttemptNote(node=self.node.name, ended=end.value, why=why, seconds=seconds))

    def outcome(
        self, end: End, why: str = "", value: object = None, error: LynxbenchError | None = None
    ) -> TaskOutcome:
        """The task is over."""
        return TaskOutcome(self.task, end, value, why, tuple(self.attempts), error)


Work = Callable[[object, DeskLine], object]
Hear = Callable[[NodeMessage, Desk], None]
More = Callable[[], Sequence[FleetTask] | None]
"""Asked every turn for tasks to add to those that wait; None once and for all when there will be no more."""


@dataclass(slots=True)
class Dispatch:
    """Runs tasks on a fleet; each has exactly one outcome, whatever happens to the nodes.

    `pool` are the nodes for tasks that may go anywhere, `spare` those that may stand in; `more` may add tasks while
    others run. An interrupt ends what runs in order and is raised again; `late` is told what was done all the same.
    """

    fleet: Fleet
    work: Work
    hear: Hear = lambda message, desk: None
    spare: Sequence[FleetNode] = ()
    pool: Sequence[FleetNode] = ()
    together: bool = False
    """Do not let nodes of one host take turns."""
    began: Callable[[FleetTask, FleetNode, int], None] = lambda task, node, attempt: None
    more: More = lambda: None
    late: Callable[[TaskOutcome], None] = lambda outcome: None
    _waiting: list[_Open] = field(default_factory=list)
    _running: dict[Any, _Open] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _hosts: dict[str, str] = field(default_factory=dict)
    _ray: Any = None
    _desk: Desk = field(init=False)
    _function: Any = None

    def run(self, tasks: Sequence[FleetTask]) -> Iterator[TaskOutcome]:
        """Every task, and each outcome as it ends."""
        self._ray = self.fleet.ray
        self._learn((*self.pool, *self.spare))
        self._add(tasks)
        self._desk = Desk(self.fleet)
        self._function = self._ray.remote(max_retries=0)(self.work)
        try:
            yield from self._turns()
        finally:
            self._close()

    def _add(self, tasks: Sequence[FleetTask]) -> None:
        self._learn([task.node for task in tasks if task.node is not None])
        self._waiting += [_Open(task) for task in tasks]

    def _learn(self, nodes: Sequence[FleetNode]) -> None:
        """Which machine each node is on, where nodes of one machine take turns."""
        unknown = {node.node_id: node for node in nodes if node.node_id not in self._hosts}
        if unknown and not self.together:
            self._hosts |= self.fleet.hosts(list(unknown.values()))

    def _turns(self) -> Iterator[TaskOutcome]:
        coming = True
        while coming or self._waiting or self._running:
            if coming:
                added = self.more()
                coming = added is not None
                self._add(added or ())
            yield from self._start_what_can()
            if not self._running:
                if coming and not self._waiting:
                    time.sleep(POLL_S)
                continue
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=POLL_S)
            for message in self._desk.drain():
                self.hear(message, self._desk)
            for reference in ready:
                outcome = self._ended(self._running.pop(reference))
                if outcome is not None:
                    yield outcome

    def _close(self) -> None:
        """End what still runs: first asked, then made to."""
        for reference in self._running:
            self._ray.cancel(reference, force=False)
        until = time.monotonic() + GRACE_S
        left = list(self._running)
        while left and time.monotonic() < until:
            ended, left = self._ray.wait(left, num_returns=len(left), timeout=POLL_S)
            for message in self._desk.drain():
                self.hear(message, self._desk)
            for reference in ended:
                self._ended_late(self._running.pop(reference))
        for reference in left:
            self._ray.cancel(reference, force=True)
        self._desk.close()

    def _ended_late(self, piece: _Open) -> None:
        """A task that was done before the word to stop reached it: a measured run is never thrown away."""
        try:
            value = self._ray.get(piece.reference)
        except self._ray.exceptions.RayError:
            return  # stopped as it was told, or failed: it starts again when the whole goes on
        piece.note(End.DONE)
        self.late(piece.outcome(End.DONE, value=value))

    def _start_what_can(self) -> Iterator[TaskOutcome]:
        for piece in list(self._waiting):
            home = piece.task.node
            if home is not None and home.node_id in self._gone:
                home = self._substitute(piece.task)
                if home is None:
                    self._waiting.remove(piece)
                    yield self._given_up(piece)
                    continue
            busy = {o.node.node_id for o in self._running.values() if o.node is not None}
            hosts = {self._hosts.get(node_id, node_id) for node_id in busy}
            if home is None:
                free = [n for n in self.pool if n.node_id not in self._gone | busy and self._host(n) not in hosts]
                if not free:
                    if not self._running and all(n.node_id in self._gone for n in self.pool):
                        self._waiting.remove(piece)
                        yield self._given_up(piece)
                    continue
                home = free[0]
            elif self._host(home) in hosts and not self.together:
                continue
            self._waiting.remove(piece)
            if self.fleet.alive(home.node_id):
                self._start(piece, home)
                continue
            self._gone.add(home.node_id)
            why = f"{home.name} was lost: {self.fleet.death_of(home.node_id)}"
            piece.attempts.append(AttemptNote(node=home.name, ended=End.NODE_LOST.value, why=why, seconds=0.0))
            self._waiting.append(piece)  # for a substitute, or to be given up

    def _host(self, node: FleetNode) -> str:
        return self._hosts.get(node.node_id, node.node_id)

    def _substitute(self, task: FleetTask) -> FleetNode | None:
        if not task.substitutes:
            return None
        alive = [node for node in self.spare if self.fleet.alive(node.node_id)]
        self.spare = alive[1:]
        return alive[0] if alive else None

    def _start(self, piece: _Open, node: FleetNode) -> None:
        piece.node, piece.started = node, time.monotonic()
        options = self._function.options(
            num_cpus=piece.task.cpus if piece.task.cpus is not None else node.cpus,
            num_gpus=piece.task.gpus,
            scheduling_strategy=self.fleet.pinned(node.node_id),
        )
        piece.reference = options.remote(piece.task.payload, DeskLine(self._desk.handle, piece.task.key))
        self._running[piece.reference] = piece
        self.began(piece.task, node, len(piece.attempts) + 1)

    def _ended(self, piece: _Open) -> TaskOutcome | None:
        """The outcome of a task that is over; None for one that is tried again."""
        exceptions = self._ray.exceptions
        try:
            value = self._ray.get(piece.reference)
        except exceptions.TaskCancelledError as error:
            raise KeyboardInterrupt from error
        except exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, BaseException) else error
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            deliberate = cause if isinstance(cause, LynxbenchError) else None
            why = one_line(cause if deliberate is not None else f"{type(cause).__name__}: {cause}")
            piece.note(End.FAILED, why)
            return piece.outcome(End.FAILED, why, error=deliberate)
        except exceptions.RayError as error:
            return self._lost(piece, error)
        piece.note(End.DONE)
        return piece.outcome(End.DONE, value=value)

    def _lost(self, piece: _Open, error: Exception) -> TaskOutcome | None:
        assert piece.node is not None
        node = piece.node
        gone = isinstance(error, self._ray.exceptions.NodeDiedError) or not self._still_there(node)
        if gone:
            self._gone.add(node.node_id)
            why = f"{node.name} was lost: {self.fleet.death_of(node.node_id)}"
        else:
            why = f"the worker on {node.name} was lost: {one_line(error)}"
        piece.note(End.NODE_LOST if gone else End.CRASHED, why)
        piece.node = piece.reference = None
        if len(piece.attempts) < MOST_ATTEMPTS:
            self._waiting.append(piece)
            return None
        return self._given_up(piece)

    def _still_there(self, node: FleetNode) -> bool:
        """A raylet that just died may still be listed for a moment: it counts as there when a task runs on it."""
        if not self.fleet.alive(node.node_id):
            return False
        try:
            self._ray.get(self.fleet.call_on(node, _here), timeout=GRACE_S)
        except self._ray.exceptions.RayError:
            return False
        return True

    def _given_up(self, piece: _Open) -> TaskOutcome:
        if not piece.attempts:
            return piece.outcome(End.NODE_LOST, "no node is left to run it on")
        return piece.outcome(End(piece.attempts[-1].ended), piece.attempts[-1].why)


def _here() -> bool:
    return True
