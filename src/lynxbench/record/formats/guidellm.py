"""GuideLLM's `benchmarks.json`: one entry a load level; distributions of successful requests with percentiles."""

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import ForeignStatements, finite, part

METRICS = {
    "request_latency": ("latency", 1e3),
    "time_to_first_token_ms": ("time-to-first-token", 1.0),
    "inter_token_latency_ms": ("inter-token latency", 1.0),
    "time_per_output_token_ms": ("time-per-token", 1.0),
}
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def parse_guidellm(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """All load levels of a report; figures of the second and later ones carry their place in the name."""
    levels = document.get("benchmarks")
    if not isinstance(levels, list) or not levels or not isinstance(part(levels[0], "metrics"), dict):
        return None
    stated = ForeignStatements("guidellm")
    for place, level in enumerate(levels):
        _level(stated, level, "" if len(levels) == 1 else f"level {place + 1}: ")
    stated.state("tool_version", part(document, "metadata", "guidellm_version"))
    stated.state("platform", part(document, "metadata", "platform"))
    args, spec = document.get("args"), part(document, "config", "spec")  # before version 0.8, and since
    stated.state("model", part(args, "model") or part(spec, "backend", "model"))
    stated.state("tokenizer", part(args, "processor") or part(spec, "tokenizer", "model"))
    first, last = levels[0], levels[-1]
    stated.state("levels", len(levels))
    strategy = part(first, "config", "strategy") or part(first, "scheduler", "strategy")
    stated.state("strategy", strategy)
    streams = part(strategy, "streams") or part(strategy, "max_concurrency") or part(strategy, "concurrency")
    stated.state("concurrency", streams or _mean(first, "request_concurrency"))
    stated.state("rate_per_s", part(strategy, "rate"))
    stated.state("warmup", finite(part(first, "warmup_duration")))
    stated.state("input_tokens_mean", _mean(first, "prompt_token_count"))
    stated.state("output_tokens_mean", _mean(first, "output_token_count"))
    stated.state("failed", part(first, "metrics", "request_totals", "errored"))
    delay = finite(part(first, "scheduler_metrics", "request_targeted_start_delay_avg"))
    stated.state("schedule_delay", delay)
    stated.state("started_at", finite(part(first, "start_time") or part(first, "scheduler_metrics", "start_time")))
    stated.state("finished_at", finite(part(last, "end_time") or part(last, "scheduler_metrics", "end_time")))
    return stated


def _mean(level: JsonValue, metric: str) -> float | None:
    return finite(part(level, "metrics", metric, "successful", "mean"))


def _level(stated: ForeignStatements, level: JsonValue, prefix: str) -> None:
    stated.figure(f"{prefix}request throughput", _mean(level, "requests_per_second"), "requests/s")
    stated.figure(f"{prefix}output throughput", _mean(level, "output_tokens_per_second"), "tokens/s")
    stated.figure(f"{prefix}total throughput", _mean(level, "tokens_per_second"), "tokens/s")
    for key, (name, scale) in METRICS.items():
        stated.figure(f"{prefix}{name} mean", _mean(level, key), "ms", scale)
        for short, percentile in PERCENTILES.items():
            value = part(level, "metrics", key, "successful", "percentiles", short)
            stated.figure(f"{prefix}{name} p{percentile:g}", value, "ms", scale)
