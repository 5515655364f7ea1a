"""One probe on several processes: each drives its part of the load on its own loop; nothing is lost in the merge.

While it runs, finished rows can be read and the load can be ended early; the process that watches never sends.
"""

import io
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from time import perf_counter_ns

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
from lynxbench.load.wire import Ticket, unanswered_row
from lynxbench.model.samples import Int64

HEAD_START_NS = 50_000_000
"""From the last process being ready to the common start: enough for every one to have read the moment from its pipe."""
GRACE_S = 15.0
"""Beyond the run's own bound, for writing the record; then a process is given up."""
ROW_BYTES = 8 * len(COLUMNS)


def drive(plan: LoadPlan) -> LoadRecord:
    """Run a probe, here or on as many processes as the plan says; there is always a record of every request."""
    if plan.processes == 0:
        return run_probe(plan)
    with RunningProbe(plan) as probe:
        return probe.finish()


class PartProcess:
    """One process for one part of a plan: it says `ready`, waits for the start, and leaves its record."""

    def __init__(self, plan: LoadPlan, part: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lynxbench-load-")
        self._path = Path(self._folder.name) / str(part)
        self._rows_path = self._path.with_suffix(".rows")
        self._read_bytes = 0
        # A program of its own rather than multiprocessing's spawn: the caller's main module is not imported again.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lynxbench.load.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        # The plan goes through the pipe and never to disk: its requests may carry a key.
        job = pickle.dumps((plan, part, str(self._path)))
        self._write(len(job).to_bytes(8, "little") + job)

    def is_ready(self) -> bool:
        """Wait until it is connected; False where it died, CannotRun where it says why it cannot."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.startswith(b"cannot "):
            raise CannotRun(line[7:].decode("utf-8", "replace").strip())
        return line == b"ready\n"

    def begin(self, start_ns: int) -> None:
        """Say when the load starts, on this machine's clock."""
        self._write(b"%d\n" % start_ns)

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self._process.poll() is None

    @property
    def finished(self) -> int:
        """How many requests have ended so far."""
        return self._rows_path.stat().st_size // ROW_BYTES if self._rows_path.exists() else 0

    def new_rows(self) -> Int64:
        """The rows finished since the last look (a fraction of a second behind), in the order of COLUMNS."""
        data = b""
        if self._rows_path.exists():
            with self._rows_path.open("rb") as file:
                file.seek(self._read_bytes)
                data = file.read()
        whole = data[: len(data) // ROW_BYTES * ROW_BYTES]
        self._read_bytes += len(whole)
        return np.frombuffer(whole, dtype=np.int64).reshape(-1, len(COLUMNS))

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish within the drain bound."""
        self._write(b"e")

    def finish(self, within_s: float) -> LoadRecord | None:
        """The whole record; None where the process died, or does not end and is ended."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        path = self._path.with_suffix(".npz")
        return read_record(path) if self._process.returncode == 0 and path.exists() else None

    def close(self) -> None:
        """End whatever is left of it, and its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._folder.cleanup()

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it has ended already; gathering finds out
            self._process.stdin.write(data)
            self._process.stdin.flush()


class RunningProbe(AbstractContextManager["RunningProbe"]):
    """A probe under way on processes of its own."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self._parts: list[PartProcess] = []
        self._rows = [np.zeros((0, len(COLUMNS)), dtype=np.int64)]
        try:
            for part in range(plan.processes):
                self._parts.append(PartProcess(plan, part))
            ready = [part for part in self._parts if part.is_ready()]
            if not ready:
                raise CannotRun("no client process could be started; see the messages above")
            self.start_ns = perf_counter_ns() + HEAD_START_NS
            for part_process in ready:
                part_process.begin(self.start_ns)
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether any process is still at work."""
        return any(part.running for part in self._parts)

    @property
    def finished(self) -> int:
        """How many requests have ended so far."""
        return sum(part.finished for part in self._parts)

    def rows(self) -> Int64:
        """The rows finished so far, one line each in the order of COLUMNS."""
        self._rows = [np.concatenate([*self._rows, *(part.new_rows() for part in self._parts)])]
        return self._rows[0]

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish within the drain bound."""
        for part in self._parts:
            part.close_load()

    def finish(self) -> LoadRecord:
        """Wait for the end, which the plan bounds, and gather the whole record."""
        until_ns = self.start_ns + int((self.plan.duration_s + self.plan.drain_s + GRACE_S) * 1e9)
        records = [part.finish(max(0.1, (until_ns - perf_counter_ns()) / 1e9)) for part in self._parts]
        return gather(self.plan, records, self.start_ns)

    def close(self) -> None:
        """End whatever is left of it."""
        for part in self._parts:
            part.close()


def gather(plan: LoadPlan, parts: Sequence[LoadRecord | None], start_ns: int) -> LoadRecord:
    """One record of all parts; what a lost one should have sent is there and unsent, so that the counts add up."""
    lost = tuple(part for part, record in enumerate(parts) if record is None)
    whole = [_lost_part(plan, part, len(parts), start_ns) if r is None else r for part, r in enumerate(parts)]
    return merge(whole, lost)


def _lost_part(plan: LoadPlan, part: int, parts: int, start_ns: int) -> LoadRecord:
    store = RowStore()
    if not isinstance(plan.load, ClosedLoop):
        mine = plan.load.offsets_ns[part::parts]
        for place, offset in enumerate(mine[mine < plan.duration_s * 1e9].tolist()):
            ticket = Ticket(part + place * parts, start_ns + offset, b"")
            store.add(unanswered_row(ticket, part, RequestEnd.UNSENT))
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
