"""One probe on several processes: each drives its part of the load on its own loop; nothing is lost in the merge.

While it runs, finished rows can be read and the load can be ended early; the process that watches never sends.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType

import numpy as np

from lynxbench.errors import CannotRun
from lynxbench.load.driver import ParentLine, run_probe
from lynxbench.load.load_record import (
    COLUMNS,
    LoadRecord,
    RequestEnd,
    RowStore,
    assemble,
    merge,
    read_record,
    write_record,
)
from lynxbench.load.plan import ClosedLoop, LoadPlan
from lynxbench.load.response_reading import UNKNOWN_TOKENS
from lynxbench.model.samples import Int64

HEAD_START_NS = 50_000_000
"""From the last process being ready to the common start: enough for every one to have read the moment from its pipe."""
GRACE_S = 15.0
"""Beyond the run's own bound, for writing the record; then a process is given up."""


def drive(plan: LoadPlan) -> LoadRecord:
    """Run a probe, here or on as many processes as the plan says; there is always a record of every request."""
    if plan.processes == 0:
        return run_probe(plan)
    with RunningProbe(plan) as probe:
        return probe.finish()


class RunningProbe:
    """A probe under way on processes of its own."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self._folder = tempfile.TemporaryDirectory(prefix="lynxbench-load-")
        self._workers: list[subprocess.Popen[bytes]] = []
        self._read_bytes = [0] * plan.processes
        self._rows: list[Int64] = []
        try:
            folder = Path(self._folder.name)
            self._workers = [start_part(plan, part, folder) for part in range(plan.processes)]
            self.start_ns = self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RunningProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether any process is still at work."""
        return any(worker.poll() is None for worker in self._workers)

    @property
    def finished(self) -> int:
        """How many requests have ended so far."""
        paths = [Path(self._folder.name) / f"{part}.rows" for part in range(self.plan.processes)]
        return sum(path.stat().st_size for path in paths if path.exists()) // (8 * len(COLUMNS))

    def rows(self) -> Int64:
        """The rows finished so far (a fraction of a second behind), one line each in the order of COLUMNS."""
        row_bytes = 8 * len(COLUMNS)
        for part in range(self.plan.processes):
            path = Path(self._folder.name) / f"{part}.rows"
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read_bytes[part])
                data = file.read()
            whole = len(data) // row_bytes * row_bytes
            if whole:
                self._read_bytes[part] += whole
                self._rows.append(np.frombuffer(data[:whole], dtype=np.int64).reshape(-1, len(COLUMNS)))
        return np.concatenate(self._rows) if self._rows else np.zeros((0, len(COLUMNS)), dtype=np.int64)

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish within the drain bound."""
        for worker in self._workers:
            assert worker.stdin is not None
            try:
                worker.stdin.write(b"e")
                worker.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # it has ended already

    def finish(self) -> LoadRecord:
        """Wait for the end, which the plan bounds, and gather the whole record."""
        until_ns = self.start_ns + int((self.plan.duration_s + self.plan.drain_s + GRACE_S) * 1e9)
        records, lost = [], []
        for part, worker in enumerate(self._workers):
            try:
                worker.wait(max(0.1, (until_ns - perf_counter_ns()) / 1e9))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            path = Path(self._folder.name) / f"{part}.npz"
            if worker.returncode == 0 and path.exists():
                records.append(read_record(path))
            else:
                lost.append(part)
                records.append(lost_part(self.plan, part, len(self._workers), self.start_ns))
        return merge(records, tuple(lost))

    def close(self) -> None:
        """End whatever is left of it."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self._folder.cleanup()

    def _begin(self) -> int:
        ready = []
        for part, worker in enumerate(self._workers):
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if line.startswith(b"cannot "):
                raise CannotRun(line[7:].decode("utf-8", "replace").strip())
            if line == b"ready\n":
                ready.append(part)
        if not ready:
            raise CannotRun("no client process could be started; see the messages above")
        start_ns = perf_counter_ns() + HEAD_START_NS
        for part in ready:
            pipe = self._workers[part].stdin
            assert pipe is not None
            try:
                pipe.write(b"%d\n" % start_ns)
                pipe.flush()
            except BrokenPipeError:
                pass
        return start_ns


def start_part(plan: LoadPlan, part: int, folder: Path) -> subprocess.Popen[bytes]:
    """A process for one part of a plan; it says `ready`, waits for the start, and leaves FOLDER/PART.npz."""
    # A program of its own rather than multiprocessing's spawn: the caller's main module is not imported again.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    worker = subprocess.Popen(
        [sys.executable, "-m", "lynxbench.load.processes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    # The plan goes through the pipe and never to disk: its requests may carry a key.
    job = pickle.dumps((plan, part, str(folder / str(part))))
    assert worker.stdin is not None
    try:
        worker.stdin.write(len(job).to_bytes(8, "little") + job)
        worker.stdin.flush()
    except BrokenPipeError:
        pass  # it died; gathering finds out
    return worker


def lost_part(plan: LoadPlan, part: int, parts: int, start_ns: int) -> LoadRecord:
    """What a dead process should have sent: its rows are there and unsent, so that the counts still add up."""
    store = RowStore()
    if not isinstance(plan.load, ClosedLoop):
        mine = plan.load.offsets_ns[part::parts]
        for place, offset in enumerate(mine[mine < plan.duration_s * 1e9].tolist()):
            row = dict.fromkeys(COLUMNS, 0)
            row |= {
                "number": part + place * parts,
                "process": part,
                "scheduled_ns": start_ns + offset,
                "kind": int(RequestEnd.UNSENT),
            }
            row |= dict.fromkeys(("output_tokens", "input_tokens", "cached_tokens"), UNKNOWN_TOKENS)
            store.add(tuple(row.values()))
            if plan.keep_text:
                store.texts.append("")
    return assemble(
        store, start_ns=start_ns, end_ns=start_ns, stop_reason=f"client process {part} was lost", health=(), notes={}
    )


def _work() -> None:
    """The spawned process: read the job, connect, wait for the common start, run, write the record."""
    source = io.FileIO(0, closefd=False)  # no buffer: what follows the start is read by the event loop
    plan, part, path = pickle.loads(_read_whole(source, int.from_bytes(_read_whole(source, 8), "little")))

    def ready() -> int:
        sys.stdout.buffer.write(b"ready\n")
        sys.stdout.buffer.flush()
        return int(source.readline())

    with open(f"{path}.rows", "wb", buffering=0) as journal:
        try:
            record = run_probe(plan, part, plan.processes, ready, ParentLine(journal.fileno(), 0))
        except CannotRun as error:
            sys.stdout.buffer.write(f"cannot {error}\n".encode())
            sys.stdout.buffer.flush()
            return
    temporary = Path(f"{path}.npz.part")
    write_record(record, temporary)
    temporary.rename(f"{path}.npz")


def _read_whole(source: io.FileIO, size: int) -> bytes:
    parts = []
    while size:
        part = source.read(size)
        if not part:
            raise SystemExit(1)  # whoever asked is gone
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    _work()
