"""GuideLLM's `benchmarks.json`: one entry a load level; distributions of successful requests with percentiles."""

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements, at, finite

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def parse_guidellm(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """All load levels of a report; figures of the second and later ones carry their place in the name."""
    levels, table = document.get("benchmarks"), TABLE["guidellm"]
    if not isinstance(levels, list) or not levels or not isinstance(at(levels[0], "metrics"), dict):
        return None
    stated = ForeignStatements("guidellm")
    for place, level in enumerate(levels):
        _level(stated, level, "" if len(levels) == 1 else f"level {place + 1}: ")
    stated.take(document, table)
    stated.state("levels", len(levels))
    stated.take(levels[0], table["first"])
    stated.state("concurrency", finite(at(levels[0], "metrics.request_concurrency.successful.mean")))
    stated.take(stated.stated.get("strategy"), table["strategy"])  # what was asked for, before what came of it
    stated.take(levels[-1], table["last"])
    return stated


def _level(stated: ForeignStatements, level: JsonValue, prefix: str) -> None:
    stated.take(level, TABLE["guidellm"]["level"], prefix)
    for key, (name, scale) in TABLE["guidellm"]["latencies"].items():
        metric = f"metrics.{key}.successful"
        stated.figure(f"{prefix}{name} mean", at(level, f"{metric}.mean"), "ms", scale)
        for short, percentile in PERCENTILES.items():
            value = at(level, f"{metric}.percentiles.{short}")
            stated.figure(f"{prefix}{name} p{percentile:g}", value, "ms", scale)
