"""inference-perf's lifecycle reports: `load_summary`, `successes`, `failures`; seconds, p50 as `median`."""

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements, at


def parse_inference_perf(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """One stage or the summary; None where the three parts are not there."""
    if not all(isinstance(document.get(key), dict) for key in ("load_summary", "successes", "failures")):
        return None
    stated = ForeignStatements("inference-perf")
    stated.take(document, TABLE["inference-perf"])
    for key, name in TABLE["inference-perf"]["latencies"].items():
        metric = at(document, f"successes.latency.{key}")
        if isinstance(metric, dict):
            stated.figure(f"{name} mean", metric.get("mean"), "ms", 1e3)
            stated.figure(f"{name} p50", metric.get("median"), "ms", 1e3)
            stated.percentiles(name, metric, 1e3)
    mismatches = at(document, "successes.token_count_mismatches")
    if mismatches is not None:
        stated.state("token_source", f"client, {mismatches} answers disagree with the server")
    return stated
