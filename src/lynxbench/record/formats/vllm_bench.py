"""`vllm bench serve --save-result`: one flat object; latencies in milliseconds as mean_, median_ and p99_ keys."""

import re

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements, finite

_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")


def parse_vllm(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """The figures of a serving benchmark; None where the keys are not vLLM's."""
    if "request_throughput" not in document or "duration" not in document or "completed" not in document:
        return None
    stated = ForeignStatements("vllm")
    stated.take(document, TABLE["vllm"])
    latencies = TABLE["vllm"]["latencies"]
    for short, name in latencies.items():
        stated.figure(f"{name} mean", document.get(f"mean_{short}_ms"), "ms")
        stated.figure(f"{name} p50", document.get(f"median_{short}_ms"), "ms")
    for key, value in document.items():
        match = _PERCENTILE.fullmatch(key)
        if match:
            stated.figure(f"{latencies[match.group(2)]} p{float(match.group(1)):g}", value, "ms")
    completed = finite(document.get("completed"))
    for total, name in (("total_input_tokens", "input_tokens_mean"), ("total_output_tokens", "output_tokens_mean")):
        count = finite(document.get(total))
        if completed and count is not None:
            stated.state(name, count / completed)
    return stated
