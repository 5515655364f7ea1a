"""A request split into network, queueing, prefill, decode and the rest, from a server's own metrics around a run.

Servers count differently, and none counts everything: what the phases do not explain is shown as unattributed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from lynxbench.attribute.prometheus import PrometheusMetrics, parse_prometheus, subtract
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, CandidateLayer, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer

DOMINANT = 0.4
CLEAR_LEAD = 0.1
FEWEST_REQUESTS = 5
"""With fewer, one odd request decides the split."""
UNEXPLAINED = 0.25
"""A remainder of this share keeps the verdict weak."""
MOST_REMOVABLE = 0.99


@dataclass(frozen=True, slots=True)
class Phases:
    """Names of a server's own sums, in seconds; the first that is exported counts."""

    server: str
    mark: str
    """A metric that only this server exports."""
    total: tuple[str, ...]
    count: tuple[str, ...]
    queue: tuple[str, ...] = ()
    prefill: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    first_token: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    scale: float = 1.0
    """Seconds in one unit of the sums."""


SERVERS: tuple[Phases, ...] = (
    Phases(
        "vLLM",
        "vllm:",
        total=("vllm:e2e_request_latency_seconds_sum",),
        count=("vllm:e2e_request_latency_seconds_count",),
        queue=("vllm:request_queue_time_seconds_sum",),
        prefill=("vllm:request_prefill_time_seconds_sum",),
        decode=("vllm:request_decode_time_seconds_sum",),
        first_token=("vllm:time_to_first_token_seconds_sum",),
        waiting=("vllm:num_requests_waiting",),
    ),
    Phases(
        "SGLang",
        "sglang:",
        total=("sglang:e2e_request_latency_seconds_sum",),
        count=("sglang:e2e_request_latency_seconds_count",),
        queue=("sglang:queue_time_seconds_sum", "sglang:request_queue_time_seconds_sum"),
        first_token=("sglang:time_to_first_token_seconds_sum",),
        waiting=("sglang:num_queue_reqs",),
    ),
    Phases(
        "TGI",
        "tgi_",
        total=("tgi_request_duration_sum",),
        count=("tgi_request_duration_count",),
        queue=("tgi_request_queue_duration_sum",),
        decode=("tgi_request_inference_duration_sum",),
        other=("tgi_request_validation_duration_sum",),
        waiting=("tgi_queue_size",),
    ),
    Phases(
        "llama.cpp",
        "llamacpp:",
        total=(),
        count=(),
        prefill=("llamacpp:prompt_seconds_total",),
        decode=("llamacpp:tokens_predicted_seconds_total",),
        waiting=("llamacpp:requests_deferred",),
    ),
    Phases(
        "Triton",
        "nv_inference",
        total=("nv_inference_request_duration_us",),
        count=("nv_inference_request_success",),
        queue=("nv_inference_queue_duration_us",),
        prefill=(),
        decode=("nv_inference_compute_infer_duration_us",),
        other=("nv_inference_compute_input_duration_us", "nv_inference_compute_output_duration_us"),
        waiting=("nv_inference_pending_request_count",),
        scale=1e-6,
    ),
)


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """Mean seconds of a request by phase; the remainder is what no phase explains, and never negative."""

    server: str
    requests: int
    total_s: float
    network_s: float | None
    queue_s: float
    prefill_s: float
    decode_s: float
    batching_s: float
    unexplained_s: float
    approximate: tuple[str, ...]
    """How phases were derived that the server does not count itself."""
    phased: bool = True
    """Whether the model's own time is told apart by phase; else all of it stands under decode, and nothing binds it."""


