"""inference-perf's lifecycle reports: `load_summary`, `successes`, `failures`; seconds, p50 as `median`."""

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


def parse_inference_perf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """One stage or the summary; None where the three parts are not there."""
    if not all(isinstance(document.get(key), dict) for key in ("load_summary", "successes", "failures")):
        return None
    stated = ForeignStatements("inference-perf")
    throughput = part(document, "successes", "throughput")
    stated.figure("request throughput", part(throughput, "requests_per_sec"), "requests/s")
    stated.figure("output throughput", part(throughput, "output_tokens_per_sec"), "tokens/s")
    stated.figure("total throughput", part(throughput, "total_tokens_per_sec"), "tokens/s")
    for key, name in LATENCIES.items():
        metric = part(document, "successes", "latency", key)
        if isinstance(metric, dict):
            stated.figure(f"{name} mean", metric.get("mean"), "ms", 1e3)
            stated.figure(f"{name} p50", metric.get("median"), "ms", 1e3)
            stated.percentiles(name, metric, 1e3)
    load = document["load_summary"]
    stated.state("rate_per_s", finite(part(load, "requested_rate")) or finite(part(load, "achieved_rate")))
    stated.state("achieved_rate_per_s", finite(part(load, "achieved_rate")))
    stated.state("schedule_delay", part(load, "schedule_delay"))
    stated.state("duration_s", finite(part(load, "send_duration")) or finite(document.get("benchmark_time_seconds")))
    stated.state("completed", part(document, "successes", "count"))
    stated.state("failed", part(document, "failures", "count"))
    for name, keys in (("input_tokens_mean", INPUT_LENGTHS), ("output_tokens_mean", OUTPUT_LENGTHS)):
        means = (finite(part(document, "successes", key, "mean")) for key in keys)
        stated.state(name, next((mean for mean in means if mean is not None), None))
    mismatches = part(document, "successes", "token_count_mismatches")
    if mismatches is not None:
        stated.state("token_source", f"client, {mismatches} answers disagree with the server")
    return stated
