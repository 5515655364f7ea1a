"""One probe on several processes: each drives its part of the load on its own loop; nothing is lost in the merge."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns

from lynxbench.errors import CannotRun
from lynxbench.load.driver import run_probe
from lynxbench.load.plan import ClosedLoop, Plan
from lynxbench.load.reading import UNKNOWN_TOKENS
from lynxbench.load.record import COLUMNS, Kind, LoadRecord, RowStore, assemble, merge, read_record, write_record

HEAD_START_NS = 50_000_000
"""From the last process being ready to the common start: enough for every one to have read the moment from its pipe."""
GRACE_S = 15.0
"""Beyond the run's own bound, for writing the record; then a process is given up."""


def drive(plan: Plan) -> LoadRecord:
    """Run a probe, here or on as many processes as the plan says; there is always a record of every request."""
    if plan.processes == 0:
        return run_probe(plan)
    with tempfile.TemporaryDirectory(prefix="lynxbench-load-") as folder:
        workers = [_start(plan, part, Path(folder)) for part in range(plan.processes)]
        try:
            return _gather(plan, workers, Path(folder))
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()
                for pipe in (worker.stdin, worker.stdout):
                    if pipe is not None:
                        pipe.close()


def _start(plan: Plan, part: int, folder: Path) -> subprocess.Popen[bytes]:
    # A program of its own rather than multiprocessing's spawn: the caller's main module is not imported again.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    worker = subprocess.Popen(
        [sys.executable, "-m", "lynxbench.load.processes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    # The plan goes through the pipe and never to disk: its requests may carry a key.
    job = pickle.dumps((plan, part, str(folder / f"{part}.npz")))
    assert worker.stdin is not None
    try:
        worker.stdin.write(len(job).to_bytes(8, "little") + job)
        worker.stdin.flush()
    except BrokenPipeError:
        pass  # it died; gathering finds out
    return worker


def _gather(plan: Plan, workers: list[subprocess.Popen[bytes]], folder: Path) -> LoadRecord:
    ready = []
    for part, worker in enumerate(workers):
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
        pipe = workers[part].stdin
        assert pipe is not None
        try:
            pipe.write(b"%d\n" % start_ns)
            pipe.flush()
        except BrokenPipeError:
            pass
    until_ns = start_ns + int((plan.duration_s + plan.drain_s + GRACE_S) * 1e9)
    records, lost = [], []
    for part, worker in enumerate(workers):
        try:
            worker.wait(max(0.1, (until_ns - perf_counter_ns()) / 1e9))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        path = folder / f"{part}.npz"
        if worker.returncode == 0 and path.exists():
            records.append(read_record(path))
        else:
            lost.append(part)
            records.append(_lost_part(plan, part, len(workers), start_ns))
    return merge(records, tuple(lost))


def _lost_part(plan: Plan, part: int, parts: int, start_ns: int) -> LoadRecord:
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
                "kind": int(Kind.UNSENT),
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
    source = sys.stdin.buffer
    plan, part, path = pickle.loads(source.read(int.from_bytes(source.read(8), "little")))

    def ready() -> int:
        sys.stdout.buffer.write(b"ready\n")
        sys.stdout.buffer.flush()
        return int(source.readline())

    try:
        record = run_probe(plan, part, plan.processes, ready)
    except CannotRun as error:
        sys.stdout.buffer.write(f"cannot {error}\n".encode())
        sys.stdout.buffer.flush()
        return
    temporary = Path(path + ".part")
    write_record(record, temporary)
    temporary.rename(path)


if __name__ == "__main__":
    _work()
