"""A run and its fresh processes talk through files in an attempt's folder; here are their names and the process's side.

    job.json        what to do                       report.json     what it knows, written once, at the end
    stage           the pass it is in, for progress  traceback.txt   where it failed, if it did
    finished        how many requests have ended, where a client sends them; a worker journals its iterations

Whatever a process had measured is there when it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lynxbench.errors import LynxbenchError, OwnCodeFailed, is_disk_full
from lynxbench.evidence.whole_files import write_text
from lynxbench.load.fresh_process import leave_with_parent
from lynxbench.model.job import FailureKind, Job, JobReport, JobStatus
from lynxbench.model.secrets import secret_values, withhold

if TYPE_CHECKING:  # a fresh process has no use for a run's folder
    from lynxbench.evidence.run_folder import Registration, Slot

JOB_FILE = "job.json"
REPORT_FILE = "report.json"
STAGE_FILE = "stage"
PROBING = "search: "
"""Begins the stage of a search, which says the probe it is at."""
ENDURING = "measure: "
"""Begins the stage of an endurance run, which says how far it is and the figure so far."""
FINISHED_FILE = "finished"
TRACEBACK_FILE = "traceback.txt"


def job_of(registration: Registration, slot: Slot) -> Job:
    """What the fresh process of a slot is told to do; extra passes are added by whoever wants them."""
    return Job(
        index=slot.index,
        restart=slot.restart,
        contract=registration.contract,
        precision=slot.precision,
        threads=registration.threads,
    )


def say_stage(folder: Path, stage: str) -> None:
    """Tell whoever watches which pass begins."""
    (folder / STAGE_FILE).write_text(stage)


def failed_report(error: Exception, folder: Path) -> JobReport:
    """What is left of a process that failed: one line without secrets, and whether it was the executor's doing."""
    line = str(error)
    failure = FailureKind.OWN_CODE if isinstance(error, OwnCodeFailed) else None
    if is_disk_full(error):
        line, failure = f"the disk is full ({folder}); free some, then run it again", FailureKind.FULL_DISK
    elif not isinstance(error, LynxbenchError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        first = line.strip().splitlines()[0] if line.strip() else "no message"
        line = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {first}"
    line = withhold(line, secret_values(os.environ))
    return JobReport(status=JobStatus.FAILED, error=line, failure=failure)


def leave_report(work: Callable[[Path], JobReport], leave: Callable[[], object]) -> None:
    """The whole life of a fresh process: do the work in the folder it is given; every end leaves a report.

    `leave` is called when whoever started it is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to handle: it ends this process in order
    leave_with_parent(leave)
    folder = Path(sys.argv[1])
    try:
        report = work(folder)
    except Exception as error:  # a user's model can raise anything; the run says it in one line
        report = failed_report(error, folder)
        with suppress(OSError):  # a full disk has room for the report at most
            (folder / TRACEBACK_FILE).write_text(traceback.format_exc())
    write_text(folder / REPORT_FILE, report.model_dump_json())
