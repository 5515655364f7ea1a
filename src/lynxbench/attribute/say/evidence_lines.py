"""The figures behind a verdict, in lines a person can check."""

import re
from collections.abc import Sequence

import numpy as np

from lynxbench.attribute.judge.avoidable_work import (
    AGAIN,
    CONSTANT,
    DROPPED,
    NEWER,
    PARTLY,
    REPEATED,
    SLICED,
    SPLIT,
    STRUCTURE,
    UNUSED,
    ZEROS,
)
from lynxbench.attribute.judge.causes import CategoryCause
from lynxbench.attribute.judge.least_time import SMALL_KERNEL_NS, KernelEfficiency, WholeStep
from lynxbench.attribute.judge.process_accounts import Contention
from lynxbench.attribute.judge.roofline import PRODUCT_INTENSITY
from lynxbench.attribute.judge.step_figures import FLOW, SUMMED, TOLD, StepFigures
from lynxbench.attribute.judge.time_book import CORRECTION_MATTERS, KERNELS, OperatorGroup, Shares, TimeBook
from lynxbench.attribute.read.counters import KernelCounters
from lynxbench.attribute.read.operator_names import OperatorKind
from lynxbench.attribute.read.resource_record import ResourceRecord
from lynxbench.attribute.tile.request_split import RequestSplit
from lynxbench.model.attribution import FAR_BELOW_CEILING, Category
from lynxbench.stats.lagged_correlation import Correlation

STABLE_VARIATION = 0.05
"""Steps whose lengths vary by less than this (quartiles around the median) count as one regime."""
UNNAMED_DEVICE = "an accelerator that the trace does not name"
SATURATED = 0.6
"""Units at this share of the measured ceiling count as saturated."""
WORTH_A_LINE = 0.05
"""Share of the steps that operators on the host must take beside a device before they are told of."""
SHOWN_SHARE = 0.005
"""Less is printed as nought, and told of by nobody."""
MOST_NAMES = 3
ROUNDED = 1.02
"""Two figures that differ by less are printed alike."""


def step_evidence(figures: StepFigures, cause: CategoryCause | None) -> tuple[str, ...]:
    """Every figure that the verdict on a trace rests on; `cause` where it is certain."""
    book, shares, efficiency, fusion = figures.book, figures.shares, figures.efficiency, figures.fusion
    tiling, count = book.tiling, len(book)
    each = f"{book.usual_ns / 1e6:.3g} ms{' each' if count > 1 else ''} under the profiler"
    lines = [f"{count} step{'s' if count > 1 else ''} ({tiling.steps.how}), {each}"]
    unseen = tiling.trace.unseen
    if unseen is None or shares.known:
        lines += _inflation(book, shares)
    if unseen is None:
        lines += _utilisation(book, shares, figures.rules)
    lines += [*_achieved(book, efficiency, figures.rules), *_hidden(figures), *_gaps(book)]
    if book.stalled_ns > 0:
        lines.append(
            f"{book.stalled_ns / 1e6:.3g} ms a step in calls that took over twenty times as long as their like: "
            "the process lost its core (counted as idle)"
        )
    if fusion.chains:
        slow = figures.rules >= TOLD and fusion.reached <= FAR_BELOW_CEILING
        stays = f" or less: at {fusion.reached:.0%} of what memory gives, what they compute may stay" if slow else ""
        lines.append(
            f"{fusion.chains} chains of up to {fusion.longest} neighbouring passes over the same data; merging would "
            f"save {fusion.saved_ns.low / 1e6:.3g} to {fusion.saved_ns.high / 1e6:.3g} ms a step{stays}"
        )
    if figures.unread is not None:
        unread = figures.unread
        lines.append(
            f"{unread.operator} makes {unread.elements:.3g} elements in {unread.took_ns / 1e6:.3g} ms; what runs "
            f"behind it in the step reads {unread.part:.2g} of them at the most (who reads the rest later is not seen)"
        )
    if figures.dear is not None:
        dear = figures.dear
        lines.append(
            f"products write {dear.elements:.3g} elements at a time, which only products and sums read in the step: "
            f"{dear.took_ns / 1e6:.3g} ms with these (who reads them later is not seen)"
        )
    lines += _followed(figures)
    lines += _worked_on_host(book)
    if figures.contention is not None:
        lines.append(_contention(figures.contention))
    if figures.fresh is not None and figures.fresh.share >= WORTH_A_LINE:
        lines.append(
            f"{figures.fresh.share:.0%} of a step without the profiler is the system's, in {figures.fresh.faults:,.0f} "
            "pages that it maps and empties: memory that was given back, or was never used"
        )
    if cause is not None and cause.layer is not None and cause.symptom not in (None, cause.layer):
        why = figures.reason_of(cause)
        lines.append(f"the symptom shows in layer {cause.symptom}, the cause lies in layer {cause.layer}: {why}")
    lines += _assumptions(book, shares, efficiency) if unseen is None else [f"not recorded: {unseen.what}"]
    if tiling.misnested:
        lines.append(f"{tiling.misnested} events outlast the one around them: a clock jumped, or threads were mixed up")
    lines += [f"note: {note}" for note in _notes(book)]
    if book.ceilings.declared:
        lines = [say_declared(line) for line in lines]
        lines.append(f"ceilings are not measured on this machine ({book.ceilings.all[0].how})")
    device = (tiling.trace.device or UNNAMED_DEVICE) if tiling.on_device else "cpu"
    lines.append(f"attributed on {device}: shares are of time, and removing one share can uncover another")
    return (*lines, *(_whole_step(figures.whole) if figures.whole is not None else ()))


