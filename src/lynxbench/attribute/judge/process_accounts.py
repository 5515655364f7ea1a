"""A verdict from what the operating system accounts to a step, and whether a process had the CPUs it wanted.

The kernel says exactly whether the calling thread worked, waited for a CPU, for its own threads, for a disk, or for
something else. It cannot say which operator, so time on a CPU gets no owner, and its verdict is always weak.
"""

from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.judge.causes import DOMINANT, Judgement, gain_of, is_close, speedup
from lynxbench.attribute.read.resource_record import ResourceRecord
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer

CONTENDED = 0.25
"""Share of its threads' runnable time that a process may wait for a CPU before that is worth a name: schedulers hand
a core round in slices, and a tenth is common on a machine that does anything else at all."""
OWN_FACTOR = 1.25
"""A process whose work is shared by this many times as many threads as it has CPUs competes with itself."""
FILLED = 0.8
"""Own threads that keep this share of their CPUs busy while the caller waits do the step's work; nobody idles."""
FAULTS_PER_S = 20_000.0
"""Minor faults a second beyond which page handling (about 0.5 to 1 µs each) takes a percent or more of a core."""
OWN_THREADS_FIX = "use no more threads than there are CPUs (OMP_NUM_THREADS, engine threads, worker counts)"
FOREIGN_LOAD_FIX = "stop other load, or give the process CPUs of its own"


@dataclass(frozen=True, slots=True)
class Contention:
    """How much of its runnable time a process waited for a CPU, and how many CPUs it wanted at once on average."""

    waited: float
    wanted: float
    used: float
    cpus: int
    threads: int | None
    sharing: float | None
    """How many threads shared the work."""

    @property
    def matters(self) -> bool:
        """Whether the wait is worth naming."""
        return self.waited >= CONTENDED

    @property
    def own(self) -> bool:
        """Whether the process's own threads are what it waits for: more of them work than there are CPUs."""
        return max(self.wanted, self.sharing or 0.0) > OWN_FACTOR * self.cpus

    @property
    def why(self) -> str:
        """The reason in words."""
        if self.own:
            many = max(self.wanted, self.sharing or 0.0)
            return f"{many:.0f} of its own threads share the work and there are {self.cpus} CPUs"
        return f"it wants {self.wanted:.1f} of {self.cpus} CPUs and gets {self.used:.1f}: other load holds them"

    @property
    def fix(self) -> str:
        """What ends it."""
        return OWN_THREADS_FIX if self.own else FOREIGN_LOAD_FIX


def measure_contention(record: ResourceRecord) -> Contention | None:
    """The process's contention over the record's steps; None where the kernel did not account it."""
    steps, cpus = record.steps, record.cpus
    if not cpus or any(step.process_run_queue_ns is None for step in steps):
        return None
    wall = sum(step.wall_ns for step in steps)
    ran = sum(step.process_cpu_ns for step in steps)
    waited = sum(step.process_run_queue_ns or 0 for step in steps)
    if ran + waited <= 0:
        return None
    threads = max((step.threads for step in steps if step.threads is not None), default=None)
    shared = [step.effective_threads for step in steps if step.effective_threads is not None]
    sharing = float(np.median(shared)) if shared else None
    return Contention(waited / (ran + waited), (ran + waited) / wall, ran / wall, cpus, threads, sharing)


def judge_accounts(record: ResourceRecord, contention: Contention | None) -> Judgement:
    """Whether the steps worked or waited, and for what."""
    shares = _shares(record)
    ranked = sorted(shares, key=lambda category: -shares[category].estimate)
    top, share = ranked[0], shares[ranked[0]]
    bound, layer, why, next_step = _explain(top, record, contention)
    close = is_close([part.estimate for part in shares.values()])
    if close and (share.estimate < DOMINANT or ranked[1] is Category.COMPUTE):
        bound, layer = Bound.UNDETERMINED, None
    worked = sum(shares[c].estimate for c in (Category.COMPUTE, Category.SYNCHRONIZATION) if c in shares)
    return Judgement(
        bottleneck=top,
        bound=bound,
        layer=layer,
        symptom=Layer.APPLICATION if layer not in (None, Layer.APPLICATION) else None,
        weak=close or top is Category.COMPUTE,
        shares={category: part.estimate for category, part in shares.items()},
        gain=gain_of(share) if bound is Bound.SOFTWARE else Interval(1.0, 1.0, speedup(1.0 - worked)),
        next_step=next_step,
        candidates=_candidates(record, top, layer, why),
        reason=why,
    )


