"""A verdict from what the operating system accounts to a step, for callables that no profiler looks into.

The kernel says exactly whether the calling thread worked, waited for a CPU, for its own threads, for a disk, or for
something else. It cannot say which operator, so time on a CPU gets no owner, and its verdict is always weak.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from lynxbench.attribute.contention import FOREIGN_LOAD_FIX, OWN_THREADS_FIX, Contention, measure_contention
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, CandidateLayer, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer

DOMINANT = 0.4
CLEAR_LEAD = 0.1
"""As in the verdict on traces: below the one, or this near to the next, a bottleneck is named and marked weak."""
FILLED = 0.8
"""Own threads that keep this share of their CPUs busy while the caller waits do the step's work; nobody idles."""
FAULTS_PER_S = 20_000.0
"""Minor faults a second beyond which page handling (about 0.5 to 1 µs each) takes a percent or more of a core."""
HALF_REMOVED = 0.5
MOST_REMOVABLE = 0.99
WORDS: dict[Category, str] = {
    Category.COMPUTE: "a processor is at work for {0} of a step",
    Category.QUEUEING: "the step waits for a CPU for {0} of its time",
    Category.SYNCHRONIZATION: "the step waits for its own threads for {0} of its time",
    Category.INPUT: "the step waits for a disk for {0} of its time",
    Category.IDLE: "nothing of the process runs for {0} of a step",
}


class ResourceStep(msgspec.Struct, frozen=True):
    """What one step used, as the operating system counts it."""

    wall_ns: int
    thread_cpu_ns: int
    process_cpu_ns: int
    exclusive_ns: dict[str, int] | None = None
    voluntary: int = 0
    involuntary: int = 0
    major_faults: int = 0
    minor_faults: int = 0
    block_reads: int = 0
    block_writes: int = 0
    process_run_queue_ns: int | None = None
    threads: int | None = None
    effective_threads: float | None = None

    def spent_ns(self) -> dict[Category, int]:
        """Wall time by exclusive category; derived from processor time where the record does not split it."""
        if self.exclusive_ns is not None:
            return {Category(name): spent for name, spent in self.exclusive_ns.items()}
        compute = min(self.thread_cpu_ns, self.wall_ns)
        others = min(max(self.process_cpu_ns - self.thread_cpu_ns, 0), self.wall_ns - compute)
        return {
            Category.COMPUTE: compute,
            Category.SYNCHRONIZATION: others,
            Category.IDLE: self.wall_ns - compute - others,
        }


class ResourceRecord(msgspec.Struct, frozen=True):
    """The document a callable's session writes beside its samples."""

    kind: str
    steps: list[ResourceStep]
    threads: int = 1
    cpus: int | None = None
    run_queue_known: bool = False
    block_io_known: bool = False


def is_resource(head: bytes) -> bool:
    """Whether a file that begins so is a resource record rather than a trace."""
    return head.lstrip().startswith(b"{") and b'"kind"' in head and b'"resource"' in head.partition(b'"steps"')[0]


