"""Results of the ledger in other programs' formats. Every row carries its context; a figure never leaves alone."""

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest

from lynxbench.errors import BadInput
from lynxbench.evidence.trust import TrustList
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.result_standings import standings
from lynxbench.model.evidence_gate import cause_falls_short, without_blame
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.record.otlp import render_metrics, render_traces, send_otlp
from lynxbench.record.recalling import result_document
from lynxbench.tables import read_table

LABELS = ("result_id", "contract_id", "contract", "executor_id", "precision", "batch", "load", "validity", "standing")
"""Context that every sample of a metric carries."""
TABLE = read_table("record/export.toml")
COLUMNS: tuple[str, ...] = tuple(TABLE["columns"])
MLFLOW_EXPERIMENT = "lynxbench"
_UNSAFE_CELL = re.compile(r"^[=+\-@\t\r]")
Standings = Mapping[str, str]
"""By result id: what it stands on in a ledger (verified, contested, retracted …); absent where no ledger was asked."""


class ExportFormat(StrEnum):
    """What `results export` writes."""

    BUNDLE = "bundle"
    OPENMETRICS = "openmetrics"
    CSV = "csv"
    PARQUET = "parquet"
    MLFLOW = "mlflow"
    OTLP = "otlp"


ADDRESSED = (ExportFormat.MLFLOW, ExportFormat.OTLP)
"""Sent to a server instead of written to a file."""


def export_rows(ledger: OpenLedger, names: Sequence[str], target: str, written: ExportFormat, trust: TrustList) -> int:
    """Write one row for each measured precision of these results; how many. A server's target is its address."""
    chosen = list(dict.fromkeys(names))
    results = [result_document(ledger, name) for name in chosen]
    standing = {name: known.short for name, known in standings(ledger.log, chosen, trust).items()}
    if written is ExportFormat.MLFLOW:
        return len(log_to_mlflow(results, target, standing))
    if written is ExportFormat.OTLP:
        rows = rows_of(results, standing)
        send_otlp(
            target, render_traces(results, contexts_of(results, standing)), render_metrics(rows, LABELS), os.environ
        )
        return len(rows)
    path = Path(target)
    if written is ExportFormat.PARQUET:
        return write_parquet(results, path, standing)
    rendered = (render_csv if written is ExportFormat.CSV else render_openmetrics)(results, standing)
    try:
        write_text(path, rendered)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from None
    return len(rows_of(results))


def rows_of(results: Iterable[Result], standing: Standings = MappingProxyType({})) -> list[dict[str, Any]]:
    """One row for each measured precision of each result, with its whole context."""
    return [
        {**_row(result, measured), "standing": standing.get(result.result_id)}
        for result in results
        for measured in result.per_precision
        if measured.skipped is None
    ]


def contexts_of(results: Iterable[Result], standing: Standings = MappingProxyType({})) -> list[dict[str, Any]]:
    """What every row of a result shares, one for each result."""
    shared = {name: place for name, place in TABLE["columns"].items() if place.startswith("result.")}
    return [
        {
            **{name: _found({"result": result}, place) for name, place in shared.items()},
            "standing": standing.get(result.result_id),
        }
        for result in results
    ]


