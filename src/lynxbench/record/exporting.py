"""Results of the ledger in other programs' formats, each row with its context and its standing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.evidence.trust import TrustList
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.queries import standings
from lynxbench.record.formats.exports import log_to_mlflow, render_csv, render_openmetrics, rows_of, write_parquet
from lynxbench.record.recalling import result_document


class ExportFormat(StrEnum):
    """What `results export` writes."""

    BUNDLE = "bundle"
    OPENMETRICS = "openmetrics"
    CSV = "csv"
    PARQUET = "parquet"
    MLFLOW = "mlflow"


def export_rows(ledger: OpenLedger, names: Sequence[str], target: str, written: ExportFormat, trust: TrustList) -> int:
    """Write one row for each measured precision of these results; how many. MLflow's target is a tracking URI."""
    chosen = list(dict.fromkeys(names))
    results = [result_document(ledger, name) for name in chosen]
    standing = {name: known.short for name, known in standings(ledger.log, chosen, trust).items()}
    if written is ExportFormat.MLFLOW:
        return len(log_to_mlflow(results, target, standing=standing))
    path = Path(target)
    if written is ExportFormat.PARQUET:
        return write_parquet(results, path, standing)
    rendered = (render_csv if written is ExportFormat.CSV else render_openmetrics)(results, standing)
    try:
        write_text(path, rendered)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from None
    return len(rows_of(results))
