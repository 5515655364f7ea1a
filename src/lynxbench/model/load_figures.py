"""What a result says about load: every request accounted for, at which load, by which instrument, how far it holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256
from lynxbench.model.figures import Figure
from lynxbench.model.mlperf_forms import MlperfFigures
from lynxbench.model.node_record import NodeRecord
from lynxbench.model.server_profile import ServerKernels
from lynxbench.model.serving import CacheState


class Accounting(Document):
    """Offered = ok + cancelled + every kind of failure, always."""

    offered: int
    sent: int
    ok: int
    failed: dict[str, int]
    """By kind: http_error, reset, timeout_idle …; the values sum to offered − ok − cancelled."""
    retries: int
    said: dict[str, int]
    """What failing answers said, and how often."""
    cancelled: Annotated[int, Field(exclude_if=lambda cancelled: cancelled == 0)] = 0
    """Given up by the client itself, as the contract asks of a share of them."""

    @property
    def failures(self) -> int:
        """Requests that the server did not answer, and that nobody took back."""
        return self.offered - self.ok - self.cancelled


class SourceFile(Document):
    """A file that the work came from: which one, never what it says."""

    what: str
    """prompts, sessions, trace or answers."""
    file: str
    sha256: Sha256
    size_bytes: int
    rows: int


class AlikeAnswers(Document):
    """Different prompts whose answers were looked at, and those of them that had the commonest answer to the letter."""

    compared: int
    alike: int

    @property
    def share(self) -> float:
        """Of the compared ones."""
        return self.alike / self.compared


class TokenCount(Document):
    """Where token counts come from, and what was really asked and answered."""

    source: Literal["usage", "tokenizer", "unknown", "none"]
    """`none`: this task has no tokens to count."""
    input_mean: float | None
    output_mean: float | None
    asked_output_mean: float | None
    shorter_share: float | None
    """Answers that ended before the asked number of tokens."""
    coalesced_share: float | None
    """Output events that were read together with others: single inter-token times were not seen."""
    reasoning_mean: Annotated[float | None, Field(exclude_if=lambda mean: mean is None)] = None
    """Output tokens before the answer itself, by the server's usage."""
    longer_share: Annotated[float | None, Field(exclude_if=lambda share: share is None)] = None
    """Answers of more tokens than were asked for, which are a bound to every server; earlier versions did not look."""
    unpaced_share: Annotated[float | None, Field(exclude_if=lambda share: not share)] = None
    """Answers of several tokens that came at once, or after others that were not sent: no time per token shows."""
    alike: Annotated[AlikeAnswers | None, Field(exclude_if=lambda alike: alike is None)] = None
    """Answers of more than a handful of tokens to different prompts; earlier versions did not look."""
    first_share: Annotated[float | None, Field(exclude_if=lambda share: share is None)] = None
    """Of an answer, what its first event held, where events hold several tokens: it came before any time per token."""


class ExpectedCache(Document):
    """What a cache without end would have held of the requests that were answered."""

    share: float
    in_flight_share: float
    """The part of it that belonged to requests which had no token yet: no cache holds what is not computed."""
    input_tokens: int
    """Of the same requests, as they were asked for."""
    distinct_tokens: int
    """Tokens of all different blocks: a smaller cache evicts."""
    block: int


class CacheRecord(Document):
    """The prefix cache's state: controlled, or recorded."""

    regime: CacheState
    distinct_prompts: int | None
    """None where every prompt is unique."""
    cached_share: float | None
    """Input tokens that came from the cache by the answers' usage; null where the server does not say."""
    counters: dict[str, float]
    """The server's own cache counters over the run."""
    counted_share: Annotated[float | None, Field(exclude_if=lambda share: share is None)] = None
    """Input tokens from the cache by the answers' usage, else by the server's counters; beside what was to be."""
    expected: Annotated[ExpectedCache | None, Field(exclude_if=lambda expected: expected is None)] = None
    reset: Annotated[str, Field(exclude_if=lambda reset: not reset)] = ""
    """Whether the cache was emptied before each run and probe, and if not, why."""


class PreFlight(Document):
    """The instrument against the bundled null server, just before the run."""

    streams: int
    requests_per_s: float
    events_per_s: float
    ttft_error_mean_ms: float | None
    ttft_error_p99_ms: float | None
    itl_error: float | None
    lateness_mean_ms: float | None
    problems: tuple[str, ...]


class InstrumentRecord(Document):
    """How the client fared. Void: no figure of this run is the server's."""

    verdict: Literal["good", "void"]
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]
    processes: int
    mean_lateness_ms: float | None
    p99_lateness_ms: float | None
    p99_lag_ms: float | None
    busiest_share: float | None
    preflight: PreFlight | None


class CurvePoint(Document):
    """One probe of the throughput-latency curve."""

    rate_per_s: float
    outcome: Literal["pass", "fail", "undecided"]
    why: str
    scout: bool
    requests: int
    seconds: float
    p50_s: float | None
    p99_s: float | None
    goodput_per_s: float


class ClosedLoopPoint(Document):
    """What a server completed with so many in flight."""

    in_flight: int
    rate_per_s: float


