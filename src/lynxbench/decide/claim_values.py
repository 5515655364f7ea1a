"""A claim given as keys and values: a YAML file, a peer's result, a row of a results table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from lynxbench.model.claims import Claimed, Context, Stated
from lynxbench.model.entries import ForeignImported
from lynxbench.model.figures import Figure

KEYS: dict[Context, tuple[str, ...]] = {
    Context.MODEL: ("model", "model_id", "model_name", "modelname", "benchmark", "network", "model_mlc"),
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
BESIDE: dict[str, tuple[tuple[str, tuple[str | int, ...]], ...]] = {
    "aiperf": (("duration_s", ("benchmark_duration", "avg")),),
    "guidellm": (
        ("model", ("benchmarks", 0, "config", "backend", "model")),
        ("duration_s", ("benchmarks", 0, "duration")),
    ),
}
"""Where a tool's file states a context that its figures are not filed under."""
_VERSION = re.compile(r"\d+\.\d|\b\d{3}\b")
_PERCENTILE = re.compile(r"(?:^|[ _])p\d{2}(?:\.\d+)?(?:$|[ _])|percentile|^median")
_FIGURE_WORDS = ("throughput", "tokens_per_s", "requests_per_s", "tokens_per_second", "qps", "latency", "ttft",
                 "result", "performance_result", "speed")  # fmt: skip


def stated_in_values(values: Mapping[str, JsonValue]) -> tuple[Stated, ...]:
    """The contexts that keys state; a stack counts only with a version, and nothing counts that says nothing."""
    found: dict[Context, Stated] = {}
    for key, value in flatten(values):
        name = key_name(key)
        for context, names in KEYS.items():
            percentile = context is Context.PERCENTILE and bool(_PERCENTILE.search(name))
            if context in found or not (name in names or percentile) or not _says(value):
                continue
            if context is Context.STACK and not _VERSION.search(str(value)):
                continue
            found[context] = Stated(context=context, words=f"{key}: {_short(value)}")
    return tuple(found[context] for context in Context if context in found)


def claimed_in_values(values: Mapping[str, JsonValue]) -> tuple[Claimed, ...]:
    """Figures under keys that name one."""
    found = []
    for key, value in flatten(values):
        name = key_name(key)
        if any(word in name for word in _FIGURE_WORDS) and _is_figure(value):
            kind = "latency" if "latency" in name or "ttft" in name else "rate"
            found.append(Claimed(value=_short(value), unit=key, kind=kind, text=f"{key}: {_short(value)}"))  # type: ignore[arg-type]
    return tuple(found)


def stated_by_peer(foreign: ForeignImported, document: JsonValue = None) -> tuple[Stated, ...]:
    """What another tool's file states: its statements, and percentiles by the names of its figures."""
    said = dict(foreign.stated)
    for key, path in BESIDE.get(foreign.tool, ()):
        value = _at(document, path)
        if key not in said and _says(value):
            said[key] = value
    found = {one.context: one for one in stated_in_values(said)}
    # A client knows its own version, not that of the stack it measured.
    found.pop(Context.STACK, None)
    tail = next((name for name in foreign.figures if re.search(r" p\d", name)), None)
    if tail is not None:
        found[Context.PERCENTILE] = Stated(context=Context.PERCENTILE, words=tail)
    if Context.REGIME not in found and Context.LOAD in found:
        closed = _says(said.get("concurrency")) and not _is_rate(said.get("rate_per_s"))
        words = "closed loop" if closed else "open loop at a rate"
        found[Context.REGIME] = Stated(context=Context.REGIME, words=f"{words}, by {found[Context.LOAD].words}")
    if Context.LOAD in found and not (
        _says(said.get("concurrency")) or _is_rate(said.get("rate_per_s")) or said.get("batch")
    ):
        found.pop(Context.LOAD)
    if Context.DURATION not in found and _says(said.get("min_duration (ms)")):
        found[Context.DURATION] = Stated(
            context=Context.DURATION, words=f"min_duration (ms): {said['min_duration (ms)']}"
        )
    if Context.DURATION not in found and _both_times(said):
        found[Context.DURATION] = Stated(context=Context.DURATION, words="from its beginning and end")
    return tuple(found[context] for context in Context if context in found)


def claimed_by_peer(figures: Mapping[str, Figure]) -> tuple[Claimed, ...]:
    """A peer's figures as claims: rates first, then latencies."""
    found = []
    for name, figure in figures.items():
        if figure.estimate is None:
            continue
        kind = "latency" if figure.unit in ("ms", "s") else "rate"
        value = f"{figure.estimate:.6g}"
        found.append(Claimed(value=value, unit=figure.unit, kind=kind, text=f"{name} {value} {figure.unit}"))  # type: ignore[arg-type]
    return tuple(sorted(found, key=lambda one: one.kind != "rate"))


def flatten(values: Mapping[str, JsonValue], before: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Every key with its value, nested ones too; a nested mapping is also a value of its own key."""
    for key, value in values.items():
        yield key, value
        if isinstance(value, Mapping):
            yield from flatten(value, f"{before}{key}.")


def key_name(key: str) -> str:
    """A key as it is compared: lower case, words joined by underscores."""
    return re.sub(r"[^a-z0-9.]+", "_", key.strip().lower()).strip("_")


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
    if isinstance(value, dict) and key_words(value):
        return any(_says(value[name]) for name in key_words(value))
    empty: tuple[JsonValue, ...] = (None, "", [], {}, "unknown", "n/a", "N/A", "-")
    return not any(value is one or value == one for one in empty) and value is not False


def key_words(value: Mapping[str, JsonValue]) -> list[str]:
    """Keys of a nested statement that carry it: a `mode` without a value says nothing."""
    return [name for name in ("percent", "value", "duration", "requests") if name in value]


def _is_rate(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _both_times(said: Mapping[str, JsonValue]) -> bool:
    return _says(said.get("started_at")) and _says(said.get("finished_at"))


def _is_figure(value: JsonValue) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and bool(re.match(r"\s*[\d.,]+", value)))


def _short(value: JsonValue) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "…"
