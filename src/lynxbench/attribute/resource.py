"""A verdict from what the operating system counts, for callables that no profiler looks into. Honest, and weak.

Processor time against wall time says whether the step worked or waited; context switches and faults say for what. It
cannot say which operator, so it names no owner unless the step mostly waits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Candidate, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer

BUSY = 0.9
"""A step whose processes used this much processor time for each wall second of one core worked throughout."""
WAITING = 0.5
"""Under this it mostly waited."""
PREEMPTED_PER_S = 200.0
"""Involuntary switches a second beyond which others wanted the core: about the rate of time slices (3 to 6 ms)."""
FAULTS_PER_S = 20_000.0
"""Minor faults a second beyond which page handling (about 0.5 to 1 µs each) takes a percent or more of a core."""


class ResourceStep(msgspec.Struct, frozen=True):
    """What one step used, as the operating system counts it."""

    wall_ns: int
    thread_cpu_ns: int
    process_cpu_ns: int
    voluntary: int = 0
    involuntary: int = 0
    major_faults: int = 0
    minor_faults: int = 0
    block_reads: int = 0
    block_writes: int = 0


class ResourceRecord(msgspec.Struct, frozen=True):
    """The document a callable's session writes beside its samples."""

    kind: str
    steps: list[ResourceStep]
    threads: int = 1


def read_resource(path: Path | str) -> ResourceRecord:
    """The record in a file; BadInput in one line where it is none."""
    try:
        return parse_resource(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a resource record") from None


def parse_resource(text: bytes, source: str = "<resource>") -> ResourceRecord:
    """The record in a text, checked."""
    try:
        record = msgspec.json.decode(text, type=ResourceRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{source}: not a resource record ({error})") from None
    if record.kind != "resource":
        raise BadInput(f"{source}: kind is {record.kind!r}; a resource record says 'resource'")
    if not record.steps:
        raise BadInput(f"{source}: holds no steps; record at least one")
    if any(step.wall_ns <= 0 or step.thread_cpu_ns < 0 or step.process_cpu_ns < 0 for step in record.steps):
        raise BadInput(f"{source}: a step has no wall time or negative processor time; its clock is damaged")
    return record


def attribute_resource(record: ResourceRecord, *, owner: Callable[[Layer], str]) -> Attribution:
    """Whether the steps worked or waited. Always weak: counters do not see what the time was spent on."""
    wall_ns = median(step.wall_ns for step in record.steps)
    # Processor time beyond one core is other threads' help, not more of the step: a step is at most wholly busy.
    shares = [min(1.0, max(step.thread_cpu_ns, step.process_cpu_ns) / step.wall_ns) for step in record.steps]
    busy = median(shares)
    idle = 1.0 - busy
    cores = median(step.process_cpu_ns / step.wall_ns for step in record.steps)
    worst = Interval(max(0.0, 1.0 - max(shares)), idle, 1.0 - min(shares))
    preempted = _per_s(record, "involuntary") / max(1, record.threads)
    evidence = [
        f"{len(record.steps)} steps of {wall_ns / 1e6:.3g} ms: {busy:.0%} with a processor at work, "
        f"{cores:.2f} cores used of {record.threads} threads",
        f"context switches a second: {_per_s(record, 'voluntary'):.0f} voluntary (waiting), "
        f"{_per_s(record, 'involuntary'):.0f} involuntary (others wanted the core)",
        f"faults a second: {_per_s(record, 'minor_faults'):.0f} minor, {_per_s(record, 'major_faults'):.0f} major "
        f"(from disk); block transfers a second: {_per_s(record, 'block_reads') + _per_s(record, 'block_writes'):.0f}",
        "counters of the operating system only: they do not see operators, so nothing is said about ceilings",
    ]
    candidates = _candidates(record, preempted, owner)
    if idle >= 1.0 - WAITING:
        layer = candidates[0].layer if candidates else Layer.APPLICATION
        amount = f"{round(idle * 100)} %"
        return Attribution(
            bottleneck=Category.IDLE,
            bound=Bound.SOFTWARE,
            layer=layer,
            owner=owner(layer),
            shares={Category.IDLE: idle, Category.UNATTRIBUTED: busy},
            gain_if_removed=Interval(1.0, _speedup(worst.estimate), _speedup(worst.high)),
            evidence=tuple(evidence),
            weak=True,
            sentence=f"software-bound: no processor is at work for {amount} of a step (weak: by counters only)",
            next_step="find what the callable waits for (sleep, lock, file, network) and take it off the step's path",
            candidates=candidates or (Candidate(layer=layer, owner=owner(layer), reason="the callable itself waits"),),
            wall_ms_per_step=wall_ns / 1e6,
            steps=len(record.steps),
        )
    worked = busy >= BUSY and preempted < PREEMPTED_PER_S
    said = "a processor worked throughout" if worked else "the step partly worked and partly waited"
    return Attribution(
        bottleneck=Category.COMPUTE if worked else Category.UNATTRIBUTED,
        bound=Bound.UNDETERMINED,
        layer=None,
        owner=None,
        shares=_shares(busy, Category.COMPUTE if worked else Category.UNATTRIBUTED),
        gain_if_removed=Interval(1.0, 1.0, _speedup(worst.high)),
        evidence=tuple(evidence),
        weak=True,
        sentence=f"undetermined: {said}; whether hardware or code bounds it, counters cannot say",
        next_step="profile the callable (for PyTorch, run it with the torch engine) to see what the processor does",
        candidates=candidates,
        wall_ms_per_step=wall_ns / 1e6,
        steps=len(record.steps),
    )


def _shares(busy: float, category: Category) -> dict[Category, float]:
    shares = {category: busy}
    if busy < 1.0:
        shares[Category.IDLE] = 1.0 - busy
    return shares


def _speedup(removed: float) -> float:
    return 1.0 / (1.0 - min(max(removed, 0.0), 0.99))


def _per_s(record: ResourceRecord, field: str) -> float:
    seconds = sum(step.wall_ns for step in record.steps) / 1e9
    return float(sum(getattr(step, field) for step in record.steps)) / seconds


def _candidates(record: ResourceRecord, preempted: float, owner: Callable[[Layer], str]) -> tuple[Candidate, ...]:
    found: list[tuple[Layer, str]] = []
    if _per_s(record, "major_faults") >= 1 or _per_s(record, "block_reads") >= 10:
        found.append((Layer.SYSTEM, "the step reads from disk (major faults or block reads)"))
    if preempted >= PREEMPTED_PER_S:
        found.append((Layer.SYSTEM, "the step is pushed off its cores: more threads than cores, or other load"))
    if _per_s(record, "minor_faults") >= FAULTS_PER_S:
        found.append((Layer.APPLICATION, "memory is asked for and first touched in every step (minor faults)"))
    if _per_s(record, "voluntary") >= 10:
        found.append((Layer.APPLICATION, "the step gives up its core of its own accord: sleeps, locks, files, network"))
    unique = dict(reversed(found))
    ordered = list(dict.fromkeys(layer for layer, _ in found))
    return tuple(Candidate(layer=layer, owner=owner(layer), reason=unique[layer]) for layer in ordered)