_NEEDLESS_WORK = {
    AGAIN: "compute what the step had computed before",
    UNUSED: "make results that no operator reads before they are freed",
    ZEROS: "multiply with factors that are nearly all 0",
    SPLIT: "read weights, or add up results, anew for each of several parts that do not wait for each other",
    CONSTANT: "compute what the step before had computed from the same values, while other inputs changed",
    STRUCTURE: "multiply with factors that the step made of far fewer numbers than they have elements",
    DROPPED: "make results of which their only reader drops most, as a mask says",
    PARTLY: "make results of which only a part is read, or returned",
    REPEATED: "multiply rows that they had multiplied before (padding, a prefix taken up again, inputs that are alike)",
    SLICED: "fetch by numbers that count up evenly what a slice shows",
}


def _followed(figures: StepFigures) -> list[str]:
    """What the values of a step showed, where they were followed."""
    flow = figures.book.tiling.trace.dataflow
    if flow is None or figures.rules < FLOW:
        return []
    if not flow.whole:
        return [f"values were not followed through a step ({flow.why}): work that nobody needs would not be seen"]
    if figures.avoidable is None:
        return [
            "values were followed through two steps: no operator of weight computes anew what was there, makes what "
            "nobody reads, multiplies zeros, or reads weights or adds up results anew for parts that could be one"
        ]
    saved, most = figures.avoidable.usual_ns, figures.avoidable.most_ns
    lines = [
        f"values were followed through two steps: {', '.join(figures.avoidable.names[kind][:MOST_NAMES])} "
        f"{_NEEDLESS_WORK[kind]}, about {saved[kind] / 1e6:.3g} ms of a step"
        for kind in sorted(saved, key=lambda kind: -saved[kind])
        if saved[kind] >= WORTH_A_LINE * figures.book.usual_ns
    ]
    return lines + [
        f"values were followed through two steps: {', '.join(figures.avoidable.names[kind][:MOST_NAMES])} "
        f"{_NEEDLESS_WORK[kind]}, at the most {most[kind] / 1e6:.3g} ms of a step: no cheaper order is known for sure"
        for kind in NEWER
        if most.get(kind, 0.0) >= WORTH_A_LINE * figures.book.usual_ns > saved[kind]
    ]


def _worked_on_host(book: TimeBook) -> list[str]:
    """Operators that worked on the host's memory while a device was there to work."""
    worked_ns = book.tiling.worked_ns
    if worked_ns is None or worked_ns.sum() < WORTH_A_LINE * book.wall_ns.sum():
        return []
    most = [int(name) for name in np.argsort(-worked_ns, kind="stable")[:MOST_NAMES] if worked_ns[name] > 0]
    names = ", ".join(book.tiling.trace.names[name] for name in most)
    took_ms = float(worked_ns.sum()) / len(book) / 1e6
    return [f"operators on the host's own memory take {took_ms:.3g} ms a step and start nothing on the device: {names}"]


def say_plainly(text: str) -> str:
    """The same line with figures in thousands written out: 4,280 for 4.28e+03."""
    return _THOUSANDS.sub(lambda found: f"{float(found[0]):,.0f}", text)


