"""MLPerf LoadGen's summary (text) and detail (`:::MLLOG` lines): scenario, figure, verdict, latencies."""

import json
import re

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements, finite

WORDS = TABLE["mlperf"]
_LINE = re.compile(r"^\s*(?P<key>[^:\n]+?)\s*:\s*(?P<value>.+?)\s*$")
_LATENCY = re.compile(
    r"(?:mean|(?P<percentile>\d+(?:\.\d+)?)(?:th)? percentile) "
    r"(?:(?P<first>first token )?latency|(?P<token>time (?:per|to) output token)(?: latency)?) \(ns\)",
    re.I,
)
"""LoadGen says `first token latency` and `time to output token`, its mean `Time per Output Token`."""
PARAMETERS = ("samples_per_query", "target_qps", "min_duration (ms)", "min_query_count", "qsl_rng_seed",
              "sample_index_rng_seed", "schedule_rng_seed", "performance_sample_count")  # fmt: skip
_DETAIL_LATENCY = re.compile(
    r"result_(?P<first>first_token_)?(?:mean|(?P<percentile>\d+\.\d+)_percentile)_latency_ns"
    r"|result_(?P<token>time_(?:per|to)_output_token_)(?:mean|(?P<at>\d+\.\d+)_percentile_ns)"
)
MARK = ":::MLLOG"


def looks_like(text: str) -> bool:
    """Whether this is one of LoadGen's two logs."""
    return "MLPerf Results Summary" in text[:4096] or text.lstrip().startswith(MARK)


def parse_mlperf(text: str) -> ForeignStatements | None:
    """Summary or detail."""
    return _detail(text) if text.lstrip().startswith(MARK) else _summary(text)


def _summary(text: str) -> ForeignStatements | None:
    stated = ForeignStatements("mlperf")
    for line in text.splitlines():
        if match := _LINE.match(line):
            _summary_line(stated, match["key"].strip(), match["value"])
    return stated if "scenario" in stated.stated else None


def _summary_line(stated: ForeignStatements, key: str, value: str) -> None:
    lower = key.lower()
    if lower in WORDS["rates"]:
        name, unit = WORDS["rates"][lower]
        stated.figure(name, _number(value), unit)
    elif (latency := _LATENCY.fullmatch(key)) is not None:
        stated.figure(_latency_name(latency), _number(value), "ms", 1e-6)
    elif lower in WORDS["texts"]:
        stated.state(WORDS["texts"][lower], value)
    elif lower == "result is":
        stated.state("valid", value == "VALID")
    elif lower.endswith("satisfied"):
        stated.state(lower.replace(" ", "_"), value == "Yes")
    elif key in PARAMETERS:
        number = _number(value)
        stated.state(key, value if number is None else number)
        if key == "target_qps":
            stated.state("rate_per_s", number)
        if key == "samples_per_query":
            stated.state("batch", number)


def _detail(text: str) -> ForeignStatements | None:
    stated = ForeignStatements("mlperf")
    for line in text.splitlines():
        if not line.startswith(MARK):
            continue
        try:
            record = json.loads(line[len(MARK) :])
        except (ValueError, RecursionError):
            continue  # a torn last line of a killed run
        if isinstance(record, dict) and isinstance(record.get("key"), str):
            _detail_line(stated, record["key"], record.get("value"))
    return stated if "scenario" in stated.stated else None


def _detail_line(stated: ForeignStatements, key: str, value: JsonValue) -> None:
    if key in WORDS["detail_rates"]:
        name, unit = WORDS["detail_rates"][key]
        stated.figure(name, value, unit)
    elif (latency := _DETAIL_LATENCY.fullmatch(key)) is not None:
        stated.figure(_latency_name(latency), value, "ms", 1e-6)
    elif key == "result_validity":
        stated.state("valid", value == "VALID")
    elif key in WORDS["detail_values"]:
        stated.state(WORDS["detail_values"][key], value)
    elif key in WORDS["detail_numbers"]:
        stated.state(WORDS["detail_numbers"][key], finite(value))


def _latency_name(match: re.Match[str]) -> str:
    groups = match.groupdict()
    which = "time-to-first-token" if groups["first"] else "time-per-token" if groups["token"] else "latency"
    percentile = groups["percentile"] or groups.get("at")
    return f"{which} mean" if percentile is None else f"{which} p{float(percentile):g}"


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None