def split_requests(before: str, after: str, *, client_total_s: float | None = None, requests: int = 0) -> RequestSplit:
    """The split of the requests between two scrapes; `client_total_s` is their mean latency as the client saw it."""
    grown, restarted = subtract(parse_prometheus(after), parse_prometheus(before))
    if restarted:
        raise BadInput("a counter of the server fell between the scrapes: it was restarted, and the split is not known")
    phases = find_server(grown)
    if phases is None:
        raise BadInput("none of the metrics is known (vLLM, SGLang, TGI, llama.cpp, Triton); give the text of /metrics")
    return split_phases(phases, grown, client_total_s, requests)


def find_server(metrics: PrometheusMetrics) -> Phases | None:
    """Which server wrote the metrics."""
    return next((one for one in SERVERS if any(name.startswith(one.mark) for name in metrics.totals)), None)


def split_phases(phases: Phases, grown: PrometheusMetrics, client_total_s: float | None, requests: int) -> RequestSplit:
    """The split by one server's phases, from what its sums grew by."""
    approximate: list[str] = []

    def seconds(names: Sequence[str]) -> float | None:
        found = [value for name in names if (value := grown.get(name)) is not None]
        return sum(found) * phases.scale if found else None

    counted = grown.get(phases.count[0]) if phases.count else None
    count = int(counted) if counted else requests
    if count <= 0:
        raise BadInput(f"{phases.server} finished no request between the two scrapes; scrape before and after the load")
    total = seconds(phases.total)
    queue, prefill, decode = seconds(phases.queue), seconds(phases.prefill), seconds(phases.decode)
    other = seconds(phases.other) or 0.0
    first = seconds(phases.first_token)
    if prefill is None and first is not None:
        prefill = max(0.0, first - (queue or 0.0))
        approximate.append("prefill is the time to the first token without the queue")
        if decode is None and total is not None:
            decode = max(0.0, total - first)
            approximate.append("decode is what follows the first token")
    if phases.server == "TGI" and decode is not None:
        batches = {
            m: grown.get(f"tgi_batch_inference_duration_sum{{method={m}}}") or 0.0 for m in ("prefill", "decode")
        }
        told = sum(batches.values()) > 0
        part = batches["prefill"] / sum(batches.values()) if told else 0.0
        prefill, decode = decode * part, decode * (1.0 - part)
        how = "it is divided as the server's batches were" if told else "all of it is shown as decode"
        approximate.append(f"TGI counts inference as one: {how}")
    known = (queue or 0.0) + (prefill or 0.0) + (decode or 0.0) + other
    if total is None:
        total = client_total_s * count if client_total_s is not None else known
        approximate.append("the server does not count whole requests: the client's latency stands for them")
    if known > total:  # phases of requests that began before the first scrape
        scale = total / known
        queue, prefill, decode = (None if v is None else v * scale for v in (queue, prefill, decode))
        other *= scale
        known = total
        approximate.append("phases exceed the requests that ended; scaled to them")
    network = None
    if client_total_s is not None and phases.total:
        network = max(0.0, client_total_s - total / count)
    return RequestSplit(
        server=phases.server,
        requests=count,
        total_s=total / count,
        network_s=network,
        queue_s=(queue or 0.0) / count,
        prefill_s=(prefill or 0.0) / count,
        decode_s=(decode or 0.0) / count,
        batching_s=other / count,
        unexplained_s=max(0.0, total - known) / count,
        approximate=tuple(approximate),
    )


class _Statistic(msgspec.Struct):
    count: int = 0
    ns: int = 0


class _Inference(msgspec.Struct):
    success: _Statistic = msgspec.field(default_factory=_Statistic)
    queue: _Statistic = msgspec.field(default_factory=_Statistic)
    compute_input: _Statistic = msgspec.field(default_factory=_Statistic)
    compute_infer: _Statistic = msgspec.field(default_factory=_Statistic)
    compute_output: _Statistic = msgspec.field(default_factory=_Statistic)


class _Model(msgspec.Struct):
    name: str = ""
    inference_stats: _Inference = msgspec.field(default_factory=_Inference)


class _Statistics(msgspec.Struct):
    model_stats: list[_Model] = msgspec.field(default_factory=list)