_THOUSANDS = re.compile(r"(?<![\w.])\d(?:\.\d+)?e\+0[3-6]\b")


def say_declared(text: str) -> str:
    """The same line where the ceilings come from a table."""
    for measured, declared in _DECLARED_WORDS:
        text = text.replace(measured, declared)
    return text


_DECLARED_WORDS = (
    ("the ceiling measured on this machine", "the declared ceiling"),
    (" measured on bare products", " declared for bare products"),
    (" measured on a copy", " declared for a copy"),
    (" measured: ", " declared: "),
    ("the measured ", "the declared "),
)


def _notes(book: TimeBook) -> list[str]:
    trace, notes = book.tiling.trace, list(book.tiling.trace.notes)
    if isinstance(trace.counters, KernelCounters):
        notes.append(f"counters of {trace.counters.measured:,} launches decide which ceiling binds a kernel")
    elif trace.counters is not None and book.tiling.on_device:
        notes.append(f"{len(trace.counters):,} samples of hardware counters decide which ceiling binds a kernel")
    if not book.tiling.steps.annotated:
        notes.append("steps were not annotated: waits between steps cannot be seen")
    return notes


def _inflation(book: TimeBook, shares: Shares) -> list[str]:
    wall = book.usual_ns
    events = float(np.median(book.tiling.events))
    if not shares.known:
        if shares.moved < CORRECTION_MATTERS:
            return [f"the profiler's own cost ({events:.0f} events a step) does not change the shares"]
        return [
            f"the step time without the profiler is not known; its cost of up to 3.3 µs on {events:.0f} events a step "
            f"may have moved shares by {shares.moved:.0%}, hence the ranges"
        ]
    change = wall / shares.step_ns - 1 if shares.step_ns else 0.0
    matters = "matters and is made" if shares.moved >= CORRECTION_MATTERS else "does not change the shares"
    lines = [
        f"a step takes {shares.step_ns / 1e6:.3g} ms without the profiler, {wall / 1e6:.3g} with it ({change:+.0%}); "
        f"the correction {matters}"
    ]
    if shares.unexplained > CORRECTION_MATTERS:
        lines.append(
            f"{shares.unexplained:.0%} of the profiled step is more than the profiler costs: conditions differed"
        )
    return lines


def _utilisation(book: TimeBook, shares: Shares, rules: int) -> list[str]:
    busy = shares.total(*KERNELS)
    lines = [f"kernels were at work {busy:.0%} of a step: what a utilisation gauge shows, and not how well they worked"]
    groups = book.groups  # since edition 10 a wrapper's work is that of the operator inside it, and counted once
    groups = tuple(g for g in groups if g.kind is not OperatorKind.DISPATCH) if rules >= SUMMED else groups
    worked = [(group, group.work) for group in groups if group.work is not None]
    flops = sum(work.flops * group.calls for group, work in worked if work.intensity > PRODUCT_INTENSITY) / len(book)
    moved = sum(work.total_bytes * group.calls for group, work in worked) / len(book)
    main = max(worked, key=lambda pair: pair[1].flops * pair[0].calls, default=None)
    peak = book.ceilings.arithmetic_per_s(main[1].dtype if main else "") or book.ceilings.named("matmul", None)
    if flops > 0 and peak and shares.step_ns > 0:
        rate = flops / shares.step_ns * 1e9
        lines.append(
            f"model arithmetic {rate / 1e9:.3g} GFLOP/s of {peak / 1e9:.3g} measured on bare products: "
            f"utilisation of arithmetic (MFU) {rate / peak:.1%}"
        )
    copied = book.ceilings.copy_bytes_per_s
    if moved > 0 and copied and shares.step_ns > 0:
        rate = moved / shares.step_ns * 1e9
        part = f"{rate / copied:.1%}" if rate <= copied or rules < TOLD else "what is more comes from caches"
        lines.append(
            f"over the whole step at least {rate / 1e9:.3g} GB/s move of {copied / 1e9:.3g} measured on a copy: {part}"
        )
    return lines + ([book.ceilings.doubt] if book.ceilings.doubt else [])


