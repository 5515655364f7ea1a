"""A killed and resumed endurance run from its files to a sealed result that verifies, and lies about it that do not."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forged_runs import change_document, seal_again
from lynxbench.cli.progress import TerminalProgress
from lynxbench.errors import BadFile, CannotRun
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.experiment.visiting import run_responses
from lynxbench.load.rolling import SLICES_FOLDER, read_slices
from lynxbench.model.job import Job, JobReport, JobStatus
from lynxbench.model.precision import Precision
from lynxbench.model.verification import CheckOutcome, VerificationReport
from lynxbench.record import comparing_results
from lynxbench.record.verifying import verify_folder
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.render_markdown import render_markdown
from lynxbench.run import intervening, pipeline, worker
from lynxbench.run.attempts import DEATH_FILE, earlier_attempt, kept_samples, measured_before_s, read_attempt
from lynxbench.run.concluding import telemetry_in
from lynxbench.run.fresh_job import ENDURING, JOB_FILE, REPORT_FILE, STAGE_FILE
from lynxbench.run.pipeline import begin_contract, end_contract, unmeasured
from lynxbench.run.run_outcome import Finished, LineProgress
from rolled_runs import ENDURANCE, NOON_NS, SECOND, endurance_contract, leave_attempt, made_iterations

CONTRACT = endurance_contract()


def begun(out: Path) -> RunFolder:
    """A run killed with -9 after 200 s and after 300 s more, then rebooted: the third process has another clock."""
    run = begin_contract(CONTRACT, out, None)
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")  # no run is shorter than its work
    change_document(run.path / "registration.json", lambda said: said.update(registered_at=hour_ago))
    run = RunFolder.open(run.path)
    (slot,) = run.registration.plan
    for seconds, begun_s, noon_s in ((203, 10**5, 0), (303, 10**5 + 250, 0)):
        iterations = made_iterations(seconds, seed=seconds, begun_ns=begun_s * SECOND)
        leave_attempt(run, slot, iterations, offset_ns=NOON_NS + noon_s, killed=True)
    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    run = begun(tmp_path_factory.mktemp("endured"))
    (slot,) = run.registration.plan
    offset_ns = NOON_NS + (10**5 + 700) * SECOND
    leave_attempt(run, slot, made_iterations(100, seed=9, begun_ns=SECOND), offset_ns=offset_ns, killed=False)
    return end_contract(run, None, LineProgress())


def failing(report: VerificationReport) -> dict[str, str]:
    return {check.name: check.why for check in report.checks if check.outcome is CheckOutcome.DOES_NOT_HOLD}


def test_a_resumed_run_is_one_result_with_its_gaps(finished: Finished) -> None:
    (part,) = finished.result.per_precision
    endurance = part.endurance
    assert endurance is not None
    assert [stretch.slices for stretch in endurance.stretches] == [40, 60, 20]
    assert endurance.measured_s == pytest.approx(600, abs=2)
    assert [round(gap.seconds) for gap in endurance.gaps] == pytest.approx([50, 151], abs=3)
    assert all("left no report" in gap.why for gap in endurance.gaps)
    assert part.throughput is not None
    assert part.throughput.estimate == pytest.approx(10, rel=0.01)
    assert part.sustained is not None
    assert part.restarts == 1


def test_it_verifies_and_says_what_cannot_be_recomputed(finished: Finished) -> None:
    report = verify_folder(finished.folder)
    assert failing(report) == {}
    lines = {check.name: check for check in report.checks}
    assert "120 slices" in lines["rollups"].why
    assert lines["excerpts"].outcome is CheckOutcome.HOLDS
    assert lines["rolled-up samples"].outcome is CheckOutcome.CANNOT
    assert lines["fp32 endurance"].outcome is CheckOutcome.HOLDS
    assert lines["samples counted"].why == "120 slices, 0 marks"


def test_its_report_shows_the_course_and_the_gaps(finished: Finished) -> None:
    text = render_markdown(compose_result(finished.result, finished.processes, finished.telemetry))
    for words in ("0:10:00 in 3 stretches", "Sustained by the 50", "Gaps", "left no report", "flat within", "Inlet"):
        assert words in text


def test_its_report_is_drawn_again_from_the_folder(finished: Finished) -> None:
    read = telemetry_in(finished.folder)
    assert read is not None
    assert finished.telemetry is not None
    assert np.array_equal(read.at_ns, finished.telemetry.at_ns)


def test_slices_are_no_latencies_for_a_comparison_or_an_experiment(finished: Finished) -> None:
    side = comparing_results._latency_runs(finished.result, finished.folder)
    assert side == {}
    (median,) = run_responses(finished.folder, "latency-p50").values()
    assert median == pytest.approx(100, rel=0.02)  # milliseconds of an iteration, not of a slice


def copied(finished: Finished, folder: Path) -> Path:
    shutil.copytree(finished.folder, folder)
    return folder


def changed_slice(folder: Path, attempt: str, **changes: object) -> Path:
    file = folder / "attempts" / attempt / SLICES_FOLDER / "00007.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return file


def test_a_changed_slice_is_told_by_the_manifest_and_sealed_again_by_the_figures(
    finished: Finished, tmp_path: Path
) -> None:
    folder = copied(finished, tmp_path / "lie")
    changed_slice(folder, "000-02", units=10**6)
    assert any("00007.json" in name for name in failing(verify_folder(folder)))
    write_manifest(folder)
    told = failing(verify_folder(folder))
    assert {"fp32 throughput", "fp32 endurance", "samples and phases"} <= told.keys()


def test_a_stretch_that_its_owner_drops_is_missed(finished: Finished, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path / "dropped")
    shutil.rmtree(folder / "attempts" / "000-01")
    write_manifest(folder)
    assert "attempts" in failing(verify_folder(folder))


def test_a_gap_that_its_owner_denies_does_not_hold(finished: Finished, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path / "denied")
    result = read_result(folder)
    (part,) = result.per_precision
    assert part.endurance is not None
    denied = part.model_copy(update={"endurance": part.endurance.model_copy(update={"gaps": ()})})
    seal_again(folder, result.model_copy(update={"per_precision": (denied,)}))
    assert "fp32 endurance" in failing(verify_folder(folder))


def test_excerpts_of_another_run_do_not_lie_within_the_rollups(finished: Finished, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path / "excerpts")
    faster = {"start_ns": [0, 10**6], "lasted_ns": [900_000, 900_000], "units": [1, 1]}
    changed_slice(folder, "000-01", excerpts=[faster])
    write_manifest(folder)
    assert "rollups" in failing(verify_folder(folder))


# --- going on --------------------------------------------------------------------------------------------------------


def test_what_earlier_attempts_measured_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begun(tmp_path)
    (slot,) = run.registration.plan
    assert measured_before_s(run, slot) == pytest.approx(500, abs=2)
    assert kept_samples(run) == pytest.approx(5000, rel=0.01)
    assert earlier_attempt(run, slot, repeats_failures=True) is None
    progress = TerminalProgress(CONTRACT)
    progress.begin(run)
    told = capsys.readouterr().err
    assert "about 2." in told  # minutes: 100 s are left, and what a start takes


def test_a_process_that_failed_on_its_own_is_taken_over_too(tmp_path: Path) -> None:
    run = begun(tmp_path)
    (slot,) = run.registration.plan
    failed = JobReport(status=JobStatus.FAILED, error="ValueError at model.py:3: no such table")
    (run.attempts(slot)[1] / REPORT_FILE).write_text(failed.model_dump_json())
    assert earlier_attempt(run, slot, repeats_failures=True) is None


def test_a_death_says_that_the_run_can_go_on(tmp_path: Path) -> None:
    run = begun(tmp_path)
    (slot,) = run.registration.plan
    (run.attempts(slot)[1] / DEATH_FILE).write_text("the process ended with code -9")
    told = unmeasured(CONTRACT, read_attempt(slot, run.attempts(slot)[1]))
    assert isinstance(told, CannotRun)
    assert "code -9" in str(told)
    assert "--resume" in str(told)


def test_a_worker_rolls_up_and_says_the_figure_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "slice_length_s", lambda duration_s: 0.05)
    stages: list[str] = []
    monkeypatch.setattr(worker, "say_stage", lambda folder, stage: stages.append(stage))
    job = Job(index=0, restart=0, contract=CONTRACT, precision=Precision.FP32, threads=1, measured_s=599.9)
    (tmp_path / JOB_FILE).write_text(job.model_dump_json(by_alias=True))
    report = worker.work(tmp_path)
    assert report.status is JobStatus.DONE
    slices = read_slices(tmp_path)
    assert 1 <= len(slices) <= 3
    assert all(each.resident_bytes is not None for each in slices)
    assert any(stage.startswith(ENDURING) and "calls/s so far" in stage for stage in stages)
    assert not (tmp_path / STAGE_FILE).exists()


def test_the_pipeline_gives_each_attempt_its_own_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin_contract(CONTRACT, tmp_path, None)
    (slot,) = run.registration.plan

    def measured(folder: Path, *_: object) -> pipeline.Attempt:
        folder.rmdir() if not any(folder.iterdir()) else shutil.rmtree(folder)
        leave_attempt(run, slot, made_iterations(600, seed=3), offset_ns=NOON_NS, killed=False)
        return read_attempt(slot, folder)

    monkeypatch.setattr(pipeline, "run_attempt", measured)
    done = end_contract(run, None, LineProgress())
    assert not (done.folder / "telemetry.csv").exists()
    assert (done.folder / "attempts" / "000-01" / "telemetry.csv").exists()
    assert done.telemetry is not None
    assert np.median(done.telemetry.at_ns) > NOON_NS


# --- the contract ----------------------------------------------------------------------------------------------------


def test_a_duration_changes_an_id_and_its_absence_none() -> None:
    assert CONTRACT.canonical()["protocol"]["duration"] == "600 s"  # type: ignore[index]
    plain = CONTRACT.model_copy(update={"protocol": CONTRACT.protocol.model_copy(update={"duration_s": None})})
    assert "duration" not in plain.canonical()["protocol"]  # type: ignore[operator]
    assert plain.contract_id != CONTRACT.contract_id != endurance_contract("12 h").contract_id


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("{duration: 12 h}", "say restarts: 1"),
        ("{restarts: 1, duration: 10 s}", "duration"),
        ("{restarts: 1, duration: 2000 h}", "duration"),
        ("{restarts: 1, duration: yes}", "duration"),
    ],
)
def test_a_duration_that_cannot_be_is_refused_in_a_line(protocol: str, words: str) -> None:
    text = ENDURANCE.partition("protocol:")[0] + f"protocol: {protocol}\n"
    from lynxbench.contract.loader import parse_contract

    with pytest.raises(BadFile, match=words):
        parse_contract(text)


def test_an_intervention_in_an_endurance_run_takes_minutes(tmp_path: Path) -> None:
    run = begin_contract(CONTRACT, tmp_path, None)
    assert intervening._job(run, CONTRACT, Precision.FP32).contract.protocol.duration_s is None
