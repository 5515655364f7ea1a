"""Runs whose owner makes one good process do for all, or leaves a slow one out, and lets everything else fit."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forged_runs import change_document, conclude_again, seal_again
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.model.result import RULES
from lynxbench.model.verification import EvidenceVerdict
from lynxbench.record.verifying import verify_folder
from teams import copied_run


@pytest.fixture
def run_copy(spin_run: Path, tmp_path: Path) -> Path:
    """A finished run of two processes."""
    return copied_run(spin_run, tmp_path)


def refused(folder: Path) -> str:
    """Why the attempts of a folder do not hold, which nothing else gives away."""
    conclude_again(folder)
    report = verify_folder(folder)
    assert report.verdict is EvidenceVerdict.DOES_NOT_HOLD
    wrong = {check.name: check.why for check in report.checks if check.outcome.value == "does not hold"}
    assert list(wrong) == ["attempts"], wrong
    return wrong["attempts"]


def test_what_follows_from_an_honest_folder_holds(run_copy: Path) -> None:
    conclude_again(run_copy)
    assert verify_folder(run_copy).verdict is EvidenceVerdict.HOLDS


def test_one_process_does_not_count_for_every_restart(run_copy: Path) -> None:
    shutil.rmtree(run_copy / "attempts" / "001-01")
    change_document(run_copy / "registration.json", lambda said: [slot.update(index=0) for slot in said["plan"]])
    assert "not those that the contract asks for" in refused(run_copy)


def test_no_process_is_planned_that_may_then_be_left_out(run_copy: Path) -> None:
    """A precision whose first process gave nothing is given up: a second `first` one would excuse every gap."""
    shutil.rmtree(run_copy / "attempts" / "001-01")
    more = {"index": 2, "restart": 0, "precision": "fp32"}
    change_document(run_copy / "registration.json", lambda said: said["plan"].append(more))
    assert "not those that the contract asks for" in refused(run_copy)


def test_an_attempt_in_the_place_of_another_is_seen(run_copy: Path) -> None:
    shutil.rmtree(run_copy / "attempts" / "001-01")
    shutil.copytree(run_copy / "attempts" / "000-01", run_copy / "attempts" / "001-01")
    assert refused(run_copy) == "attempts/001-01: its process was told another process than the plan has in its place"


def test_samples_that_are_another_process_s_are_seen_to_the_nanosecond(run_copy: Path) -> None:
    for name in ("iterations.bin", "marks.bin", "report.json"):
        shutil.copy(run_copy / "attempts" / "000-01" / name, run_copy / "attempts" / "001-01" / name)
    assert "samples in common, to the nanosecond" in refused(run_copy)


@pytest.mark.parametrize(
    ("told", "what"),
    [({"precision": "bf16"}, "precision"), ({"change": "double the batch"}, "change"), ({"contract": {}}, "contract")],
)
def test_a_process_that_measured_something_else_is_none_of_this_run(
    run_copy: Path, told: dict[str, object], what: str
) -> None:
    def tell(job: dict[str, dict[str, dict[str, int]]]) -> None:
        job["contract"]["workload"]["batch"] += what == "contract"
        job |= {name: value for name, value in told.items() if value}  # type: ignore[misc]

    change_document(run_copy / "attempts" / "001-01" / "job.json", tell)
    assert f"was told another {what} than the plan" in refused(run_copy)


def test_what_a_process_was_told_may_not_be_missing(run_copy: Path) -> None:
    """Found: whoever took the job away could call any process one of the plan."""
    (run_copy / "attempts" / "001-01" / "job.json").unlink()
    assert refused(run_copy) == "attempts/001-01: job.json is not here, so nobody can see what its process was told"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "document: Invalid JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "document: Input should be an object"),
        ("{}", "index: Field required"),
        ('{"index": "one"}', "index: Input should be a valid integer"),
    ],
)
def test_a_job_that_cannot_be_read_is_told_in_one_line(run_copy: Path, text: str, told: str) -> None:
    """Found: `cannot be read (ValidationError: 4 validation errors for Job …` over several lines."""
    (run_copy / "attempts" / "001-01" / "job.json").write_text(text)
    assert refused(run_copy) == f"attempts/001-01/job.json: damaged: {told}"


def test_a_report_that_cannot_be_read_is_told_in_one_line_too(run_copy: Path) -> None:
    (run_copy / "attempts" / "001-01" / "report.json").write_text('{"status": "soon"}')
    write_manifest(run_copy)
    wrong = [check for check in verify_folder(run_copy).checks if check.outcome.value == "does not hold"]
    assert wrong
    for check in wrong:
        assert "report.json: damaged: status: Input should be " in check.why
        assert "\n" not in check.why
        assert "pydantic" not in check.why


def test_an_older_edition_hides_no_doubt_from_whoever_verifies(run_copy: Path) -> None:
    """Under the first editions a clock that was set was no doubt: whoever claims one is held against today's."""
    head, *rows = (run_copy / "telemetry.csv").read_text().splitlines()
    values = rows[-1].split(",")
    values[head.split(",").index("wall_clock_step_s")] = "-3600"
    (run_copy / "telemetry.csv").write_text("\n".join([head, *rows[:-1], ",".join(values)]) + "\n")
    claimed = conclude_again(run_copy, rules=2)
    assert not any("the time of day moved" in reason for reason in claimed.validity.reasons)
    report = verify_folder(run_copy)
    (told,) = [check for check in report.checks if check.name == "rules"]
    assert told.outcome.value == "cannot be recomputed"
    assert "verdicts by edition 2, which knew fewer doubts; by edition" in told.why
    assert "fp32: the time of day moved by -3600 s" in told.why


