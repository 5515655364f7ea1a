"""What the operating system accounted to the steps of a callable that no profiler looks into, step by step."""

from pathlib import Path

import msgspec

from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category
from lynxbench.plain_files import read_plain


class ResourceStep(msgspec.Struct, frozen=True):
    """What one step took, and what the kernel counted meanwhile: switches of context, faults, transfers of blocks."""

    wall_ns: int
    thread_cpu_ns: int
    process_cpu_ns: int
    run_queue_ns: int | None = None
    block_io_ns: int | None = None
    voluntary: int = 0
    involuntary: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    block_reads: int = 0
    block_writes: int = 0
    system_ns: int = 0
    process_run_queue_ns: int | None = None
    """All threads' waits for a CPU together: it can exceed the wall time."""
    threads: int | None = None
    """How many threads the process had at the end."""
    effective_threads: float | None = None
    """How many threads shared the work: (Σ cpu)² / Σ cpu², which is n for n threads that each did as much."""
    exclusive_ns: dict[str, int] | None = None

    def spent_ns(self) -> dict[Category, int]:
        """Wall time by exclusive category, which add up to it; derived where the record does not split it."""
        if self.exclusive_ns is not None:
            return {Category(name): spent for name, spent in self.exclusive_ns.items()}
        rest = self.wall_ns
        spent: dict[Category, int] = {}
        for category, ns in (
            (Category.COMPUTE, self.thread_cpu_ns),
            (Category.QUEUEING, self.run_queue_ns or 0),
            (Category.INPUT, self.block_io_ns or 0),
            (Category.SYNCHRONIZATION, max(self.process_cpu_ns - self.thread_cpu_ns, 0)),
        ):
            spent[category] = min(ns, rest)
            rest -= spent[category]
        return spent | {Category.IDLE: rest}


class ResourceRecord(msgspec.Struct, frozen=True):
    """The document a callable's session writes beside its samples."""

    kind: str
    steps: list[ResourceStep]
    threads: int = 1
    cpus: int | None = None
    run_queue_known: bool = False
    block_io_known: bool = False

    @property
    def cores_used(self) -> float:
        """How many CPUs were at work on average."""
        return sum(step.process_cpu_ns for step in self.steps) / sum(step.wall_ns for step in self.steps)

    def per_s(self, count: str) -> float:
        """One of a step's counts, a second."""
        seconds = sum(step.wall_ns for step in self.steps) / 1e9
        return float(sum(getattr(step, count) for step in self.steps)) / seconds


def is_resource(head: bytes) -> bool:
    """Whether a file that begins so is a resource record rather than a trace."""
    return head.lstrip().startswith(b"{") and b'"kind"' in head and b'"resource"' in head.partition(b'"steps"')[0]


def read_resource(path: Path) -> ResourceRecord:
    """The record in a file; BadInput in one line where it is none."""
    try:
        return parse_resource(read_plain(path), str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a resource record") from None


def parse_resource(text: bytes, source: str) -> ResourceRecord:
    """The record in a text, checked: the categories of a step add up to its wall time."""
    try:
        record = msgspec.json.decode(text, type=ResourceRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{source}: not a resource record ({error})") from None
    if record.kind != "resource":
        raise BadInput(f"{source}: kind is {record.kind!r}; a resource record says 'resource'")
    if not record.steps:
        raise BadInput(f"{source}: holds no steps; record at least one")
    for step in record.steps:
        if step.wall_ns <= 0 or step.thread_cpu_ns < 0 or step.process_cpu_ns < 0:
            raise BadInput(f"{source}: a step has no wall time or negative processor time; its clock is damaged")
        try:
            spent = step.spent_ns()
        except ValueError as error:
            raise BadInput(f"{source}: exclusive_ns: {error}; use the categories of an attribution") from None
        if sum(spent.values()) != step.wall_ns or min(spent.values()) < 0:
            raise BadInput(f"{source}: exclusive_ns of a step does not add up to its wall_ns; the record is damaged")
    return record
