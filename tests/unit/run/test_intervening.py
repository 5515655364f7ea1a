"""Interventions in fresh processes: a real run is tested again with its inputs prestaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from intervened import CONTRACT, SILENT
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.contract import Contract
from lynxbench.model.interval import Interval
from lynxbench.model.interventions import InterventionScope
from lynxbench.model.layers import Layer
from lynxbench.model.result import PrecisionResult
from lynxbench.run.intervening import FOLDER, intervene
from lynxbench.run.pipeline import run_contract

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def blamed_on_input(result: PrecisionResult) -> PrecisionResult:
    """The measured result with a verdict that prestaging tests: half of the step awaits its input."""
    found = Attribution(
        bottleneck=Category.INPUT,
        bound=Bound.SOFTWARE,
        layer=Layer.APPLICATION,
        owner="them",
        shares={Category.INPUT: 0.9, Category.COMPUTE: 0.1},
        gain_if_removed=Interval(1.5, 4.0, 9.0),
        evidence=(),
        sentence="software-bound: preparing or awaiting the input takes 90 % of a step",
        next_step="prefetch",
        wall_ms_per_step=1.0,
        steps=9,
    )
    return result.model_copy(update={"attribution": found})


def test_a_false_verdict_is_corrected_by_its_intervention(tmp_path: Path) -> None:
    contract = Contract.model_validate_json(json.dumps(CONTRACT))
    finished = run_contract(contract, tmp_path, None, SILENT)
    run = RunFolder.open(finished.folder)
    (measured,) = finished.result.per_precision
    found = intervene(run, blamed_on_input(measured), SILENT, InterventionScope.VERDICT).attribution
    assert found is not None
    (one,) = found.interventions
    assert one.name == "prestage the inputs"
    assert one.predicted.estimate == pytest.approx(10.0)
    assert one.measured.known
    assert one.measured.low <= one.measured.estimate <= one.measured.high
    assert one.measured.low < 3.0, "making eight token ids is not nine tenths of a step, and nothing says that it is"
    assert one.note in {"less than predicted", "too uncertain to tell"}
    assert any(line.startswith("intervention: prestage the inputs: predicted") for line in found.evidence)
    assert found.gain_if_removed != Interval(1.5, 4.0, 9.0) or found.weak
    names = sorted(path.name for path in (finished.folder / FOLDER).iterdir())
    assert names == ["fp32-prestage-the-inputs-0", "fp32-prestage-the-inputs-1", "fp32-unchanged"]
