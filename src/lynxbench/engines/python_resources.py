"""Where a Python call's wall time went, by what the kernel accounts to the calling thread. No profiler, no slowdown.

Every nanosecond of a step lands in exactly one of:
    compute          the calling thread was on a CPU
    queueing         it could run, but waited for a CPU (other programs, or too many threads); Linux only
    synchronization  it slept while other threads of this process burned CPU: it waited for its own workers
    input            it slept on block I/O; only where the kernel accounts delays
    idle             it slept and nothing of this process ran: sleeps, locks, sockets, other processes
"""

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from lynxbench.attribute.read.resource_record import ResourceStep

RESOURCE_SCHEMA = 1
KIND = "resource"

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_STAT = Path("/proc/thread-self/stat")
_TASKS = Path("/proc/self/task")
_BLOCK_IO_TICKS = 41
"""Index of delayacct_blkio_ticks in /proc/…/stat, counted from the pid at 0 (proc(5), field 42)."""
READINGS, UNDISTURBED_NS = 5, 200_000
"""How often the readings before a step are taken, at the most, and what they take: some 10 µs, or a slice of others."""
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def account(step: Callable[[int], int], index: int) -> ResourceStep:
    """Run one step and read the kernel's counters on both sides of it.

    The wait for a CPU is read next to the clocks, again where that took long: a wait between the readings is not the
    step's. One that came after its end is taken off.
    """
    threads, block = _read_threads(), _block_io_ns()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(READINGS):
        looked, queue = time.perf_counter_ns(), _run_queue_ns()
        process, thread, start = time.process_time_ns(), time.thread_time_ns(), time.perf_counter_ns()
        if start - looked < UNDISTURBED_NS:
            break
    step(index)
    end, thread_end, process_end = time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns()
    queue_end = _run_queue_ns()
    late_ns = time.perf_counter_ns() - end - (time.thread_time_ns() - thread_end)  # nothing sleeps in between
    after = resource.getrusage(resource.RUSAGE_SELF)
    block_end, threads_end = _block_io_ns(), _read_threads()
    # Threads that lived to the end; those that ended took their counts with them.
    starts = {name: threads.get(name, (0, 0)) for name in threads_end}
    ran_ns = [ran - starts[name][0] for name, (ran, _) in threads_end.items()]
    waited_ns = [waited - starts[name][1] for name, (_, waited) in threads_end.items()]
    return ResourceStep(
        wall_ns=end - start,
        thread_cpu_ns=thread_end - thread,
        process_cpu_ns=process_end - process,
        run_queue_ns=None if queue is None or queue_end is None else max(0, queue_end - queue - max(0, late_ns)),
        block_io_ns=None if block is None or block_end is None else block_end - block,
        voluntary=after.ru_nvcsw - before.ru_nvcsw,
        involuntary=after.ru_nivcsw - before.ru_nivcsw,
        minor_faults=after.ru_minflt - before.ru_minflt,
        major_faults=after.ru_majflt - before.ru_majflt,
        block_reads=after.ru_inblock - before.ru_inblock,
        block_writes=after.ru_oublock - before.ru_oublock,
        system_ns=round((after.ru_stime - before.ru_stime) * 1e9),
        process_run_queue_ns=sum(waited_ns) if threads_end else None,
        threads=len(threads_end) or None,
        effective_threads=_effective(ran_ns),
    )


def _effective(ran_ns: list[int]) -> float | None:
    squares = sum(ran * ran for ran in ran_ns)
    return sum(ran_ns) ** 2 / squares if squares else None


def write_accounts(accounts: list[ResourceStep], target: str, threads: int, path: Path) -> Path:
    """Write the steps and their exclusive totals as JSON."""
    steps = [msgspec.structs.replace(account, exclusive_ns=account.spent_ns()) for account in accounts]
    totals: Counter[str] = Counter()
    for step in steps:
        totals.update(step.exclusive_ns)
    document = {
        "kind": KIND,
        "version": RESOURCE_SCHEMA,
        "target": target,
        "threads": threads,
        "cpus": _usable_cpus(),
        "wall_ns": sum(account.wall_ns for account in accounts),
        "exclusive_ns": totals,
        "run_queue_known": all(account.run_queue_ns is not None for account in accounts),
        "block_io_known": all(account.block_io_ns is not None for account in accounts),
        "steps": [msgspec.structs.asdict(step) for step in steps],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def _usable_cpus() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count()


def _run_queue_ns() -> int | None:
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _read_threads() -> dict[str, tuple[int, int]]:
    """Each thread's time on a CPU and wait for one so far; empty where the kernel does not account it."""
    threads: dict[str, tuple[int, int]] = {}
    with suppress(OSError):
        for thread in os.listdir(_TASKS):
            with suppress(OSError, ValueError):  # it ended meanwhile
                ran, waited = (_TASKS / thread / "schedstat").read_bytes().split()[:2]
                threads[thread] = int(ran), int(waited)
    return threads


def _block_io_ns() -> int | None:
    try:
        if Path("/proc/sys/kernel/task_delayacct").read_bytes().strip() != b"1":
            return None
        text = _STAT.read_text()
        return int(text[text.rindex(")") + 2 :].split()[_BLOCK_IO_TICKS - 2]) * _TICK_NS
    except (OSError, IndexError, ValueError):
        return None