def test_load_of_others_that_is_taken_out_of_the_telemetry_is_missed_in_its_sum(run_copy: Path) -> None:
    head, *rows = (run_copy / "telemetry.csv").read_text().splitlines()
    place = head.split(",").index("cpu_busy_foreign")
    told = [",".join("0" if at == place else cell for at, cell in enumerate(row.split(","))) for row in rows]
    (run_copy / "telemetry.csv").write_text("\n".join([head, *told]) + "\n")
    conclude_again(run_copy)
    wrong = [check for check in verify_folder(run_copy).checks if check.outcome.value == "does not hold"]
    assert [check.name for check in wrong] == ["telemetry"]
    assert "cpu_busy_foreign is not what own load and lynxbench's leave of cpu_busy" in wrong[0].why


def test_an_edition_that_is_still_to_come_does_not_hold(run_copy: Path) -> None:
    seal_again(run_copy, read_result(run_copy).model_copy(update={"rules": RULES + 1}))
    told = {check.name: check for check in verify_folder(run_copy).checks if check.name == "rules"}
    assert told["rules"].outcome.value == "does not hold"
    assert "is not known" in told["rules"].why


@pytest.mark.parametrize("where", ["../../../beside/{}", "../001-01/{}", "{base}/beside/{}", "."])
def test_a_trace_is_the_process_s_own_and_within_the_record(run_copy: Path, where: str) -> None:
    """What lies outside is in no manifest: it may be another file tomorrow, and another one for every reader."""
    first = run_copy / "attempts" / "000-01"
    name = json.loads((first / "report.json").read_text())["trace"]
    (run_copy.parent / "beside").mkdir()
    shutil.copy(first / name, run_copy.parent / "beside" / name)
    shutil.copy(first / name, run_copy / "attempts" / "001-01" / name)
    named = where.format(name, base=run_copy.parent)
    change_document(first / "report.json", lambda report: report.update(trace=named))
    write_manifest(run_copy)
    report = verify_folder(run_copy)
    assert report.verdict is EvidenceVerdict.DOES_NOT_HOLD
    assert any("names a trace outside its folder" in check.line for check in report.checks)


def test_a_run_lasts_as_long_as_its_processes_measured(run_copy: Path) -> None:
    """Measured without a word, registered when the figure pleases: whoever does not wait as long again is seen."""
    stated = read_result(run_copy)
    at_once = datetime.fromisoformat(stated.started_at) - timedelta(minutes=1)
    seal_again(run_copy, stated.model_copy(update={"finished_at": at_once.isoformat()}))
    report = verify_folder(run_copy)
    wrong = {check.name: check.why for check in report.checks if check.outcome.value == "does not hold"}
    assert list(wrong) == ["times"]
    assert "s, and it lasted -60 s from its registration to its end" in wrong["times"]
