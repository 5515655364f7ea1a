"""One schedule sent by clients on many hosts: split as among local processes, started together, merged by sample.

Every client stamps with its own clock. How far that clock is from ours is measured before and after the load, with its
bound; moments are moved by one constant a client, so that latencies stay exactly what the client saw.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from time import perf_counter_ns
from types import TracebackType
from typing import Any

import numpy as np

from lynxbench.errors import CannotRun
from lynxbench.fleet.actors import Actor, ActorLost
from lynxbench.fleet.clocks import Offset, joined, measure_offset
from lynxbench.fleet.cluster import Fleet, FleetNode
from lynxbench.load.load_record import COLUMNS, LoadRecord, merge, read_record
from lynxbench.load.plan import LoadPlan
from lynxbench.load.processes import GRACE_S, lost_part, start_part
from lynxbench.load.record_parts import moved, moved_rows
from lynxbench.model.samples import Int64

HEAD_START_NS = 400_000_000
"""From the last client being ready to the common start: every one has been told the moment by then."""
ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a run: where it was, and how far its clock was from ours."""

    part: int
    node: str
    offset_ns: int
    bound_ns: int
    lost: str = ""


class LoadPart:
    """Lives on a client's node: one process of the driver's own kind, and the clock it stamps with."""

    def __init__(self, planted_ns: int = 0) -> None:
        self._planted_ns = planted_ns  # a known error of the clock, for proving that it is found
        self._folder = tempfile.TemporaryDirectory(prefix="lynxbench-load-")
        self._process: Popen[bytes] | None = None
        self._part = 0
        self._read_bytes = 0

    def clock(self) -> int:
        """This client's time."""
        return perf_counter_ns() + self._planted_ns

    def prepare(self, plan: LoadPlan, part: int) -> None:
        """Start the process and wait until it is connected."""
        self._part = part
        self._process = start_part(plan, part, Path(self._folder.name))
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said != b"ready\n":
            line = said.removeprefix(b"cannot ").decode("utf-8", "replace").strip()
            raise CannotRun(line or "a client process could not be started")

    def begin(self, start_ns: int) -> None:
        """Say when the load starts, on this client's clock."""
        self._write(b"%d\n" % (start_ns - self._planted_ns))

    def look(self) -> tuple[bool, bytes]:
        """Whether it is at work, and the rows that were finished since the last look."""
        assert self._process is not None
        running = self._process.poll() is None
        path = Path(self._folder.name) / f"{self._part}.rows"
        if not path.exists():
            return running, b""
        with path.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data[: len(data) // _ROW_BYTES * _ROW_BYTES]
        self._read_bytes += len(whole)
        return running, moved_bytes(whole, self._planted_ns)

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish."""
        self._write(b"e")

    def finish(self, within_s: float) -> LoadRecord | None:
        """The whole record, on this client's clock; None where the process died or does not end."""
        assert self._process is not None
        path = Path(self._folder.name) / f"{self._part}.npz"
        try:
            self._process.wait(within_s)
        except TimeoutExpired:
            return None
        return moved(read_record(path), self._planted_ns) if path.exists() else None

    def close(self) -> None:
        """End whatever is left, and its files."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self._folder.cleanup()

    def _write(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.write(data)
            self._process.stdin.flush()


_ROW_BYTES = 8 * len(COLUMNS)


def moved_bytes(rows: bytes, by_ns: int) -> bytes:
    """Rows as they travel, on another clock."""
    if not by_ns or not rows:
        return rows
    table = np.frombuffer(rows, dtype=np.int64).reshape(-1, len(COLUMNS))
    return moved_rows(table, by_ns).tobytes()


class FleetProbe:
    """A probe under way on clients of many hosts; the same to its caller as one on local processes."""

    def __init__(
        self, plan: LoadPlan, fleet: Fleet, nodes: Sequence[FleetNode], planted_ns: Sequence[int] = ()
    ) -> None:
        self.plan = plan
        parts = plan.processes
        _refuse_crowd(nodes, parts)
        homes = [nodes[part % len(nodes)] for part in range(parts)]
        planted = [*planted_ns, *([0] * parts)][:parts]
        self._actors = [
            Actor(fleet, node, LoadPart, (by,), cpus=1.0, gpus=0.0) for node, by in zip(homes, planted, strict=True)
        ]
        self.parts: list[LoadRecord] = []
        """Once finished: each client's own record, on our clock."""
        self._lost: dict[int, str] = {}
        self._rows: list[Int64] = []
        self._after: dict[int, Offset] = {}
        try:
            begun = [actor.begin("prepare", plan, part) for part, actor in enumerate(self._actors)]
            for actor, reference in zip(self._actors, begun, strict=True):
                actor.wait(reference, timeout_s=plan.timeouts.connect_ns / 1e9 + ANSWER_S)
            self._before = {part: _offset(actor) for part, actor in enumerate(self._actors)}
            self.start_ns = perf_counter_ns() + HEAD_START_NS
            started = [
                actor.begin("begin", self._before[part].theirs(self.start_ns))
                for part, actor in enumerate(self._actors)
            ]
            for actor, reference in zip(self._actors, started, strict=True):
                actor.wait(reference, timeout_s=ANSWER_S)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FleetProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether any client is still at work; their finished rows are fetched by the way."""
        return any(self._look())

    @property
    def finished(self) -> int:
        """How many requests have ended, as far as the last look."""
        return sum(len(rows) for rows in self._rows)

    def rows(self) -> Int64:
        """The rows finished so far, on our clock, one line each in the order of COLUMNS."""
        self._look()
        return np.concatenate(self._rows) if self._rows else np.zeros((0, len(COLUMNS)), dtype=np.int64)

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish within the drain bound."""
        self._each("close_load")

    def finish(self) -> LoadRecord:
        """Wait for the end, which the plan bounds, and gather the whole record on our clock."""
        left_s = self.plan.duration_s + self.plan.drain_s - (perf_counter_ns() - self.start_ns) / 1e9
        within_s = max(0.1, left_s) + GRACE_S
        found = self._each("finish", within_s, timeout_s=within_s + ANSWER_S)
        for part, actor in enumerate(self._actors):
            if part not in self._lost:
                self._after[part] = _offset(actor)
        for part in range(len(self._actors)):
            record = found.get(part)
            if record is None:
                self._lost.setdefault(part, "its process died")
                self.parts.append(lost_part(self.plan, part, len(self._actors), self.start_ns))
            else:
                self.parts.append(moved(record, -self._offset_of(part).offset_ns))
        return merge(self.parts, tuple(sorted(self._lost)))

    def clients(self) -> tuple[Client, ...]:
        """Where the clients were, and what is known of their clocks."""
        return tuple(
            Client(
                part,
                actor.node.name,
                self._offset_of(part).offset_ns,
                self._offset_of(part).bound_ns,
                self._lost.get(part, ""),
            )
            for part, actor in enumerate(self._actors)
        )

    def close(self) -> None:
        """End every client and remove its files."""
        self._each("close")
        for actor in self._actors:
            actor.end()

    def _offset_of(self, part: int) -> Offset:
        before = self._before[part]
        return joined(before, self._after[part]) if part in self._after else before

    def _look(self) -> list[bool]:
        running = []
        for part, (at_work, data) in self._each("look").items():
            running.append(at_work)
            if data:
                table = np.frombuffer(data, dtype=np.int64).reshape(-1, len(COLUMNS))
                self._rows.append(moved_rows(table, -self._before[part].offset_ns))
        return running

    def _each(self, method: str, *arguments: object, timeout_s: float = ANSWER_S) -> dict[int, Any]:
        """Call every client that is there, at the same time; one that is gone is kept as lost."""
        here = [(part, actor) for part, actor in enumerate(self._actors) if part not in self._lost]
        begun = [(part, actor, actor.begin(method, *arguments)) for part, actor in here]
        found = {}
        for part, actor, reference in begun:
            try:
                found[part] = actor.wait(reference, timeout_s=timeout_s)
            except ActorLost as error:
                self._lost[part] = str(error)
        return found


def _offset(actor: Actor) -> Offset:
    return measure_offset(lambda: int(actor.call("clock", timeout_s=ANSWER_S)))


def _refuse_crowd(nodes: Sequence[FleetNode], parts: int) -> None:
    room = sum(int(node.cpus) for node in nodes)
    if parts > room:
        raise CannotRun(
            f"{parts} clients need a core each, and the {len(nodes)} nodes have {room}; ask for fewer clients"
        )
