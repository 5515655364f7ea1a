"""Gains that interventions did not measure, stated over the samples of those that ran, and sealed again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forged_runs import change_document, seal_again
from forked_workers import forked_workers
from intervened import CONTRACT, SILENT
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.load.journal import ITERATIONS_FILE
from lynxbench.model.attribution import Attribution, Bound, Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.interval import Interval
from lynxbench.model.interventions import InterventionScope
from lynxbench.model.verification import EvidenceVerdict
from lynxbench.record.verifying import verify_folder
from lynxbench.run.pipeline import run_contract

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

BATCH = "fp32-double-the-batch"


@pytest.fixture(scope="module")
def tested_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every intervention that its engine can make."""
    contract = Contract.model_validate_json(json.dumps(CONTRACT))
    with forked_workers():
        return run_contract(contract, tmp_path_factory.mktemp("tested"), None, SILENT, InterventionScope.ALL).folder


@pytest.fixture
def run_copy(tested_run: Path, tmp_path: Path) -> Path:
    """The run, to be spoiled."""
    folder = tmp_path / "run"
    shutil.copytree(tested_run, folder)
    return folder


def lines_of(folder: Path) -> dict[str, tuple[str, str]]:
    return {check.name: (check.outcome.value, check.why) for check in verify_folder(folder).checks}


def failing(folder: Path) -> dict[str, str]:
    return {name: why for name, (outcome, why) in lines_of(folder).items() if outcome == "does not hold"}


def state(folder: Path, change: Callable[[Attribution], dict[str, Any]]) -> None:
    """Another attribution in everything that states it, and every hash in order."""
    result = read_result(folder)
    (part,) = result.per_precision
    assert part.attribution is not None
    lied = part.attribution.model_copy(update=change(part.attribution))
    told = {"attribution": lied, "per_precision": (part.model_copy(update={"attribution": lied}),)}
    seal_again(folder, result.model_copy(update=told))


def measured(attribution: Attribution) -> int:
    """The place of an intervention that gave a figure."""
    return next(i for i, tried in enumerate(attribution.interventions) if tried.measured.known)


def changed(attribution: Attribution, **update: Any) -> dict[str, Any]:
    place = measured(attribution)
    tried = list(attribution.interventions)
    tried[place] = tried[place].model_copy(update=update)
    return {"interventions": tuple(tried)}


def test_what_interventions_really_measured_is_computed_again_from_their_samples(tested_run: Path) -> None:
    report = verify_folder(tested_run)
    assert report.verdict is EvidenceVerdict.HOLDS, [check.line for check in report.checks]
    lines = lines_of(tested_run)
    assert lines["fp32 interventions"][0] == lines["fp32 attribution"][0] == "holds"
    assert lines["fp32 attribution"][1].startswith("the trace's part, and what interventions make of it")
    assert lines["processes of interventions"][0] == "holds"


@pytest.mark.parametrize(
    ("lie", "line"),
    [
        (lambda a: changed(a, measured=Interval(3.9, 4.0, 4.1)), "fp32 interventions"),
        (lambda a: changed(a, predicted=Interval(0.1, 0.2, 0.3)), "fp32 interventions"),
        (lambda a: changed(a, note="as promised by the vendor"), "fp32 interventions"),
        (lambda a: changed(a, name="buy another accelerator"), "fp32 interventions"),
        (lambda a: {"interventions": a.interventions[: measured(a)]}, "fp32 attribution"),
        (lambda a: {"gain_if_removed": a.interventions[measured(a)].measured}, "fp32 attribution"),
        (lambda a: {"gain_if_removed": Interval(1.0, 1.0, 1.0)}, "fp32 attribution"),
        (lambda a: {"next_step": "buy ten of them"}, "fp32 attribution"),
        (lambda a: {"weak": not a.weak}, "fp32 attribution"),
        (lambda a: {"sentence": f"{a.sentence}; measured by intervention"}, "fp32 attribution"),
        (lambda a: {"evidence": (*a.evidence, "intervention confirms the verdict")}, "fp32 attribution"),
        (lambda a: {"bound": Bound.UNDETERMINED, "layer": None, "owner": None, "symptom_layer": None},
         "fp32 attribution"),
    ],
)  # fmt: skip
def test_what_no_process_measured_is_refuted(
    run_copy: Path, lie: Callable[[Attribution], dict[str, Any]], line: str
) -> None:
    """Found: gains and the words on them were taken as they stood, beside the samples that refute them."""
    before = read_result(run_copy).attribution
    state(run_copy, lie)
    if read_result(run_copy).attribution == before:
        pytest.skip("the verdict of this run is that already: nothing was changed")
    assert line in failing(run_copy)