def render_csv(results: Iterable[Result], standing: Standings = MappingProxyType({})) -> str:
    """Comma-separated rows with a heading; missing values are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows_of(results, standing):
        writer.writerow({name: _cell(row[name]) for name in COLUMNS})
    return out.getvalue()


def render_openmetrics(results: Iterable[Result], standing: Standings = MappingProxyType({})) -> str:
    """OpenMetrics text (Prometheus reads it): gauges with bounds, each sample labelled with its context."""
    rows = rows_of(results, standing)
    families: list[Metric] = []
    for name, unit, about, columns in (
        (
            "lynxbench_throughput_per_second",
            "",
            "Sustained units of work per second, with the bounds of its interval.",
            {"low": "throughput_low", "estimate": "throughput", "high": "throughput_high"},
        ),
        (
            "lynxbench_latency_milliseconds",
            "milliseconds",
            "Latency of an iteration or request by percentile.",
            {"p50": "latency_p50_ms", "p99": "latency_p99_ms"},
        ),
        ("lynxbench_counted_seconds", "seconds", "Steady seconds behind the figures.", {"": "counted_s"}),
    ):
        family = Metric(name, about, "gauge", unit)
        for row in rows:
            labels = {key: "" if row[key] is None else str(row[key]) for key in (*LABELS, "unit")}
            for bound, column in columns.items():
                which = {"bound" if unit == "" else "percentile": bound} if bound else {}
                if row[column] is not None:
                    family.add_sample(name, labels | which, row[column])
        families.append(family)
    return bytes(generate_latest(SimpleNamespace(collect=lambda: families))).decode()  # type: ignore[no-untyped-call]


def arrow_table(results: Iterable[Result], standing: Standings = MappingProxyType({})) -> Any:
    """The same rows as a `pyarrow.Table`. Needs the extra `export`."""
    try:
        import pyarrow as pa
    except ImportError:
        raise BadInput("Arrow and Parquet need pyarrow: install lynxbench[export]") from None
    schema = pa.schema([
        (name, pa.int64() if name in TABLE["whole"] else pa.float64() if name in TABLE["fractions"] else pa.string())
        for name in COLUMNS
    ])  # fmt: skip
    return pa.Table.from_pylist(rows_of(results, standing), schema=schema)


def data_frame(results: Iterable[Result], standing: Standings = MappingProxyType({})) -> Any:
    """The same rows as a `pandas.DataFrame`; what is not known is missing. Needs the extra `export`."""
    try:
        import_module("pandas")
    except ImportError:
        raise BadInput("a data frame needs pandas: install lynxbench[export]") from None
    return arrow_table(results, standing).to_pandas()


def write_parquet(results: Iterable[Result], path: Path, standing: Standings = MappingProxyType({})) -> int:
    """The same rows as a Parquet file; returns how many. Needs the extra `export`."""
    table = arrow_table(results, standing)
    import pyarrow.parquet as pq

    try:
        pq.write_table(table, path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from None
    return int(table.num_rows)


def log_to_mlflow(results: Iterable[Result], uri: str, standing: Standings = MappingProxyType({})) -> list[str]:
    """One MLflow run for each measured precision; returns their ids. Needs the extra `export`."""
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise BadInput("MLflow export needs mlflow: install lynxbench[export]") from None
    try:
        return _log_rows(MlflowClient(tracking_uri=uri), rows_of(results, standing))
    except (MlflowException, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadInput(f"{uri}: MLflow refuses: {reason}") from None


def _log_rows(client: Any, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    known = client.get_experiment_by_name(MLFLOW_EXPERIMENT)
    experiment_id = known.experiment_id if known is not None else client.create_experiment(MLFLOW_EXPERIMENT)
    ids = []
    for row in rows:
        name = f"{row['contract']} {row['precision']}"
        run = client.create_run(experiment_id, run_name=name, tags={"lynxbench.result_id": row["result_id"]})
        for key, value in row.items():
            if isinstance(value, float):
                client.log_metric(run.info.run_id, key, value)
            elif value is not None:
                client.log_param(run.info.run_id, key, str(value)[:500])
        client.set_terminated(run.info.run_id)
        ids.append(str(run.info.run_id))
    return ids


def _row(result: Result, measured: PrecisionResult) -> dict[str, Any]:
    attribution = measured.attribution or result.attribution
    if attribution is not None:  # a table travels without the report: what carries no blame has none in it
        attribution = without_blame(attribution, cause_falls_short(result, measured, attribution))
    roots = {"result": result, "measured": measured, "attribution": attribution}
    made = {
        "latency_p50_ms": _percentile(measured, 50.0),
        "latency_p99_ms": _percentile(measured, 99.0),
        "validity_reasons": "; ".join(measured.validity.reasons) or None,
        "standing": None,
    }
    return {name: _found(roots, place) if place else made[name] for name, place in TABLE["columns"].items()}


def _found(roots: Mapping[str, object], place: str) -> Any:
    """The value at a dotted place; None where something on the way is not known."""
    root, *names = place.split(".")
    value: Any = roots[root]
    for name in names:
        value = None if value is None else getattr(value, name)
    return value.value if isinstance(value, StrEnum) else value


def _percentile(measured: PrecisionResult, percentile: float) -> float | None:
    listed = measured.latency_ms.get("latency", ())
    return next((p.estimate for p in listed if p.percentile == percentile and p.resolved), None)


def _cell(value: object) -> object:
    # A spreadsheet executes cells that begin like a formula; somebody else's contract name must not.
    if isinstance(value, str) and _UNSAFE_CELL.match(value):
        return "'" + value
    return value
