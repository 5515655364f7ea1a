"""The room's door: what was recorded goes in, an attribution comes out, and on demand what people look at beside it.

The order is that of the floors: read a file to columns, tile its steps, judge them, say the verdict.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lynxbench.attribute.judge.faster_hardware import STANDARD_SWAPS, Swap, SwapGain, estimate_swap
from lynxbench.attribute.judge.fresh_memory import measure_fresh
from lynxbench.attribute.judge.process_accounts import judge_accounts, measure_contention
from lynxbench.attribute.judge.roofline import Ceilings
from lynxbench.attribute.judge.served_requests import PHASES, judge_phases
from lynxbench.attribute.judge.server_figures import DeviceCondition, ServedFigures
from lynxbench.attribute.judge.server_verdict import judge_server
from lynxbench.attribute.judge.step_changes import StepAccount, compare_steps
from lynxbench.attribute.judge.step_figures import STRUCTURED, SUMMED, TOLD, StepFigures, measure_steps
from lynxbench.attribute.judge.time_book import CATEGORIES, NOTCH, keep_book
from lynxbench.attribute.judge.verdict import judge_steps
from lynxbench.attribute.read.launch_arguments import parse_arguments
from lynxbench.attribute.read.operands import DTYPE_PRECISION
from lynxbench.attribute.read.operator_names import OperatorKind, operator_kind
from lynxbench.attribute.read.resource_record import ResourceRecord, read_resource
from lynxbench.attribute.read.trace import NONE, EventKind, Trace
from lynxbench.attribute.read.trace_files import read_source
from lynxbench.attribute.read.triton_requests import RequestTrace
from lynxbench.attribute.say.change_lines import say_change
from lynxbench.attribute.say.detail import describe
from lynxbench.attribute.say.verdict_lines import (
    Owner,
    list_operators,
    say_accounts,
    say_requests,
    say_server,
    say_steps,
)
from lynxbench.attribute.tile.client_view import view_load
from lynxbench.attribute.tile.request_split import RequestSplit, split_requests
from lynxbench.attribute.tile.served_series import ServedSeries, Span, tile_series
from lynxbench.attribute.tile.tiling import tile_trace
from lynxbench.attribute.tile.traced_requests import split_traced
from lynxbench.errors import BadInput
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import Attribution, Ceiling, OperatorTime, StepWork
from lynxbench.model.interval import Interval
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision
from lynxbench.model.requests import Requests
from lynxbench.model.result import RULES
from lynxbench.model.samples import Telemetry
from lynxbench.model.trace_detail import Detail, TraceChange
from lynxbench.stats.lagged_correlation import Correlation, correlate_columns

RESOURCE_FILE = "resource.json"
"""What the operating system accounted to the same steps, where an engine left it beside the trace."""
FEWEST_STEPS = 3
"""With fewer, how far steps vary is not known."""
SHOWN_COLUMNS = 3
"""Telemetry columns that are named, the closest first: more would be a list of everything that heats up together."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """What traces are analysed with."""

    ceilings: tuple[Ceiling, ...] = ()
    precision: Precision | None = None
    step_ms: float | None = None
    owners: Mapping[Layer, str] | None = None
    swaps: tuple[Swap, ...] = STANDARD_SWAPS

    def owner(self, layer: Layer) -> str:
        """Who owns a layer here."""
        return (self.owners or DEFAULT_OWNERS).get(layer, DEFAULT_OWNERS[layer])


@dataclass(frozen=True, slots=True)
class TraceAnalysis:
    """An attribution, what a person looks at beside it, and what other hardware would gain (estimates)."""

    attribution: Attribution
    detail: Detail
    swaps: tuple[SwapGain, ...]
    account: StepAccount
    """What two traces are compared by."""


def attribute_trace(
    path: Path | str,
    *,
    ceilings: tuple[Ceiling, ...],
    precision: Precision,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    work: StepWork | None = None,
    rules: int = RULES,
) -> Attribution:
    """Say where the time of a profiler trace or resource record went; BadInput in one line where it cannot be used."""
    path = Path(path)
    source = read_source(path)
    if isinstance(source, ResourceRecord):
        return _attribute_record(source, owner)
    if isinstance(source, RequestTrace):
        return _attribute_traced(source, owner)[0]
    return _attribute(path, source, Ceilings(ceilings, precision), unprofiled_step_ms, owner, work, rules)[0]


def attribute_source(path: Path, trace: Trace, ceilings: Ceilings, *, owner: Owner, rules: int = RULES) -> Attribution:
    """The same for a trace that was read already, of steps whose length without a profiler is not known."""
    return _attribute(path, trace, ceilings, None, owner, None, rules)[0]


def analyse_trace(path: Path, settings: TraceSettings, *, perfetto: Path | None = None) -> TraceAnalysis:
    """The same with details and what-if replays; `perfetto` also writes our categories as a track of the trace."""
    source = read_source(path)
    if not isinstance(source, Trace):
        if perfetto is not None:
            raise BadInput(f"{path}: has no timeline of events to write for Perfetto; leave --perfetto out")
        detail = Detail()
        if isinstance(source, RequestTrace):
            attribution, account = _attribute_traced(source, settings.owner)
            detail = Detail(device="not recorded")
        else:
            attribution = _attribute_record(source, settings.owner)
            wall_ms = attribution.wall_ms_per_step
            account = StepAccount(wall_ms, {c: share * wall_ms for c, share in attribution.shares.items()})
        gains = tuple(estimate_swap(attribution.shares, swap) for swap in settings.swaps)
        return TraceAnalysis(attribution, detail, gains, account)
    ceilings = Ceilings(settings.ceilings, settings.precision or infer_precision(source))
    attribution, figures = _attribute(path, source, ceilings, settings.step_ms, settings.owner)
    book = figures.book
    if perfetto is not None:
        from lynxbench.attribute.say.perfetto import write_perfetto

        write_perfetto(path, book, perfetto)
    # What a part of a step would gain says nothing of the step.
    swaps = settings.swaps if source.unseen is None else ()
    gains = tuple(estimate_swap(attribution.shares, swap, book.groups, book.ceilings) for swap in swaps)
    return TraceAnalysis(attribution, describe(book), gains, _account(figures))


def compare_traces(earlier: TraceAnalysis, later: TraceAnalysis, name: str, settings: TraceSettings) -> TraceChange:
    """The later trace against the earlier one, which is called by its name."""
    return say_change(compare_steps(earlier.account, later.account), name, owner=settings.owner)


def _account(figures: StepFigures) -> StepAccount:
    book = figures.book
    count, mean = len(book), book.spent_ns.mean(axis=0)
    low, high = np.quantile(book.wall_ns, (0.25, 0.75))
    return StepAccount(
        step_ms=float(book.wall_ns.mean()) / 1e6,
        spent_ms={category: float(mean[i]) / 1e6 for i, category in enumerate(CATEGORIES) if mean[i] > 0},
        operators=list_operators(book),
        half_width_ms=NOTCH * float(high - low) / count**0.5 / 1e6 if count >= FEWEST_STEPS else None,
        device=book.tiling.trace.device,
        whole=book.tiling.trace.unseen is None,
        doubt="is damaged or incomplete" if figures.damaged else "",
    )


def _attribute(
    path: Path,
    trace: Trace,
    ceilings: Ceilings,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    work: StepWork | None = None,
    rules: int = RULES,
) -> tuple[Attribution, StepFigures]:
    tiling = tile_trace(trace, rules)
    ceilings = ceilings.believed() if rules >= TOLD else ceilings
    book = keep_book(tiling, ceilings, broadcast=rules >= SUMMED, followed=rules >= STRUCTURED, hidden=rules >= TOLD)
    if tiling.on_device:
        figures = measure_steps(book, unprofiled_step_ms, work=work, rules=rules)
    else:
        record = _accounts_beside(path)
        contention, fresh = (None, None) if record is None else (measure_contention(record), measure_fresh(record))
        figures = measure_steps(book, unprofiled_step_ms, contention=contention, fresh=fresh, rules=rules)
    return say_steps(figures, judge_steps(figures, rules), owner=owner), figures


def _attribute_record(record: ResourceRecord, owner: Owner) -> Attribution:
    contention = measure_contention(record)
    return say_accounts(record, contention, judge_accounts(record, contention), owner=owner)


def _attribute_traced(trace: RequestTrace, owner: Owner) -> tuple[Attribution, StepAccount]:
    split = split_traced(trace)
    attribution = say_requests(split, judge_phases(split), owner=owner)
    account = StepAccount(
        step_ms=split.whole_s * 1e3,
        spent_ms={category: share * split.whole_s * 1e3 for category, share in attribution.shares.items()},
        operators=tuple(
            OperatorTime(
                name=phase,
                category=PHASES[phase].category,
                calls_per_step=1.0,
                ms_per_step=seconds * 1e3,
                share=split.share(phase),
            )
            for phase, seconds in split.seconds.items()
            if seconds > 0
        ),
        unit="request",
        doubt="is damaged or incomplete" if split.damaged else "",
    )
    return attribution, account


def _accounts_beside(path: Path) -> ResourceRecord | None:
    """What the kernel accounted to the same steps without the profiler, where an engine kept it."""
    beside = path.parent / RESOURCE_FILE
    if beside == path or not beside.is_file():
        return None
    try:
        return read_resource(beside)
    except BadInput:
        return None  # a stray file of that name is no reason to refuse the trace


def infer_precision(trace: Trace) -> Precision:
    """The precision of most of the products' time, by operands; TF32 where kernels are named so."""
    rows = trace.rows_named(lambda name: operator_kind(name) is OperatorKind.PRODUCT, EventKind.OPERATOR)
    rows = rows[trace.signature[rows] != NONE]
    taken = np.bincount(trace.signature[rows], weights=trace.dur_ns[rows]) if len(rows) else np.zeros(0)
    spent: Counter[Precision] = Counter()
    for signature in np.flatnonzero(taken).tolist():
        dtypes = (tensor.dtype for tensor in trace.signatures[signature].tensors)
        precision = next((DTYPE_PRECISION[dtype] for dtype in dtypes if dtype in DTYPE_PRECISION), None)
        if precision is not None:
            spent[precision] += int(taken[signature])
    common = spent.most_common(1)[0][0] if spent else Precision.FP32
    narrow = common is Precision.FP32 and any("tf32" in name.lower() for name in trace.names)
    return Precision.TF32 if narrow else common


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """What was kept of a server while it was asked, and of the device it runs on."""

    series: Telemetry
    spans: Sequence[Span]
    """The counted time."""
    launch: Sequence[str] = ()
    """Its command line, or what was declared of it."""
    activity: DeviceActivity | None = None
    conditions: tuple[DeviceCondition, ...] = ()

    @property
    def tiled(self) -> ServedSeries:
        """The counted part of its series."""
        return tile_series(self.series, self.spans)