def test_a_gain_without_the_process_that_measured_it_is_refuted(run_copy: Path) -> None:
    shutil.rmtree(run_copy / "interventions" / f"{BATCH}-1")
    write_manifest(run_copy)
    assert f"interventions/{BATCH}-1 is not here" in failing(run_copy)["fp32 interventions"]


def test_samples_that_were_shortened_afterwards_are_another_gain(run_copy: Path) -> None:
    for number in range(2):
        file = run_copy / "interventions" / f"{BATCH}-{number}" / ITERATIONS_FILE
        rows = np.fromfile(file, dtype="<i8").reshape(-1, 4)
        rows[:, 1] -= (rows[:, 1] - rows[:, 0]) // 2
        file.write_bytes(rows.tobytes())
    write_manifest(run_copy)
    assert "measured" in failing(run_copy)["fp32 interventions"]


@pytest.mark.parametrize(
    ("tell", "what"),
    [
        ({"threads": 64}, "threads"),
        ({"precision": "bf16"}, "precision"),
        ({"change": "prestage the inputs"}, "change"),
        ({"index": 1}, "index"),
    ],
)
def test_a_process_that_was_told_something_else_is_none_of_the_intervention(
    run_copy: Path, tell: dict[str, Any], what: str
) -> None:
    change_document(run_copy / "interventions" / f"{BATCH}-0" / "job.json", lambda job: job.update(tell))
    write_manifest(run_copy)
    assert f"its process was told another {what} than" in failing(run_copy)["fp32 interventions"]


def test_what_a_process_was_told_must_be_here(run_copy: Path) -> None:
    (run_copy / "interventions" / f"{BATCH}-0" / "job.json").unlink()
    write_manifest(run_copy)
    assert "job.json is not here" in failing(run_copy)["fp32 interventions"]


@pytest.mark.parametrize("other", ["interventions/fp32-unchanged", f"interventions/{BATCH}-1", "attempts/000-01"])
def test_one_process_is_not_two(run_copy: Path, other: str) -> None:
    for name in ("iterations.bin", "marks.bin", "report.json"):
        shutil.copy(run_copy / other / name, run_copy / "interventions" / f"{BATCH}-0" / name)
    write_manifest(run_copy)
    assert "samples in common, to the nanosecond" in failing(run_copy)["processes of interventions"]


def test_interventions_of_which_nothing_is_said_are_told(run_copy: Path) -> None:
    """Whoever takes a contradicting gain out of the result and leaves its processes is seen to."""
    from lynxbench.record.recomputing import recompute_run

    result = read_result(run_copy)
    again = recompute_run(result, RunFolder.open(run_copy), {})
    (part,) = again.per_precision.values()
    seal_again(run_copy, result.model_copy(update={"per_precision": (part,), "attribution": part.attribution}))
    outcome, why = lines_of(run_copy)["fp32 interventions"]
    assert outcome == "cannot be recomputed"
    assert "and nothing is stated of what they gained" in why


def test_with_its_trace_left_out_the_gains_are_computed_all_the_same(run_copy: Path) -> None:
    trace = next((run_copy / "attempts").rglob("trace*"))
    name = trace.relative_to(run_copy).as_posix()
    trace.unlink()
    held = {check.name: check.outcome.value for check in verify_folder(run_copy, (), {name: "left out"}).checks}
    assert held["fp32 interventions"] == "holds"
    state(run_copy, lambda a: changed(a, measured=Interval(3.9, 4.0, 4.1)))
    trace.write_bytes(b"")
    write_manifest(run_copy)
    trace.unlink()
    lied = {check.name: check.outcome.value for check in verify_folder(run_copy, (), {name: "left out"}).checks}
    assert lied["fp32 interventions"] == "does not hold"


def test_an_intervention_alone_is_no_figure(run_copy: Path) -> None:
    tried = Intervention(name="double the batch", predicted=Interval(1, 1, 1), measured=Interval(9, 9, 9))
    state(run_copy, lambda a: {"interventions": (tried,)})
    assert "fp32 interventions" in failing(run_copy)
