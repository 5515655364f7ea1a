"""A claim given as keys and values: a YAML file, a peer's result, a row of a results table."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Literal

from pydantic import JsonValue

from lynxbench.decide.claim_text import states_device
from lynxbench.model.claims import Claimed, Context, Stated
from lynxbench.model.entries import ForeignImported
from lynxbench.model.figures import Figure
from lynxbench.model.plain_numbers import plain

KEYS: dict[Context, tuple[str, ...]] = {
    Context.MODEL: ("model", "model_id", "model_name", "modelname", "benchmark", "network", "model_mlc"),
    Context.DEVICE: (
        "device", "devices", "gpu", "gpus", "gpu_name", "accelerator", "accelerators", "accelerator_model_name",
        "hardware",
    ),
    Context.PRECISION: ("precision", "dtype", "quantization", "quantisation", "weight_data_types", "data_type"),
    Context.LOAD: (
        "batch", "batch_size", "concurrency", "max_concurrency", "request_rate", "rate_per_s", "rate", "streams",
        "target_qps", "samples_per_query",
    ),
    Context.LENGTHS: (
        "input_tokens", "output_tokens", "input_tokens_mean", "output_tokens_mean", "isl", "osl", "input_length",
        "output_length", "prompt_tokens", "sequence_length", "lengths", "context_length",
    ),
    Context.STACK: (
        "stack", "versions", "software", "framework_version", "server_version", "runtime_version", "driver", "cuda",
        "framework", "operating_system", "other_software_stack",
    ),
    Context.REGIME: ("regime", "scenario", "mode_of_load", "loop", "strategy", "arrival"),
    Context.DURATION: ("duration", "duration_s", "seconds", "min_duration_ms", "test_duration"),
    Context.WARMUP: ("warmup", "warm_up", "warmup_s", "warmups", "num_warmups", "steady_state", "warmup_request_count"),
    Context.PERCENTILE: ("percentile", "percentiles", "p50", "p90", "p95", "p99", "p99_ms", "median"),
    Context.ACCURACY: ("accuracy", "perplexity", "quality", "accuracy_loss", "rouge", "top1", "f1"),
    Context.POWER: ("power", "power_w", "watts", "energy", "energy_j", "joules_per_token", "system_power_w"),
}  # fmt: skip
"""Keys, lower case with underscores, that state a context."""
COUNTS = (
    "count", "num_gpus", "number_of_gpus", "gpu_count", "of_accelerators", "accelerators_per_node", "num_devices",
    "device_count", "tensor_parallel_size", "num_accelerators",
)  # fmt: skip
"""Keys that say how many devices there were: a name alone is half of it."""
BESIDE: dict[str, tuple[tuple[str, tuple[str | int, ...]], ...]] = {
    "aiperf": (("duration_s", ("benchmark_duration", "avg")),),
    "guidellm": (
        ("model", ("benchmarks", 0, "config", "backend", "model")),
        ("duration_s", ("benchmarks", 0, "duration")),
    ),
}
"""Where a tool's file states a context that its figures are not filed under."""
TELLING = ("scenario", "accelerator", "benchmark", "model", "division", "submitter", "system name", "units", "result")
"""Column names of which a results table has several."""
_Kind = Literal["rate", "latency"]
_VERSION = re.compile(r"\d+\.\d|\b\d{3}\b")
_PERCENTILE = re.compile(r"(?:^|[ _])p\d{2}(?:\.\d+)?(?:$|[ _])|percentile|^median")
_FIGURE_WORDS = ("throughput", "tokens_per_s", "requests_per_s", "tokens_per_second", "qps", "latency", "ttft",
                 "result", "performance_result", "speed")  # fmt: skip


def stated_in_values(values: Mapping[str, JsonValue]) -> tuple[Stated, ...]:
    """The contexts that keys state; a stack counts only with a version, and nothing counts that says nothing."""
    return _stated(_contexts(values))


def claimed_in_values(values: Mapping[str, JsonValue]) -> tuple[Claimed, ...]:
    """Figures under keys that name one."""
    claims = []
    for key, value in _flatten(values):
        name = _key_name(key)
        if any(word in name for word in _FIGURE_WORDS) and _is_figure(value):
            kind: _Kind = "latency" if "latency" in name or "ttft" in name else "rate"
            claims.append(Claimed(value=_short(value), unit=key, kind=kind, text=f"{key}: {_short(value)}"))
    return tuple(claims)