def _hidden(figures: StepFigures) -> list[str]:
    """Operators of weight of which nobody can say how near their ceiling they ran."""
    shares = {name: share for name, share in figures.hidden.items() if share >= WORTH_A_LINE}
    if not shares:
        return []
    names = ", ".join(f"{name} ({shares[name]:.0%})" for name in sorted(shares, key=lambda name: -shares[name]))
    return [f"of the kernels' time goes to what operands do not tell the least work of: {names}"]


def _achieved(book: TimeBook, efficiency: KernelEfficiency, rules: int) -> list[str]:
    lines = []
    share = efficiency.above_ceiling_ns / max(1.0, sum(efficiency.taken_ns.values()))
    if share > (SHOWN_SHARE if rules >= TOLD else 0.0):
        cached = efficiency.cached_ns / efficiency.above_ceiling_ns
        told = f"; what bounds {cached:.0%} of that is not known" if cached else "; counted as at the ceiling"
        lines.append(f"{share:.0%} of the kernels' time beats the ceiling (operands in cache){told}")
    for category, verb, unit in (
        (Category.COMPUTE, "arithmetic-bound operators achieve", "GFLOP/s"),
        (Category.MEMORY_BANDWIDTH, "memory-bound operators achieve", "GB/s"),
    ):
        groups = [g for g in book.groups if g.category is category and g.attainable_ns is not None]
        took = sum(group.self_ns for group in groups)
        reached = efficiency.of(category)
        if took <= 0 or reached is None:
            continue
        done = sum(_amount(group, category) for group in groups)
        if done <= 0:
            lines.append(f"{verb}, by counters, {reached:.0%} of their ceiling")
            continue
        ceiling = done / sum(group.attainable_ns or 0.0 for group in groups)
        beaten = rules >= TOLD and done / took > ceiling * reached * ROUNDED  # some by more than others make up for
        apart = ", each held to its own" if beaten else ""
        lines.append(f"{verb} {done / took:.3g} {unit} of {ceiling:.3g} measured: {reached:.0%}{apart}")
    unknown = 1.0 - efficiency.coverage
    if unknown > 0.1 and sum(efficiency.taken_ns.values()) > 0:
        lines.append(f"for {unknown:.0%} of the kernels' time shapes or ceilings are missing: efficiency unknown")
    return lines


def _amount(group: OperatorGroup, category: Category) -> float:
    if group.work is None:
        return 0.0
    return (group.work.flops if category is Category.COMPUTE else group.work.total_bytes) * group.calls


def _gaps(book: TimeBook) -> list[str]:
    gaps, lines = book.tiling.gaps, []
    if gaps.count:
        operators = sum(group.calls for group in book.groups) / len(book)
        lines.append(
            f"{operators:.0f} operators a step; between them {gaps.total_ns / len(book) / 1e6:.3g} ms without any "
            f"(median gap {gaps.median_ns / 1e3:.3g} µs)"
        )
    if gaps.leading_ns > 0:
        lines.append(
            f"{gaps.leading_ns / 1e6:.3g} ms pass in a step before its first operator, not annotated: "
            "input preparation, or other host code that the work waits for"
        )
    return lines


def _contention(contention: Contention) -> str:
    threads = f", {contention.threads} threads" if contention.threads is not None else ""
    return (
        f"threads ready to run waited for a CPU {contention.waited:.0%} of their time "
        f"(wanted {contention.wanted:.1f} CPUs, got {contention.used:.1f} of {contention.cpus}{threads})"
    )


def _assumptions(book: TimeBook, shares: Shares, efficiency: KernelEfficiency) -> list[str]:
    """The five assumptions behind a spec sheet's figure, one by one: whether each holds (or None), and why."""
    compute, reached, overall = shares.estimate(Category.COMPUTE), efficiency.of(Category.COMPUTE), efficiency.overall
    fed = shares.total(Category.INPUT, Category.TRANSFER, Category.COMMUNICATION, Category.MEMORY_BANDWIDTH)
    saturated: tuple[bool | None, str] = (None, "(no arithmetic-bound operator with known shapes)")
    fast: tuple[bool | None, str] = (None, "(no shapes or ceilings)")
    stable: tuple[bool | None, str] = (None, "(fewer than three steps)")
    if reached is not None:
        saturated = reached >= SATURATED, f"({reached:.0%} of the measured arithmetic ceiling)"
    if efficiency.coverage > 0:
        fast = overall >= SATURATED, f"(kernels at {overall:.0%} of their ceilings)"
    if len(book) >= 3:
        low, mid, high = np.quantile(book.wall_ns, (0.25, 0.5, 0.75))
        variation = float((high - low) / mid) if mid else 0.0
        stable = variation <= STABLE_VARIATION, f"over these steps (quartiles {variation:.1%} apart)"
    assumptions = {
        "1, compute-bound": (compute >= 0.5, f"(arithmetic {compute:.0%} of a step)"),
        "2, units saturated": saturated,
        "3, data movement keeps up": (fed < 0.25, f"(moving and awaiting data {fed:.0%} of a step)"),
        "4, fast paths taken": fast,
        "5, stable over time": stable,
    }
    words = {True: "holds", False: "broken", None: "unknown"}
    return [f"assumption {name}: {words[holds]} {why}" for name, (holds, why) in assumptions.items()]