def split_triton(before: str, after: str, *, client_total_s: float | None = None) -> RequestSplit:
    """The split from Triton's own statistics (`/v2/models/M/stats`) before and after a run."""
    try:
        first, last = (msgspec.json.decode(text, type=_Statistics) for text in (before, after))
    except msgspec.DecodeError as error:
        raise BadInput(f"not Triton statistics ({error}); give the answer of /v2/models/M/stats") from None
    if not last.model_stats:
        raise BadInput("Triton statistics name no model; give the answer of /v2/models/M/stats")

    def grown(part: str, what: str) -> float:
        def total(document: _Statistics) -> int:
            return sum(int(getattr(getattr(one.inference_stats, part), what)) for one in document.model_stats)

        return float(total(last) - total(first))

    count = grown("success", "count")
    if count <= 0:
        raise BadInput("Triton finished no request between the two statistics; read them before and after the load")
    queue, infer = grown("queue", "ns") / 1e9, grown("compute_infer", "ns") / 1e9
    copies = (grown("compute_input", "ns") + grown("compute_output", "ns")) / 1e9
    total = grown("success", "ns") / 1e9
    return RequestSplit(
        server="Triton",
        requests=int(count),
        total_s=total / count,
        network_s=max(0.0, client_total_s - total / count) if client_total_s is not None else None,
        queue_s=queue / count,
        prefill_s=0.0,
        decode_s=infer / count,
        batching_s=copies / count,
        unexplained_s=max(0.0, total - queue - infer - copies) / count,
        approximate=("a model without phases: its inference is one",),
        phased=False,
    )


_PHASE_WORDS: dict[str, tuple[Category, Bound, Layer, str, str]] = {
    "queueing": (
        Category.QUEUEING,
        Bound.DEMAND,
        Layer.DEMAND,
        "requests wait in the server's queue before anything works on them",
        "add capacity (replicas, batch limits) or admit fewer requests; a faster kernel shortens the queue only as far "
        "as it raises capacity",
    ),
    "prefill": (
        Category.COMPUTE,
        Bound.HARDWARE,
        Layer.ACCELERATOR,
        "prompts are read through in products of many rows: arithmetic",
        "shorten or cache prompts, chunk the prefill, compute in a lower precision, or use faster hardware",
    ),
    "decode": (
        Category.MEMORY_BANDWIDTH,
        Bound.HARDWARE,
        Layer.ACCELERATOR,
        "every token reads all weights once for a few rows: memory bandwidth",
        "serve more streams a step, store weights and cache in fewer bits, or use faster memory",
    ),
    "inference": (
        Category.UNATTRIBUTED,
        Bound.UNDETERMINED,
        Layer.ACCELERATOR,
        "the model itself runs, and the server does not say what binds it",
        "profile the model in process, or give a trace of the server to `lynxbench attribute`",
    ),
    "batching": (
        Category.LAUNCH,
        Bound.SOFTWARE,
        Layer.SERVING,
        "the server works around the model: validation, copies, scheduling between steps",
        "profile the server's own process; a newer version or fewer features on the path removes it",
    ),
    "network": (
        Category.NETWORK,
        Bound.SOFTWARE,
        Layer.SYSTEM,
        "the client waits longer than the server counts",
        "shorten the path: keep-alive, a nearer client, a proxy less",
    ),
    "unexplained": (
        Category.UNATTRIBUTED,
        Bound.UNDETERMINED,
        Layer.SERVING,
        "the server counts this time in no phase",
        "profile the server's process: the time lies between its phases",
    ),
}


