"""AIPerf and genai-perf: objects of metrics, each `{unit, avg, p50, p99 …}`, with the configuration beside them."""

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements, at, finite


def parse_aiperf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """`profile_export_aiperf.json`; None where the file does not carry AIPerf's version."""
    if "aiperf_version" not in document:
        return None
    stated = _metrics("aiperf", document)
    stated.take(document, TABLE["aiperf"])
    models = at(document, "input_config.models.items")
    stated.state("model", at(models[0], "name") if isinstance(models, list) and models else None)
    phases = at(document, "input_config.phases")
    for phase in phases if isinstance(phases, list) else []:
        if at(phase, "kind") == "profiling":
            stated.state("concurrency", at(phase, "concurrency"))
            stated.state("rate_per_s", at(phase, "rate") or at(phase, "request_rate"))
        elif at(phase, "kind") == "warmup":
            stated.state("warmup", phase)
    errors = document.get("error_summary")
    if isinstance(errors, list):
        stated.state("failed", int(sum(finite(at(error, "count")) or 0 for error in errors)))
    return stated


def parse_genai_perf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """`profile_export_genai_perf.json`; None where the keys are others."""
    config = document.get("input_config")
    if not isinstance(config, dict) or not isinstance(document.get("request_throughput"), dict):
        return None
    stated = _metrics("genai-perf", document)
    stated.take(config, TABLE["genai-perf"])
    models = config.get("model_names") or config.get("model") or config.get("formatted_model_name")
    stated.state("model", models[0] if isinstance(models, list) and models else models)
    tokenizer = config.get("tokenizer")
    stated.state("tokenizer", at(tokenizer, "name") if isinstance(tokenizer, dict) else tokenizer)
    return stated


def _metrics(tool: str, document: dict[str, JsonValue]) -> ForeignStatements:
    stated, table = ForeignStatements(tool), TABLE["genai"]
    stated.take(document, table)
    for key, name in table["latencies"].items():
        metric = document.get(key)
        scale = table["milliseconds"].get(str(at(metric, "unit")))
        if isinstance(metric, dict) and scale is not None:  # a latency in a unit that is not known is no figure
            stated.figure(f"{name} mean", metric.get("avg"), "ms", scale)
            stated.percentiles(name, metric, scale)
    return stated
