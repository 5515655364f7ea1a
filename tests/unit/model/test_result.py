"""A result is sealed by the hash of everything it says."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from lynxbench.contract.loader import read_bundled
from lynxbench.model.executor import Executor, measured
from lynxbench.model.figures import Figure
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Conditions, PrecisionResult, Result, SamplesFile, Validity, ValidityVerdict


@pytest.fixture
def result() -> Result:
    contract = read_bundled("callable-example")
    executor = Executor(layers={Layer.SYSTEM: {"kernel": measured("6.1", "uname")}})
    valid = Validity(verdict=ValidityVerdict.VALID)
    return Result(
        lynxbench_version="0.1.0",
        run_id="r1",
        started_at="2026-01-31T10:00:00Z",
        finished_at="2026-01-31T10:01:00Z",
        measuring_s=60.0,
        contract_id=contract.contract_id,
        executor_id=executor.executor_id,
        instance_id=executor.instance_id,
        contract=contract,
        executor=executor,
        conditions=Conditions(
            task="callable",
            model="solve_dense",
            batch=1,
            load="closed",
            input_tokens=None,
            output_tokens=None,
            regime="latency",
            engine="callable",
            graph=None,
            threads=1,
            division="none",
            restarts_planned=5,
        ),
        per_precision=(
            PrecisionResult(
                precision=Precision.FP32,
                throughput=Figure(low=1.0, estimate=2.0, high=3.0, unit="call/s"),
                validity=valid,
            ),
        ),
        attribution=None,
        validity=valid,
        assumptions=("none",),
        samples=SamplesFile(file="samples.bin", sha256="0" * 64, rows=3, marks=0),
    )


def test_sealing_gives_an_id_that_can_be_recomputed(result: Result) -> None:
    sealed = result.sealed()
    assert result.result_id == ""
    assert sealed.result_id == sealed.computed_id() == result.computed_id()
    assert sealed.sealed() == sealed


def test_any_change_of_what_it_says_changes_the_id(result: Result) -> None:
    sealed = result.sealed()
    for update in (
        {"measuring_s": 60.5},
        {"assumptions": ("none", "one more")},
        {"contract": read_bundled("embedding")},
        {"validity": Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("foreign load",))},
    ):
        assert result.model_copy(update=update).computed_id() != sealed.result_id


def test_the_document_is_plain_json_and_reads_back(result: Result) -> None:
    sealed = result.sealed()
    text = json.dumps(sealed.document(), allow_nan=False)
    again = Result.model_validate_json(text)
    assert again == sealed
    assert again.computed_id() == sealed.result_id
    assert json.loads(text)["contract"]["protocol"]["limit"] == "20 s"


def test_unknown_keys_are_refused(result: Result) -> None:
    document = {**result.document(), "surprise": 1}
    with pytest.raises(ValidationError, match="surprise"):
        Result.model_validate_json(json.dumps(document))


def test_missing_bounds_of_a_figure_are_not_numbers() -> None:
    interval = Figure(low=None, estimate=2.0, high=None, unit="s").interval
    assert math.isnan(interval.low)
    assert interval.estimate == 2.0
    assert not interval.known