def attribute_requests(
    served: Sequence[Requests],
    counted: Mapping[str, float],
    telemetry: Telemetry | None,
    *,
    engine: str,
    owner: Owner,
    watched: WatchedServer | None = None,
    others: str = "",
) -> Attribution | str:
    """Whose time served requests are, by what the server showed and counted meanwhile; or why nobody can say.

    Where `others` asked it too, its means are not those of these requests.
    """
    uncounted = (
        f"engine {engine} is not profiled from outside, and the server's /metrics count no phases of its requests"
    )
    load = view_load(served)
    if load is None:
        return "no request was answered, so there is no time to attribute" if counted else uncounted
    split = BadInput(others) if others else _split(served, counted)
    if watched is not None:
        series = watched.tiled
        if series.server:
            network = split.share("network") if isinstance(split, RequestSplit) and split.whole_s > 0 else 0.0
            arguments = parse_arguments(watched.launch)
            figures = ServedFigures(series, load, arguments, watched.activity, watched.conditions, network, others)
            known = split if isinstance(split, RequestSplit) else None
            moving = _moving(served, telemetry)
            return say_server(figures, judge_server(figures, known), known, moving, owner=owner)
    if not counted:
        return uncounted
    try:
        if isinstance(split, BadInput):
            raise split
        judgement = judge_phases(split)
    except BadInput as why:
        return f"the server's counters do not tell where its requests spent their time: {why}"
    return say_requests(split, judgement, _moving(served, telemetry), owner=owner)


def _split(served: Sequence[Requests], counted: Mapping[str, float]) -> RequestSplit | BadInput:
    """A request by phase, or why its phases are not known."""
    latency_s = np.concatenate([(part.last_ns - part.sent_ns)[part.ok] / 1e9 for part in served])
    try:
        return split_requests(counted, client_s=float(latency_s.mean()), requests=len(latency_s))
    except BadInput as why:
        return why


def _moving(served: Sequence[Requests], telemetry: Telemetry | None) -> tuple[Correlation, ...]:
    """Telemetry that moves with the latency of requests."""
    if telemetry is None:
        return ()
    latency_s = np.concatenate([(part.last_ns - part.sent_ns)[part.ok] / 1e9 for part in served])
    sent_s = np.concatenate([part.sent_ns[part.ok] / 1e9 for part in served])
    return correlate_columns(sent_s, latency_s, telemetry.at_ns / 1e9, telemetry.columns)[:SHOWN_COLUMNS]
