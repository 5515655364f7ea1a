"""inference-perf's lifecycle reports: `load_summary`, `successes`, `failures`; seconds, p50 as `median`."""

from __future__ import annotations

import re

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import ForeignStatements, finite, part

LATENCIES = {
    "request_latency": "latency",
    "time_to_first_token": "time-to-first-token",
    "time_per_output_token": "time-per-token",
    "inter_token_latency": "inter-token latency",
}
INPUT_LENGTHS = ("prompt_tokens", "prompt_len")
"""Since 0.7 as the server counted them, before that as the client did."""
OUTPUT_LENGTHS = ("output_tokens", "output_len")
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


def parse_inference_perf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """One stage or the summary; None where the three parts are not there."""
    if not all(isinstance(document.get(key), dict) for key in ("load_summary", "successes", "failures")):
        return None
    said = ForeignStatements("inference-perf")
    throughput = part(document, "successes", "throughput")
    said.figure("request throughput", part(throughput, "requests_per_sec"), "requests/s")
    said.figure("output throughput", part(throughput, "output_tokens_per_sec"), "tokens/s")
    said.figure("total throughput", part(throughput, "total_tokens_per_sec"), "tokens/s")
    for key, name in LATENCIES.items():
        metric = part(document, "successes", "latency", key)
        if not isinstance(metric, dict):
            continue
        said.figure(f"{name} mean", metric.get("mean"), "ms", 1e3)
        said.figure(f"{name} p50", metric.get("median"), "ms", 1e3)
        for part_name, value in metric.items():
            match = _PERCENTILE.fullmatch(part_name)
            if match:
                said.figure(f"{name} p{float(match.group(1)):g}", value, "ms", 1e3)
    load = document["load_summary"]
    said.state("rate_per_s", finite(part(load, "requested_rate")) or finite(part(load, "achieved_rate")))
    said.state("achieved_rate_per_s", finite(part(load, "achieved_rate")))
    said.state("schedule_delay", part(load, "schedule_delay"))
    said.state("duration_s", finite(part(load, "send_duration")) or finite(document.get("benchmark_time_seconds")))
    said.state("completed", part(document, "successes", "count"))
    said.state("failed", part(document, "failures", "count"))
    for name, keys in (("input_tokens_mean", INPUT_LENGTHS), ("output_tokens_mean", OUTPUT_LENGTHS)):
        means = (finite(part(document, "successes", key, "mean")) for key in keys)
        said.state(name, next((mean for mean in means if mean is not None), None))
    mismatches = part(document, "successes", "token_count_mismatches")
    said.state("token_source", None if mismatches is None else f"client, {mismatches} answers disagree with the server")
    return said
