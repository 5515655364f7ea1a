"""A traced request split into its phases: every nanosecond between its first and its last stamp to exactly one.

A request to an ensemble, or to a model that calls others, holds the requests to those. Where phases of several run at
once, what works on the request comes first: it is computed rather than queued, and queued rather than received.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from lynxbench.attribute.read.triton_requests import RequestTrace, TracedRequest
from lynxbench.attribute.tile.request_split import RequestSplit
from lynxbench.errors import BadInput

FIRST = ("HTTP_RECV_START", "GRPC_WAITREAD_END", "REQUEST_START")
LAST = ("HTTP_SEND_END", "GRPC_SEND_END", "REQUEST_END")
SPANS: tuple[tuple[str, str, str], ...] = (
    ("inference", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("batching", "COMPUTE_START", "COMPUTE_INPUT_END"),
    ("batching", "COMPUTE_OUTPUT_START", "COMPUTE_END"),
    ("queueing", "QUEUE_START", "COMPUTE_START"),
    ("transport", "HTTP_RECV_START", "HTTP_RECV_END"),
    ("transport", "HTTP_SEND_START", "HTTP_SEND_END"),
    ("transport", "GRPC_SEND_START", "GRPC_SEND_END"),
)
"""Phases by the stamps that bound them."""
UNDIVIDED = ("inference", "COMPUTE_START", "COMPUTE_END")
"""Where a backend does not stamp its copies, its whole computation."""
BY_RANK = ("inference", "batching", "queueing", "transport")
LOST = 0.1
"""Share of requests that may lack their end: those under way when tracing began or stopped."""


def split_traced(trace: RequestTrace) -> RequestSplit:
    """The mean request by phase; BadInput where no request is whole."""
    inner: dict[int, list[int]] = {}
    for number, request in trace.requests.items():
        if request.parent is not None and request.parent in trace.requests:
            inner.setdefault(request.parent, []).append(number)
    spent: Counter[str] = Counter()
    models: Counter[str] = Counter()
    count = unfinished = backwards = 0
    for number, request in trace.requests.items():
        if request.parent is not None:
            continue
        window = _window(request)
        if window is None:
            unfinished += 1
            continue
        parts = list(_parts(trace.requests, inner, number))
        backwards += any(end < start for _, start, end in parts)
        count += 1
        models[request.model or "unnamed"] += 1
        for phase, taken_ns in _exclusive(window, parts).items():
            spent[phase] += taken_ns
    if not count:
        raise BadInput(f"{trace.source}: no request has a beginning and an end; trace until requests are answered")
    notes = list(trace.notes)
    if unfinished > LOST * (count + unfinished):
        notes.append(f"{unfinished:,} of {count + unfinished:,} requests have no end")
    if backwards:
        notes.append(f"{backwards:,} requests have a phase that ends before it begins: a clock jumped")
    return RequestSplit(
        "Triton",
        count,
        {phase: spent[phase] / count / 1e9 for phase in (*BY_RANK, "unexplained")},
        tuple(_remarks(models, unfinished, notes)),
        sees_network=False,
        how="own trace of single requests",
        damaged=bool(notes),
    )


def _remarks(models: Mapping[str, int], unfinished: int, notes: list[str]) -> Iterator[str]:
    yield from notes
    yield "a server traces some of its requests: which share of them, the file does not say"
    if len(models) > 1:
        yield f"requests of {len(models)} models together: {', '.join(f'{m} {n:,}' for m, n in sorted(models.items()))}"
    if unfinished and not notes:
        yield f"{unfinished:,} requests that were under way when tracing stopped were left out"


def _window(request: TracedRequest) -> tuple[int, int] | None:
    if "REQUEST_START" not in request.stamps or "REQUEST_END" not in request.stamps:
        return None
    start = min(request.stamps[name] for name in FIRST if name in request.stamps)
    end = max(request.stamps[name] for name in LAST if name in request.stamps)
    return (start, end) if end > start else None


def _parts(
    requests: Mapping[int, TracedRequest], inner: Mapping[int, list[int]], number: int
) -> Iterator[tuple[str, int, int]]:
    """Phases of a request and of all that it holds; a request that holds itself is met once."""
    met: set[int] = set()
    pending = [number]
    while pending:
        at = pending.pop()
        if at in met:
            continue
        met.add(at)
        pending += inner.get(at, [])
        stamps = requests[at].stamps
        divided = "COMPUTE_INPUT_END" in stamps and "COMPUTE_OUTPUT_START" in stamps
        for phase, first, last in SPANS if divided else (UNDIVIDED, *SPANS[3:]):
            if first in stamps and last in stamps:
                yield phase, stamps[first], stamps[last]


def _exclusive(window: tuple[int, int], parts: list[tuple[str, int, int]]) -> Counter[str]:
    """The window's nanoseconds by phase; what no phase covers is unexplained."""
    start, end = window
    changes: list[tuple[int, str, int]] = []
    for phase, first, last in parts:
        if max(first, start) < min(last, end):
            changes += [(max(first, start), phase, 1), (min(last, end), phase, -1)]
    spent: Counter[str] = Counter()
    at_work: Counter[str] = Counter()
    at = start
    for when, phase, change in [*sorted(changes), (end, "", 0)]:
        leading = next((each for each in BY_RANK if at_work[each]), "unexplained")
        spent[leading] += when - at
        at_work[phase] += change
        at = when
    return spent
