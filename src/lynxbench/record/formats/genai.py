"""AIPerf and genai-perf: objects of metrics, each `{unit, avg, p50, p99 …}`, with the configuration beside them."""

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import ForeignStatements, finite, part

THROUGHPUTS = {
    "request_throughput": ("request throughput", "requests/s"),
    "output_token_throughput": ("output throughput", "tokens/s"),
    "total_token_throughput": ("total throughput", "tokens/s"),
    "goodput": ("request goodput", "requests/s"),
}
LATENCIES = {
    "request_latency": "latency",
    "time_to_first_token": "time-to-first-token",
    "inter_token_latency": "time-per-token",
}
MILLISECONDS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}


def parse_aiperf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """`profile_export_aiperf.json`; None where the file does not carry AIPerf's version."""
    if "aiperf_version" not in document:
        return None
    stated = _metrics("aiperf", document)
    stated.state("tool_version", document.get("aiperf_version"))
    models = part(document, "input_config", "models", "items")
    stated.state("model", part(models[0], "name") if isinstance(models, list) and models else None)
    phases = part(document, "input_config", "phases")
    for phase in phases if isinstance(phases, list) else []:
        if part(phase, "kind") == "profiling":
            stated.state("concurrency", part(phase, "concurrency"))
            stated.state("rate_per_s", part(phase, "rate") or part(phase, "request_rate"))
        elif part(phase, "kind") == "warmup":
            stated.state("warmup", phase)
    stated.state("tokenizer", part(document, "input_config", "tokenizer", "name"))
    stated.state("streaming", part(document, "input_config", "endpoint", "streaming"))
    stated.state("started_at", document.get("start_time"))
    errors = document.get("error_summary")
    if isinstance(errors, list):
        stated.state("failed", int(sum(finite(part(error, "count")) or 0 for error in errors)))
    return stated


def parse_genai_perf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """`profile_export_genai_perf.json`; None where the keys are others."""
    config = document.get("input_config")
    if not isinstance(config, dict) or not isinstance(document.get("request_throughput"), dict):
        return None
    stated = _metrics("genai-perf", document)
    models = config.get("model_names") or config.get("model") or config.get("formatted_model_name")
    stated.state("model", models[0] if isinstance(models, list) and models else models)
    stimulus = part(config, "perf_analyzer", "stimulus")
    for source in (config, stimulus):
        stated.state("concurrency", part(source, "concurrency"))
        stated.state("rate_per_s", part(source, "request_rate"))
    tokenizer = config.get("tokenizer")
    stated.state("tokenizer", part(tokenizer, "name") if isinstance(tokenizer, dict) else tokenizer)
    stated.state("warmup", config.get("warmup_request_count") or part(config, "perf_analyzer", "warmup_request_count"))
    return stated


def _metrics(tool: str, document: dict[str, JsonValue]) -> ForeignStatements:
    stated = ForeignStatements(tool)
    for key, (name, unit) in THROUGHPUTS.items():
        stated.figure(name, part(document, key, "avg"), unit)
    for key, name in LATENCIES.items():
        metric = document.get(key)
        scale = MILLISECONDS.get(str(part(metric, "unit")))
        if isinstance(metric, dict) and scale is not None:  # a latency in a unit that is not known is no figure
            stated.figure(f"{name} mean", metric.get("avg"), "ms", scale)
            stated.percentiles(name, metric, scale)
    stated.state("input_tokens_mean", finite(part(document, "input_sequence_length", "avg")))
    stated.state("output_tokens_mean", finite(part(document, "output_sequence_length", "avg")))
    stated.state("completed", finite(part(document, "request_count", "avg")))
    return stated
