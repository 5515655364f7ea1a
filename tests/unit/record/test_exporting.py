"""Exports: every row carries its context, every format reads back."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from compared import make_attribution, make_contract, make_precision, make_result
from lynxbench.model.job import Skip
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.exporting import (
    COLUMNS,
    log_to_mlflow,
    render_csv,
    render_openmetrics,
    rows_of,
    write_parquet,
)
from planted import Plant, doubted

HOSTILE = make_contract(question='=cmd|"calc"!A1')


def _results() -> list[Result]:
    skipped = make_precision(
        Precision.BF16, skipped=Skip(reason="emulated"), validity=Validity(verdict=ValidityVerdict.DOUBTFUL)
    )
    return [make_result(), make_result(per_precision=(make_precision(Precision.INT8), skipped))]


def test_csv_reads_back_with_context_in_every_row() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(_results()))))
    assert [row["precision"] for row in rows] == ["fp32", "int8"], "what was not measured is no row"
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        for name in ("result_id", "contract_id", "executor_id", "batch", "load", "unit", "restarts", "validity"):
            assert row[name], name
        assert float(row["throughput_low"]) < float(row["throughput"]) < float(row["throughput_high"])


def test_a_cell_cannot_become_a_formula() -> None:
    result = make_result()
    hostile = result.model_copy(update={"run_id": "=HYPERLINK(1)"})
    (row,) = csv.DictReader(io.StringIO(render_csv([hostile])))
    assert row["run_id"] == "'=HYPERLINK(1)"


def test_openmetrics_is_well_formed_and_labelled() -> None:
    text = render_openmetrics(_results())
    assert text.endswith("# EOF\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    form = re.compile(r'[a-z_]+\{([a-z_]+="(?:[^"\\]|\\.)*",?)+\} [0-9.e+-]+')
    assert len(samples) == 2 * (3 + 2 + 1)
    for line in samples:
        assert form.fullmatch(line), line
        assert 'contract_id="' in line
        assert 'precision="' in line
        assert 'load="' in line
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


def test_openmetrics_escapes_what_people_write() -> None:
    result = make_result()
    odd = result.conditions.model_copy(update={"load": 'a "b"\n\\c'})
    text = render_openmetrics([result.model_copy(update={"conditions": odd})])
    assert 'load="a \\"b\\"\\n\\\\c"' in text


def test_parquet_reads_back(tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tmp_path / "results.parquet"
    assert write_parquet(_results(), path) == 2
    table = parquet.read_table(path).to_pylist()
    assert [row["precision"] for row in table] == ["fp32", "int8"]
    assert table[0]["throughput"] == pytest.approx(rows_of(_results())[0]["throughput"])


def test_mlflow_holds_metrics_and_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import tracking

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    ids = log_to_mlflow(_results()[:1], uri)
    run = tracking.MlflowClient(tracking_uri=uri).get_run(ids[0])
    assert run.data.metrics["throughput"] == pytest.approx(100.0)
    assert run.data.params["precision"] == "fp32"
    assert run.data.params["contract"] == "compared"


@pytest.mark.parametrize("plant", [doubted("foreign load: other programs used 71 % of the CPUs"), doubted("stalls")])
def test_a_table_blames_nobody_where_the_report_would_not(plant: Plant) -> None:
    """Found: exports named an owner for results of which every page says that nobody is blamed."""
    named = make_attribution(sentence="software-bound: launches take 60 % of a step")
    sound = make_result(per_precision=(make_precision(attribution=named),), attribution=named)
    (row,) = rows_of([sound])
    assert (row["bound"], row["owner"]) == (named.bound.value, named.owner)
    (row,) = rows_of([plant(sound)])
    assert (row["bound"], row["layer"], row["owner"]) == ("undetermined", None, None)
    assert row["bottleneck"] == named.bottleneck.value, "where the time went is no blame"