def read_resource(path: Path | str) -> ResourceRecord:
    """The record in a file; BadInput in one line where it is none."""
    try:
        return parse_resource(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a resource record") from None


def parse_resource(text: bytes, source: str = "<resource>") -> ResourceRecord:
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


def attribute_resource(record: ResourceRecord, *, owner: Callable[[Layer], str]) -> Attribution:
    """Whether the steps worked or waited, and for what."""
    shares = _shares(record)
    ranked = sorted(shares, key=lambda category: -shares[category].estimate)
    top = ranked[0]
    second = shares[ranked[1]].estimate if len(ranked) > 1 else 0.0
    share = shares[top]
    contention = measure_contention(record.steps, record.cpus)
    bound, layer, why, next_step = _judge(top, record, contention)
    weak = top is Category.COMPUTE or share.estimate < DOMINANT or share.estimate - second < CLEAR_LEAD
    if share.estimate < DOMINANT or (share.estimate - second < CLEAR_LEAD and ranked[1] is Category.COMPUTE):
        bound, layer = Bound.UNDETERMINED, None
    wall_ms = float(np.median([step.wall_ns for step in record.steps])) / 1e6
    said = WORDS.get(top, "{0} of a step").format(f"{round(share.estimate * 100)} %")
    lead = f"{bound.value}-bound" if bound is not Bound.UNDETERMINED else "undetermined"
    tail = "; whether hardware or code bounds it, counters cannot say" if top is Category.COMPUTE else f"; {why}"
    gain = _gain(share) if bound is Bound.SOFTWARE else Interval(1.0, 1.0, _speedup(1.0 - _worked(shares)))
    return Attribution(
        bottleneck=top,
        bound=bound,
        layer=layer,
        owner=owner(layer) if layer is not None else None,
        symptom_layer=Layer.APPLICATION if layer is not None and layer is not Layer.APPLICATION else None,
        shares={category: interval.estimate for category, interval in shares.items()},
        gain_if_removed=gain,
        evidence=_evidence(record, contention, wall_ms),
        weak=weak,
        sentence=f"{lead}: {said}{tail}",
        next_step=next_step,
        candidates=_candidates(record, top, layer, why, owner),
        wall_ms_per_step=wall_ms,
        steps=len(record.steps),
    )


def _shares(record: ResourceRecord) -> dict[Category, Interval]:
    """Shares of all time; the range is that of the middle half of the steps."""
    wall = sum(step.wall_ns for step in record.steps)
    each = [{c: spent / step.wall_ns for c, spent in step.spent_ns().items()} for step in record.steps]
    shares: dict[Category, Interval] = {}
    for category in {category for one in each for category in one}:
        total = sum(step.spent_ns().get(category, 0) for step in record.steps) / wall
        values = sorted(one.get(category, 0.0) for one in each)
        low, high = values[len(values) // 4], values[(3 * len(values) - 1) // 4]
        if total > 0:
            shares[category] = Interval(min(low, total), total, max(high, total))
    return shares


def _worked(shares: dict[Category, Interval]) -> float:
    return sum(shares[c].estimate for c in (Category.COMPUTE, Category.SYNCHRONIZATION) if c in shares)


def _judge(
    top: Category, record: ResourceRecord, contention: Contention | None
) -> tuple[Bound, Layer | None, str, str]:
    """Bound, layer, reason and next step of the category that leads."""
    if top is Category.QUEUEING:
        own = contention is not None and contention.own
        why = contention.why if contention is not None else "it could run, and others held the CPUs"
        return Bound.SOFTWARE, Layer.SYSTEM, why, OWN_THREADS_FIX if own else FOREIGN_LOAD_FIX
    if top is Category.SYNCHRONIZATION and contention is not None and contention.matters:
        # The caller waits for threads which themselves wait for a CPU.
        return Bound.SOFTWARE, Layer.SYSTEM, contention.why, OWN_THREADS_FIX if contention.own else FOREIGN_LOAD_FIX
    if top is Category.SYNCHRONIZATION:
        wall = sum(step.wall_ns for step in record.steps)
        cores = sum(step.process_cpu_ns for step in record.steps) / wall
        fix = "profile the callable's threads: their work is the step's"
        if cores >= FILLED * min(record.threads, record.cpus or record.threads):
            return Bound.UNDETERMINED, None, f"they use {cores:.1f} CPUs: the work is done there", fix
        why = f"they use {cores:.1f} of {record.threads} CPUs: they take turns (a lock, the interpreter) or are too few"
        fix = "let the threads work at once: native code outside the interpreter's lock, processes, or larger pieces"
        return Bound.SOFTWARE, Layer.APPLICATION, why, fix
    if top is Category.INPUT:
        fix = "read ahead of the step, keep what is read in memory, or use faster storage"
        return Bound.SOFTWARE, Layer.APPLICATION, "it reads or writes files on its own path", fix
    if top is Category.IDLE:
        if _per_s(record, "major_faults") >= 1 or _per_s(record, "block_reads") >= 10:
            fix = "keep the working set in memory, read ahead of the step, or use faster storage"
            return Bound.SOFTWARE, Layer.SYSTEM, "it reads from disk (major faults or block reads)", fix
        fix = "find what the callable waits for (sleep, lock, file, network) and take it off the step's path"
        return Bound.SOFTWARE, Layer.APPLICATION, "the callable itself waits", fix
    fix = "profile the callable (for PyTorch, run it with the torch engine) to see what the processor does"
    return Bound.UNDETERMINED, None, "", fix


def _gain(share: Interval) -> Interval:
    return Interval(_speedup(share.low * HALF_REMOVED), _speedup(share.estimate), _speedup(share.high))


def _speedup(removed: float) -> float:
    return 1.0 / (1.0 - min(max(removed, 0.0), MOST_REMOVABLE))


def _per_s(record: ResourceRecord, field: str) -> float:
    seconds = sum(step.wall_ns for step in record.steps) / 1e9
    return float(sum(getattr(step, field) for step in record.steps)) / seconds


def _evidence(record: ResourceRecord, contention: Contention | None, wall_ms: float) -> tuple[str, ...]:
    cores = sum(s.process_cpu_ns for s in record.steps) / sum(s.wall_ns for s in record.steps)
    lines = [
        f"{len(record.steps)} steps of {wall_ms:.3g} ms: {cores:.2f} cores used of {record.threads} threads",
        f"context switches a second: {_per_s(record, 'voluntary'):.0f} voluntary (waiting), "
        f"{_per_s(record, 'involuntary'):.0f} involuntary (others wanted the core)",
        f"faults a second: {_per_s(record, 'minor_faults'):.0f} minor, {_per_s(record, 'major_faults'):.0f} major "
        f"(from disk); block transfers a second: {_per_s(record, 'block_reads') + _per_s(record, 'block_writes'):.0f}",
    ]
    if contention is not None:
        lines.append(contention.line)
    if not record.run_queue_known:
        lines.append("the kernel does not account waits for a CPU here: they are counted as idle")
    if not record.block_io_known:
        lines.append("the kernel does not account waits for disks here: they are counted as idle")
    lines.append("accounts of the operating system only: they do not see operators, so nothing is said about ceilings")
    return tuple(lines)


def _candidates(
    record: ResourceRecord, top: Category, layer: Layer | None, why: str, owner: Callable[[Layer], str]
) -> tuple[CandidateLayer, ...]:
    found: dict[Layer, str] = {}
    if layer is not None:
        found[layer] = why
    if _per_s(record, "major_faults") >= 1 or _per_s(record, "block_reads") >= 10:
        found.setdefault(Layer.SYSTEM, "the step reads from disk (major faults or block reads)")
    if top is Category.QUEUEING:
        found.setdefault(Layer.SYSTEM, "other programs want the same CPUs")
        found.setdefault(Layer.APPLICATION, "the program runs more threads than there are CPUs")
    if top is Category.IDLE and not record.run_queue_known:
        found.setdefault(Layer.SYSTEM, "the wait may be for a CPU, which is not accounted here")
    if _per_s(record, "minor_faults") >= FAULTS_PER_S:
        found.setdefault(Layer.APPLICATION, "memory is asked for and first touched in every step (minor faults)")
    return tuple(CandidateLayer(layer=one, owner=owner(one), reason=reason) for one, reason in found.items())