def stated_by_peer(foreign: ForeignImported, document: JsonValue = None) -> tuple[Stated, ...]:
    """What another tool's file states: its statements, and percentiles by the names of its figures."""
    values = dict(foreign.stated)
    for key, path in BESIDE.get(foreign.tool, ()):
        value = _at(document, path)
        if key not in values and _says(value):
            values[key] = value
    contexts = _contexts(values)
    # A client knows its own version, not that of the stack it measured.
    contexts.pop(Context.STACK, None)
    tail = next((name for name in foreign.figures if re.search(r" p\d", name)), None)
    if tail is not None:
        contexts[Context.PERCENTILE] = tail
    concurrent, rated = _says(values.get("concurrency")), _is_rate(values.get("rate_per_s"))
    if Context.LOAD in contexts:
        words = "closed loop" if concurrent and not rated else "open loop at a rate"
        contexts.setdefault(Context.REGIME, f"{words}, by {contexts[Context.LOAD]}")
        if not (concurrent or rated or values.get("batch")):
            del contexts[Context.LOAD]
    if _says(values.get("min_duration (ms)")):
        contexts.setdefault(Context.DURATION, f"min_duration (ms): {values['min_duration (ms)']}")
    if _says(values.get("started_at")) and _says(values.get("finished_at")):
        contexts.setdefault(Context.DURATION, "from its beginning and end")
    return _stated(contexts)


def claimed_by_peer(figures: Mapping[str, Figure]) -> tuple[Claimed, ...]:
    """A peer's figures as claims: rates first, then latencies."""
    claims = []
    for name, figure in figures.items():
        if figure.estimate is not None:
            kind: _Kind = "latency" if figure.unit in ("ms", "s") else "rate"
            value = plain(figure.estimate, 6)
            claims.append(Claimed(value=value, unit=figure.unit, kind=kind, text=f"{name} {value} {figure.unit}"))
    return tuple(sorted(claims, key=lambda claim: claim.kind != "rate"))


def looks_like_row(text: str) -> bool:
    """Whether this is CSV or TSV with a header that names at least three telling columns."""
    rows = _rows(text)
    if len(rows) < 2 or len(rows[0]) < 3:
        return False
    head = " | ".join(cell.lower() for cell in rows[0])
    return sum(word in head for word in TELLING) >= 3


def rows_of(text: str) -> list[dict[str, JsonValue]]:
    """Every row as keys and values; empty cells say nothing."""
    head, *rest = _rows(text)
    return [
        {name.strip(): cell.strip() for name, cell in zip(head, row, strict=False) if cell.strip() and name.strip()}
        for row in rest
        if any(cell.strip() for cell in row)
    ]


def _key_name(key: str) -> str:
    """A key as it is compared: lower case, words joined by underscores."""
    return re.sub(r"[^a-z0-9.]+", "_", key.strip().lower()).strip("_")


def _contexts(values: Mapping[str, JsonValue]) -> dict[Context, str]:
    """The words in which keys state each context."""
    contexts: dict[Context, str] = {}
    for key, value in _flatten(values):
        name = _key_name(key)
        for context, names in KEYS.items():
            is_percentile = context is Context.PERCENTILE and _PERCENTILE.search(name)
            has_version = context is not Context.STACK or _VERSION.search(str(value))
            if (name in names or is_percentile) and has_version and _says(value):
                contexts.setdefault(context, f"{key}: {_short(value)}")
    if Context.DEVICE in contexts:
        counted = [f"{key}: {_short(value)}" for key, value in _flatten(values) if _counts_devices(key, value)]
        if counted:
            contexts[Context.DEVICE] += f", {counted[0]}"
        elif not states_device(contexts[Context.DEVICE]):
            del contexts[Context.DEVICE]
    return contexts


def _counts_devices(key: str, value: JsonValue) -> bool:
    return _key_name(key) in COUNTS and _is_figure(value)


def _stated(contexts: Mapping[Context, str]) -> tuple[Stated, ...]:
    return tuple(Stated(context=context, words=contexts[context]) for context in Context if context in contexts)


def _flatten(values: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Every key with its value, nested ones too; a nested mapping is also a value of its own key."""
    for key, value in values.items():
        yield key, value
        if isinstance(value, Mapping):
            yield from _flatten(value)


def _at(document: JsonValue, path: Sequence[str | int]) -> JsonValue:
    for step in path:
        if isinstance(document, dict) and isinstance(step, str):
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return None
    return document


def _says(value: JsonValue) -> bool:
    if isinstance(value, dict):
        carriers = [name for name in ("percent", "value", "duration", "requests") if name in value]
        if carriers:  # a `mode` without a value says nothing
            return any(_says(value[name]) for name in carriers)
    return value is not False and value not in (None, "", [], {}, "unknown", "n/a", "N/A", "-")


def _is_rate(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_figure(value: JsonValue) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and bool(re.match(r"\s*[\d.,]+", value)))


def _short(value: JsonValue) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "…"


def _rows(text: str) -> list[list[str]]:
    first = text.lstrip().split("\n", 1)[0]
    delimiter = "\t" if first.count("\t") > first.count(",") else ","
    try:
        return list(csv.reader(StringIO(text.lstrip()), delimiter=delimiter))
    except csv.Error:
        return []
