"""Attempts: a process leaves a report or a death, both are read again as they were, and an interrupted run goes on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT
from lynxbench.contract.loader import parse_contract
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.model.executor import Executor
from lynxbench.model.job import Job, JobReport, JobStatus, Skip
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.run.attempts import (
    DEATH_FILE,
    NO_REPORT,
    Attempt,
    FreshProcess,
    earlier_attempt,
    kept_attempts,
    kept_samples,
    read_attempt,
    run_attempt,
)
from lynxbench.run.fresh_job import FINISHED_FILE, JOB_FILE, REPORT_FILE

CONTRACT = parse_contract(QUICK_CONTRACT)
PLAN = tuple(Slot(index=index, restart=index, precision=Precision.FP32) for index in range(2))
JOB = Job(index=0, restart=0, contract=CONTRACT, precision=Precision.FP32, threads=1)
REPORTING = """
import sys, time
from pathlib import Path
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.run.fresh_job import leave_report, say_stage

def work(folder):
    say_stage(folder, "measure")
    time.sleep(0.8)
    if (folder / "fail").exists():
        raise ValueError("no such table\\nsecond line")
    return JobReport(status=JobStatus.DONE)

leave_report(work, lambda: sys.exit(1))
"""


class Watched:
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.stages: set[str] = set()
        self.ended: list[JobStatus] = []

    def begin(self, run: RunFolder) -> None: ...

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        self.stages.add(stage)

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        self.ended.append(report.status)

    def note(self, text: str) -> None: ...


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    executor = Executor(layers={layer: {} for layer in Layer})
    return RunFolder.create(tmp_path, CONTRACT, executor, 1, PLAN, datetime.now(UTC))


def started(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, progress: Watched, label: str = "") -> Attempt:
    """One attempt with a program of the test's own."""
    (folder.parent / "fresh_program.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    return run_attempt(folder, PLAN[0], FreshProcess("fresh_program", JOB, 1), progress, label=label)


def left(run: RunFolder, slot: Slot, report: JobReport | None) -> Path:
    """An attempt that is over."""
    folder = run.new_attempt(slot)
    if report is not None:
        (folder / REPORT_FILE).write_text(report.model_dump_json())
    return folder


def test_a_process_is_watched_to_its_report(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Watched()
    attempt = started(run.new_attempt(PLAN[0]), monkeypatch, REPORTING, progress)
    assert attempt.done
    assert attempt == read_attempt(PLAN[0], attempt.folder)
    assert Job.model_validate_json((attempt.folder / JOB_FILE).read_bytes()) == JOB
    assert progress.ended == [JobStatus.DONE]
    assert "measure" in progress.stages


def test_a_failure_is_one_line_and_a_traceback(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run.new_attempt(PLAN[0])
    (folder / "fail").touch()
    attempt = started(folder, monkeypatch, REPORTING, Watched())
    assert attempt.report.status is JobStatus.FAILED
    assert attempt.why.startswith("ValueError at fresh_program.py:")
    assert attempt.why.endswith(": no such table")
    assert "second line" in (folder / "traceback.txt").read_text()


def test_a_death_is_written_down_and_read_again(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Watched()
    attempt = started(run.new_attempt(PLAN[0]), monkeypatch, "raise SystemExit('out of memory')", progress, "test: ")
    assert attempt.why == "the process ended with code 1 and left no report: out of memory"
    assert attempt == read_attempt(PLAN[0], attempt.folder)
    assert progress.ended == [], "a process that is not of the plan ends in silence"
    (attempt.folder / DEATH_FILE).unlink()
    assert read_attempt(PLAN[0], attempt.folder).why == NO_REPORT


def test_what_ended_before_an_interrupt_is_not_repeated(run: RunFolder) -> None:
    left(run, PLAN[0], None)
    assert earlier_attempt(run, PLAN[0], repeats_failures=False) is None
    failed = left(run, PLAN[0], JobReport(status=JobStatus.FAILED, error="no model"))
    earlier = earlier_attempt(run, PLAN[0], repeats_failures=False)
    assert earlier is not None
    assert earlier.folder == failed
    assert earlier_attempt(run, PLAN[0], repeats_failures=True) is None
    done = left(run, PLAN[0], JobReport(status=JobStatus.DONE))
    again = earlier_attempt(run, PLAN[0], repeats_failures=True)
    assert again is not None
    assert again.folder == done


def test_a_run_concludes_from_what_finished_else_from_the_last(run: RunFolder) -> None:
    assert kept_attempts(run) == ()
    left(run, PLAN[0], JobReport(status=JobStatus.FAILED, error="refused"))
    done = left(run, PLAN[0], JobReport(status=JobStatus.DONE))
    left(run, PLAN[1], None)
    skipped = left(run, PLAN[1], JobReport(status=JobStatus.SKIPPED, skip=Skip(reason="emulated")))
    first, second = kept_attempts(run)
    assert (first.folder, first.done) == (done, True)
    assert (second.folder, second.why) == (skipped, "emulated")


def test_requests_of_a_client_that_has_not_ended_are_not_kept(run: RunFolder) -> None:
    for report in (JobReport(status=JobStatus.DONE), None):
        (left(run, PLAN[0], report) / FINISHED_FILE).write_text("120")
    assert kept_samples(run) == 120
