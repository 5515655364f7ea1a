"""A process that fails says whose doing it was: the user's code, a full disk, or the executor's."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import CannotRun, DiskFull, ExitCode, OwnCodeFailed
from lynxbench.evidence.run_folder import Slot
from lynxbench.model.job import FailureKind, JobReport, JobStatus
from lynxbench.model.precision import Precision
from lynxbench.run.attempts import Attempt
from lynxbench.run.fresh_job import failed_report
from lynxbench.run.pipeline import unmeasured

CONTRACT = parse_contract(QUICK_CONTRACT)


def raised(error: Exception) -> Exception:
    """The error as it is caught, with where it came from."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "failure", "says", "code"),
    [
        (OwnCodeFailed("spinning:spin failed at x.py:3: KeyError: 'a'"), FailureKind.OWN_CODE, "KeyError", 2),
        (OwnCodeFailed("spinning:spin: spinning has no 'spin'"), FailureKind.OWN_CODE, "has no 'spin'", 2),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), FailureKind.FULL_DISK, "the disk is full", 2),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), FailureKind.FULL_DISK, "the disk is full", 2),
        (CannotRun("engine.device: cuda is asked for"), None, "cuda is asked for", 4),
        (OSError(errno.EACCES, "Permission denied"), None, "PermissionError at", 4),
        (RuntimeError("no message for\nyou"), None, "RuntimeError at", 4),
    ],
)
def test_whose_doing_it_was(
    tmp_path: Path, error: Exception, failure: FailureKind | None, says: str, code: int
) -> None:
    report = failed_report(raised(error), tmp_path)
    assert (report.status, report.failure) == (JobStatus.FAILED, failure)
    assert report.error is not None
    assert says in report.error
    assert "\n" not in report.error
    assert JobReport.model_validate_json(report.model_dump_json()) == report
    ended = unmeasured(CONTRACT, Attempt(Slot(index=0, precision=Precision.FP32, restart=0), tmp_path, report))
    assert ended.exit_code == ExitCode(code)
    assert says in str(ended)
    assert ("nothing could be measured here" in str(ended)) is (code == ExitCode.CANNOT_RUN)


def test_a_full_disk_says_what_to_do(tmp_path: Path) -> None:
    report = failed_report(raised(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))), tmp_path)
    ended = unmeasured(CONTRACT, Attempt(Slot(index=0, precision=Precision.FP32, restart=0), tmp_path, report))
    assert isinstance(ended, DiskFull)
    assert "free some, then run it again" in str(ended)


def test_a_report_of_an_earlier_version_reads_back() -> None:
    assert JobReport.model_validate_json('{"status": "failed", "error": "x"}').failure is None
