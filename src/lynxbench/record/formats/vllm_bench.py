"""`vllm bench serve --save-result`: one flat object; latencies in milliseconds as mean_, median_ and p99_ keys."""

import re

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import ForeignStatements, finite

METRICS = {
    "ttft": "time-to-first-token",
    "tpot": "time-per-token",
    "itl": "inter-token latency",
    "e2el": "latency",
}
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")


def parse_vllm(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """The figures of a serving benchmark; None where the keys are not vLLM's."""
    if "request_throughput" not in document or "duration" not in document or "completed" not in document:
        return None
    stated = ForeignStatements("vllm")
    stated.figure("request throughput", document.get("request_throughput"), "requests/s")
    stated.figure("output throughput", document.get("output_throughput"), "tokens/s")
    stated.figure("total throughput", document.get("total_token_throughput"), "tokens/s")
    stated.figure("request goodput", document.get("request_goodput"), "requests/s")
    for short, name in METRICS.items():
        stated.figure(f"{name} mean", document.get(f"mean_{short}_ms"), "ms")
        stated.figure(f"{name} p50", document.get(f"median_{short}_ms"), "ms")
    for key, value in document.items():
        match = _PERCENTILE.fullmatch(key)
        if match:
            stated.figure(f"{METRICS[match.group(2)]} p{float(match.group(1)):g}", value, "ms")
    stated.state("model", document.get("model_id"))
    stated.state("tokenizer", document.get("tokenizer_id"))
    stated.state("backend", document.get("backend"))
    stated.state("started_at", document.get("date"))
    stated.state("duration_s", finite(document.get("duration")))
    stated.state("completed", document.get("completed"))
    stated.state("failed", document.get("failed"))
    stated.state("concurrency", document.get("max_concurrency"))
    stated.state("rate_per_s", document.get("request_rate"))
    stated.state("burstiness", document.get("burstiness"))
    completed = finite(document.get("completed"))
    for total, name in (("total_input_tokens", "input_tokens_mean"), ("total_output_tokens", "output_tokens_mean")):
        count = finite(document.get(total))
        if completed and count is not None:
            stated.state(name, count / completed)
    return stated