def attribute_serving(split: RequestSplit, *, owner: Callable[[Layer], str]) -> Attribution:
    """Whose time a request is: queueing is demand's or capacity's, prefill arithmetic's, decode bandwidth's."""
    parts = {
        "queueing": split.queue_s,
        "prefill": split.prefill_s,
        "decode" if split.phased else "inference": split.decode_s,
        "batching": split.batching_s,
        "network": split.network_s or 0.0,
        "unexplained": split.unexplained_s,
    }
    whole = sum(parts.values())
    if whole <= 0:
        raise BadInput(f"{split.server} counts no time for its {split.requests} requests; nothing can be attributed")
    ranked = sorted(parts, key=lambda name: -parts[name])
    top, share = ranked[0], parts[ranked[0]] / whole
    category, bound, layer, why, next_step = _PHASE_WORDS[top]
    weak = (
        share < DOMINANT
        or share - parts[ranked[1]] / whole < CLEAR_LEAD
        or parts["unexplained"] / whole > UNEXPLAINED
        or split.requests < FEWEST_REQUESTS
    )
    # A server's phases do not see kernels: prefill and decode point to a ceiling, and only a trace can hold them to it.
    inside = top in ("prefill", "decode", "inference")
    bound = Bound.UNDETERMINED if inside or share < DOMINANT else bound
    named = layer if bound is not Bound.UNDETERMINED else None
    shares: dict[Category, float] = {}
    for name, seconds in parts.items():
        if seconds > 0:
            kind = _PHASE_WORDS[name][0]
            shares[kind] = shares.get(kind, 0.0) + seconds / whole
    lead = f"{bound.value}-bound" if bound is not Bound.UNDETERMINED else "undetermined"
    points = f"; it points to layer {layer}: {why}" if inside else f": {why}"
    return Attribution(
        bottleneck=category,
        bound=bound,
        layer=named,
        owner=owner(named) if named is not None else None,
        symptom_layer=Layer.SERVING if named not in (None, Layer.SERVING) else None,
        shares=shares,
        gain_if_removed=_gain(share, removable=not inside and top != "unexplained"),
        evidence=_evidence(split, parts, whole),
        weak=weak,
        sentence=f"{lead}: {top} takes {share:.0%} of a request{points}",
        next_step=next_step,
        candidates=_candidates(parts, whole, owner),
        wall_ms_per_step=whole * 1e3,
        steps=split.requests,
    )


def _gain(share: float, *, removable: bool) -> Interval:
    if not removable:
        return Interval(1.0, 1.0, 1.0)
    most = 1.0 / (1.0 - min(share, MOST_REMOVABLE))
    return Interval(1.0, 1.0 / (1.0 - min(share, MOST_REMOVABLE) / 2), most)


def _evidence(split: RequestSplit, parts: dict[str, float], whole: float) -> tuple[str, ...]:
    lines = [
        f"{split.requests} requests of {whole * 1e3:.3g} ms by {split.server}'s own metrics before and after the run"
    ]
    lines += [f"{name}: {seconds * 1e3:.3g} ms a request ({seconds / whole:.0%})" for name, seconds in parts.items()]
    if split.network_s is None:
        lines.append("the client's latency was not given: the network is not in the split")
    lines += [f"note: {text}" for text in split.approximate]
    lines.append("a server's phases do not see kernels; whether prefill or decode run near a ceiling, a trace can say")
    return tuple(lines)


def _candidates(parts: dict[str, float], whole: float, owner: Callable[[Layer], str]) -> tuple[CandidateLayer, ...]:
    found: dict[Layer, str] = {}
    for name in sorted(parts, key=lambda one: -parts[one]):
        if parts[name] / whole >= CLEAR_LEAD:
            _, _, layer, why, _ = _PHASE_WORDS[name]
            found.setdefault(layer, f"{name} {parts[name] / whole:.0%}: {why}")
    if parts["queueing"] / whole >= CLEAR_LEAD:
        found.setdefault(Layer.SERVING, "too few replicas or too small a batch limit: the same demand would fit")
    return tuple(CandidateLayer(layer=layer, owner=owner(layer), reason=reason) for layer, reason in found.items())
