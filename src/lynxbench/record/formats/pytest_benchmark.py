"""pytest-benchmark's JSON (`--benchmark-json`, `--benchmark-save`): `benchmarks`, each with `stats` in seconds."""

from pydantic import JsonValue

from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements, at


def parse_pytest_benchmark(document: dict[str, JsonValue]) -> ForeignStatements | None:
    """Every benchmark of a file under the name of its test; None where the parts are not there."""
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list) or not isinstance(document.get("machine_info"), dict):
        return None
    stated = ForeignStatements("pytest-benchmark")
    stated.take(document, TABLE["pytest-benchmark"])
    for benchmark in benchmarks:
        name = at(benchmark, "fullname")
        if not isinstance(name, str) or not isinstance(at(benchmark, "stats"), dict):
            continue
        stated.take(benchmark, TABLE["pytest-benchmark"]["each"], f"{name}: ")
        for place, figure in TABLE["pytest-benchmark"]["latencies"].items():
            stated.figure(f"{name}: {figure}", at(benchmark, f"stats.{place}"), "ms", 1e3)
    return stated
