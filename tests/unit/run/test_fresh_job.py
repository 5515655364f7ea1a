"""A process that fails says whose doing it was: the user's code, a full disk, or the executor's."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
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


def test_a_fresh_process_starts_without_what_it_has_no_use_for() -> None:
    """The ledger's entries, a run's folder, the host's probes and YAML would be loaded in every process of a run."""
    unused = ("lynxbench.model.entries", "lynxbench.evidence.run_folder", "lynxbench.executor.capture", "ruamel.yaml")
    code = f"import sys, lynxbench.run.worker; print([name for name in {unused!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's map of a process is Linux's")
def test_what_is_measured_loads_no_library_that_was_not_there() -> None:
    """The libraries of a process are fields of its executor: two runs that are alike must not differ in them."""
    code = (
        "import numpy as np, lynxbench.run.worker as worker\n"
        "from lynxbench.stats.intervals import mean_interval\n"
        "def loaded(): return {line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}\n"
        "worker._settle_garbage()\n"
        "before = loaded()\n"
        "mean_interval([1.0, 2.0, 4.0])\n"
        "np.random.default_rng(1).normal(size=4), np.fft.rfft(np.ones(4))\n"
        "print(sorted(loaded() - before))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