def _shares(record: ResourceRecord) -> dict[Category, Interval]:
    """Shares of all time; the range is that of the middle half of the steps."""
    wall = sum(step.wall_ns for step in record.steps)
    spent = [step.spent_ns() for step in record.steps]
    shares: dict[Category, Interval] = {}
    for category in Category:
        total = sum(step_ns.get(category, 0) for step_ns in spent) / wall
        parts = sorted(
            step_ns.get(category, 0) / step.wall_ns for step, step_ns in zip(record.steps, spent, strict=True)
        )
        low, high = parts[len(parts) // 4], parts[(3 * len(parts) - 1) // 4]
        if total > 0:
            shares[category] = Interval(min(low, total), total, max(high, total))
    return shares


def _explain(
    top: Category, record: ResourceRecord, contention: Contention | None
) -> tuple[Bound, Layer | None, str, str]:
    """Bound, layer, reason and next step of the category that leads."""
    if top is Category.QUEUEING and contention is None:
        return Bound.SOFTWARE, Layer.SYSTEM, "it could run, and others held the CPUs", FOREIGN_LOAD_FIX
    waits_for_own = top is Category.SYNCHRONIZATION and contention is not None and contention.matters
    if contention is not None and (top is Category.QUEUEING or waits_for_own):
        # The caller waits for a CPU, or for threads which themselves wait for one.
        return Bound.SOFTWARE, Layer.SYSTEM, contention.why, contention.fix
    if top is Category.SYNCHRONIZATION:
        cores = record.cores_used
        fix = "profile the callable's threads: their work is the step's"
        if cores >= FILLED * min(record.threads, record.cpus or record.threads):
            return Bound.UNDETERMINED, None, f"they use {cores:.1f} CPUs: the work is done there", fix
        why = f"they use {cores:.1f} of {record.threads} CPUs: they take turns (a lock, the interpreter) or are too few"
        fix = "let the threads work at once: native code outside the interpreter's lock, processes, or larger pieces"
        return Bound.SOFTWARE, Layer.APPLICATION, why, fix
    if top is Category.INPUT:
        fix = "read ahead of the step, keep what is read in memory, or use faster storage"
        return Bound.SOFTWARE, Layer.APPLICATION, "it reads or writes files on its own path", fix
    if top is Category.IDLE and _reads_disk(record):
        fix = "keep the working set in memory, read ahead of the step, or use faster storage"
        return Bound.SOFTWARE, Layer.SYSTEM, "it reads from disk (major faults or block reads)", fix
    if top is Category.IDLE:
        fix = "find what the callable waits for (sleep, lock, file, network) and take it off the step's path"
        return Bound.SOFTWARE, Layer.APPLICATION, "the callable itself waits", fix
    fix = "profile the callable (for PyTorch, run it with the torch engine) to see what the processor does"
    return Bound.UNDETERMINED, None, "", fix


def _reads_disk(record: ResourceRecord) -> bool:
    return record.per_s("major_faults") >= 1 or record.per_s("block_reads") >= 10


def _candidates(record: ResourceRecord, top: Category, layer: Layer | None, why: str) -> dict[Layer, str]:
    candidates: dict[Layer, str] = {}
    if layer is not None:
        candidates[layer] = why
    if _reads_disk(record):
        candidates.setdefault(Layer.SYSTEM, "the step reads from disk (major faults or block reads)")
    if top is Category.QUEUEING:
        candidates.setdefault(Layer.SYSTEM, "other programs want the same CPUs")
        candidates.setdefault(Layer.APPLICATION, "the program runs more threads than there are CPUs")
    if top is Category.IDLE and not record.run_queue_known:
        candidates.setdefault(Layer.SYSTEM, "the wait may be for a CPU, which is not accounted here")
    if record.per_s("minor_faults") >= FAULTS_PER_S:
        candidates.setdefault(Layer.APPLICATION, "memory is asked for and first touched in every step (minor faults)")
    return candidates