class SaturationRecord(Document):
    """The largest rate at which the objective was shown to hold, and the smallest at which it was shown not to."""

    passed_per_s: float | None
    failed_per_s: float | None
    failed_outcome: Literal["pass", "fail", "undecided"] | None
    """`undecided` in results of earlier versions alone: such a rate bounds nothing."""
    confirmed: bool
    goodput_per_s: float | None
    knee_per_s: float | None
    ceiling_per_s: float
    """Completions a second of closed loops, the most of them: an upper bound."""
    probe_s: float
    note: str
    saturated: str
    """What was at its limit, as far as it could be seen."""
    curve: tuple[CurvePoint, ...]
    undecided_per_s: float | None = None
    """The smallest rate over the claim that came to no verdict."""
    watched_s: float | None = None
    """Seconds for which the claimed rate was asked; not known to earlier versions."""
    rarest_s: float | None = None
    """A disturbance that comes less often than once in so many seconds may not have been seen (rule of three)."""
    at_least_per_s: Annotated[float | None, Field(exclude_if=lambda rate: rate is None)] = None
    """The highest rate whose own probes show that it holds, confirmed or not: a lower bound of the saturation."""
    is_ceiling_highest: Annotated[bool, Field(exclude_if=lambda highest: not highest)] = False
    """Whether other numbers in flight were seen to complete no more: then no rate above the ceiling can be held."""
    loops: Annotated[tuple[ClosedLoopPoint, ...], Field(exclude_if=lambda loops: not loops)] = ()
    """The closed loops that the ceiling was taken from; not known to earlier versions."""

    @property
    def lower_per_s(self) -> float | None:
        """What decisions may rest on: the confirmed rate, else what is shown at least, else what passed once."""
        return self.passed_per_s if self.confirmed or self.at_least_per_s is None else self.at_least_per_s

    @property
    def upper_per_s(self) -> float | None:
        """The rate that was shown to fail; None where none was."""
        return self.failed_per_s if self.failed_outcome == "fail" else None


class ModelFigures(Document):
    """What one of several models did, in what was counted."""

    name: str
    share: float
    """Agreed on."""
    offered: int
    ok: int
    cancelled: int
    output_tokens_per_s: float | None
    first_token_ms: tuple[float | None, float | None]
    """p50 and p99 from the scheduled arrival."""
    latency_ms: tuple[float | None, float | None]


class SessionFigures(Document):
    """Sessions of several calls, from the first call being due to the end of the last."""

    offered: int
    whole: int
    """Those whose every call was answered."""
    calls: int
    duration_ms: tuple[float | None, float | None]
    """p50 and p99 of whole ones, gaps included."""
    waiting_ms: tuple[float | None, float | None]
    """The same without the time in which no call was open: tools and people at work, not the server."""


class AnswerFigures(Document):
    """Answers that had to be of a form, and how many were."""

    form: str
    checked: int
    valid: int
    problems: dict[str, int]
    """Why others were not, and how often; their values sum to checked − valid."""


class Speculation(Document):
    """What became of drafted tokens over the counted time, by the server's own counters."""

    accepted_share: float | None
    """Of the drafted tokens; null where the server says tokens a step alone."""
    drafted_a_step: float | None
    tokens_a_step: float
    """Of one answer: the token that every step gives, and the accepted ones."""


class RecordFile(Document):
    """Every request of one run, as numpy columns."""

    file: str
    sha256: Sha256
    rows: int


class LoadFigures(Document):
    """Everything about the load at which the figures hold; throughput is not said without it."""

    load: str
    budget: tuple[str, ...]
    """The latency bounds, in words."""
    accounting: Accounting
    offered_per_s: Figure | None = None
    requests_per_s: Figure | None = None
    goodput_per_s: Figure | None = None
    """Requests a second that met every bound."""
    in_flight_mean: float | None = None
    tokens: TokenCount
    cache: CacheRecord
    instrument: InstrumentRecord
    saturation: SaturationRecord | None = None
    server_counters: dict[str, float] = {}
    """Seconds and counts by the server's own metrics over the run: where it says the time went."""
    records: tuple[RecordFile, ...] = ()
    sources: Annotated[tuple[SourceFile, ...], Field(exclude_if=lambda sources: not sources)] = ()
    """Files of one's own that the work came from."""
    models: Annotated[tuple[ModelFigures, ...], Field(exclude_if=lambda models: not models)] = ()
    sessions: Annotated[SessionFigures | None, Field(exclude_if=lambda sessions: sessions is None)] = None
    answers: Annotated[AnswerFigures | None, Field(exclude_if=lambda answers: answers is None)] = None
    mlperf: Annotated[MlperfFigures | None, Field(exclude_if=lambda mlperf: mlperf is None)] = None
    """The figures of MLPerf's scenario, where the contract names one."""
    speculation: Annotated[Speculation | None, Field(exclude_if=lambda speculation: speculation is None)] = None
    """Where the server counts it."""
    node: Annotated[NodeRecord | None, Field(exclude_if=lambda node: node is None)] = None
    """What others read of the node that the server runs on, where the contract names them."""
    kernels: Annotated[ServerKernels | None, Field(exclude_if=lambda kernels: kernels is None)] = None
    """What the server's own profiler showed, where the contract asks for it."""

    def without_figures(self) -> LoadFigures:
        """A void run keeps what was sent and how the client fared; nothing that could be read as the server's."""
        figures = (
            "offered_per_s",
            "requests_per_s",
            "goodput_per_s",
            "in_flight_mean",
            "saturation",
            "mlperf",
            "speculation",
            "kernels",
        )
        emptied = dict.fromkeys(figures)
        return self.model_copy(update=emptied)