def _whole_step(whole: WholeStep) -> list[str]:
    """The step against the least work of its workload."""
    in_bytes = whole.bound is Category.MEMORY_BANDWIDTH
    work = whole.work
    amount = f"read {work.read_bytes / 1e9:.3g} GB" if in_bytes else f"do {work.operations:.3g} operations"
    rate = f"{whole.per_s / 1e12:.3g} T{'B' if in_bytes else 'FLOP'}/s"
    lines = [
        f"a step must {amount} at the least ({work.how}): {whole.least_ns / 1e6:.3g} ms at the measured "
        f"{rate}, {whole.floor:.0%} of the step"
    ]
    if whole.products_ns > 0:
        reached = min(1.0, whole.least_ns / whole.products_ns)
        lines.append(
            f"its products take {whole.products_ns / 1e6:.3g} ms ({whole.products_ns / whole.step_ns:.0%} of the "
            f"step), at {reached:.0%} of that ceiling or more"
        )
    if whole.small_count >= 1:
        lines.append(
            f"{whole.small_count:.0f} kernels of {SMALL_KERNEL_NS // 1000} µs or less take "
            f"{whole.small_ns / 1e6:.3g} ms ({whole.small_ns / whole.step_ns:.0%} of the step): fixed cost"
        )
    return lines


def account_evidence(record: ResourceRecord, contention: Contention | None, wall_ms: float) -> tuple[str, ...]:
    """The figures of the operating system's account."""
    per_s, used = record.per_s, f"{record.cores_used:.2f} cores used of {record.threads} threads"
    lines = [
        f"{len(record.steps)} steps of {wall_ms:.3g} ms: {used}",
        f"context switches a second: {per_s('voluntary'):.0f} voluntary (waiting), "
        f"{per_s('involuntary'):.0f} involuntary (others wanted the core)",
        f"faults a second: {per_s('minor_faults'):.0f} minor, {per_s('major_faults'):.0f} major "
        f"(from disk); block transfers a second: {per_s('block_reads') + per_s('block_writes'):.0f}",
    ]
    if contention is not None:
        lines.append(_contention(contention))
    if not record.run_queue_known:
        lines.append("the kernel does not account waits for a CPU here: they are counted as idle")
    if not record.block_io_known:
        lines.append("the kernel does not account waits for disks here: they are counted as idle")
    lines.append("accounts of the operating system only: they do not see operators, so nothing is said about ceilings")
    return tuple(lines)


def request_evidence(split: RequestSplit, moving: Sequence[Correlation]) -> tuple[str, ...]:
    """The figures of a server's own count, and the telemetry that moves with its requests."""
    whole = f"{split.requests} requests of {split.whole_s * 1e3:.3g} ms"
    lines = [f"{whole} by {split.server}'s {split.how}"]
    for phase, seconds in split.seconds.items():
        lines.append(f"{phase}: {seconds * 1e3:.3g} ms a request ({split.share(phase):.0%})")
    if not split.sees_network:
        lines.append("the client's latency was not given: the network is not in the split")
    lines += [f"note: {text}" for text in split.approximate]
    lines.append("a server's phases do not see kernels; whether prefill or decode run near a ceiling, a trace can say")
    for column in moving:
        way, side = "rises" if column.r > 0 else "falls", "after" if column.lag_s > 0 else "before"
        when = "at the same time" if abs(column.lag_s) < 1e-9 else f"{abs(column.lag_s):.3g} s {side} it"
        relation = f"{way} with the latency of requests, {when} (r {column.r:+.2f}, {column.bins} bins)"
        lines.append(f"telemetry: {column.column} {relation}")
    return tuple(lines)
