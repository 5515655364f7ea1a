"""MLPerf LoadGen's summary (text) and detail (`:::MLLOG` lines): scenario, figure, verdict, latencies."""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import ForeignStatements, finite

_LINE = re.compile(r"^\s*(?P<key>[^:\n]+?)\s*:\s*(?P<value>.+?)\s*$")
_LATENCY = re.compile(
    r"(?:(?P<mean>mean)|(?P<percentile>\d+(?:\.\d+)?)(?:th)? percentile) "
    r"(?:(?P<first>first token )?latency|(?P<token>time (?:per|to) output token)(?: latency)?) \(ns\)",
    re.I,
)
"""LoadGen says `first token latency` and `time to output token`, its mean `Time per Output Token`."""
RATES = {
    "samples per second": ("sample throughput", "samples/s"),
    "completed samples per second": ("sample throughput", "samples/s"),
    "scheduled samples per second": ("scheduled samples", "samples/s"),
    "tokens per second": ("output throughput", "tokens/s"),
    "completed tokens per second": ("output throughput", "tokens/s"),
    "qps w/ loadgen overhead": ("query throughput", "queries/s"),
}
PARAMETERS = ("samples_per_query", "target_qps", "min_duration (ms)", "min_query_count", "qsl_rng_seed",
              "sample_index_rng_seed", "schedule_rng_seed", "performance_sample_count")  # fmt: skip
DETAIL_RATES = {
    "result_samples_per_second": ("sample throughput", "samples/s"),
    "result_completed_samples_per_sec": ("sample throughput", "samples/s"),
    "result_tokens_per_second": ("output throughput", "tokens/s"),
    "result_completed_tokens_per_second": ("output throughput", "tokens/s"),
    "result_qps_with_loadgen_overhead": ("query throughput", "queries/s"),
}
_DETAIL_LATENCY = re.compile(
    r"result_(?P<first>first_token_)?(?:(?P<mean>mean)|(?P<percentile>\d+\.\d+)_percentile)_latency_ns"
    r"|result_(?P<token>time_(?:per|to)_output_token_)(?:(?P<token_mean>mean)|(?P<at>\d+\.\d+)_percentile_ns)"
)
MARK = ":::MLLOG"


def looks_like(text: str) -> bool:
    """Whether this is one of LoadGen's two logs."""
    return "MLPerf Results Summary" in text[:4096] or text.lstrip().startswith(MARK)


def parse_mlperf(text: str) -> ForeignStatements | None:
    """Summary or detail."""
    return _detail(text) if text.lstrip().startswith(MARK) else _summary(text)


def _summary(text: str) -> ForeignStatements | None:
    said = ForeignStatements("mlperf")
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        key, value = match.group("key").strip(), match.group("value")
        _summary_line(said, key, value)
    return said if said.states("scenario") else None


def _summary_line(said: ForeignStatements, key: str, value: str) -> None:
    lower = key.lower()
    if lower in RATES:
        name, unit = RATES[lower]
        said.figure(name, _number(value), unit)
    elif (found := _LATENCY.fullmatch(key)) is not None:
        which = _which(first=bool(found["first"]), token=bool(found["token"]))
        said.figure(f"{which} {_where(found['percentile'])}", _number(value), "ms", 1e-6)
    elif lower == "sut name":
        said.state("system", value)
    elif lower == "scenario":
        said.state("scenario", value)
    elif lower == "mode":
        said.state("mode", value)
    elif lower == "result is":
        said.state("valid", value == "VALID")
    elif lower.endswith("satisfied"):
        said.state(lower.replace(" ", "_"), value == "Yes")
    elif key in PARAMETERS:
        number = _number(value)
        said.state(key, value if number is None else number)
        if key == "target_qps":
            said.state("rate_per_s", number)
        if key == "samples_per_query":
            said.state("batch", number)


def _detail(text: str) -> ForeignStatements | None:
    said = ForeignStatements("mlperf")
    for line in text.splitlines():
        if not line.startswith(MARK):
            continue
        try:
            record = json.loads(line[len(MARK) :])
        except (ValueError, RecursionError):
            continue  # a torn last line of a killed run
        if isinstance(record, dict) and isinstance(record.get("key"), str):
            _detail_line(said, record["key"], record.get("value"))
    return said if said.states("scenario") else None


def _detail_line(said: ForeignStatements, key: str, value: JsonValue) -> None:
    if key in DETAIL_RATES:
        name, unit = DETAIL_RATES[key]
        said.figure(name, finite(value), unit)
    elif (found := _DETAIL_LATENCY.fullmatch(key)) is not None:
        which = _which(first=bool(found["first"]), token=bool(found["token"]))
        said.figure(f"{which} {_where(found['percentile'] or found['at'])}", finite(value), "ms", 1e-6)
    elif key in ("effective_scenario", "requested_scenario"):
        said.state("scenario", value)
    elif key == "result_validity":
        said.state("valid", value == "VALID")
    elif key in ("loadgen_version", "test_datetime", "sut_name"):
        said.state({"test_datetime": "started_at", "sut_name": "system"}.get(key, key), value)
    elif key == "effective_target_qps":
        said.state("rate_per_s", finite(value))
    elif key == "effective_samples_per_query":
        said.state("batch", finite(value))


def _which(*, first: bool, token: bool) -> str:
    return "time-to-first-token" if first else "time-per-token" if token else "latency"


def _where(percentile: str | None) -> str:
    return "mean" if percentile is None else f"p{float(percentile):g}"


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None
