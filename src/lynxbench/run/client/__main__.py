"""The process of a fresh client: whatever happens, a report is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from lynxbench.errors import ExitCode, LynxbenchError
from lynxbench.evidence.documents import write_text
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.secrets import secret_values, withhold
from lynxbench.run.client.client_job import REPORT_FILE, TRACEBACK_FILE
from lynxbench.run.client.client_work import ProbeStarter, probe_here, work


def _leave_with_parent() -> None:
    """The parent holds the other end of standard input; when it is gone, nobody waits for this process."""
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGTERM)  # the client's own processes are in its group


def _withheld(line: str) -> str:
    return withhold(line, secret_values(os.environ))


def main(start_probe: ProbeStarter = probe_here) -> None:
    """Run the job; every end leaves a report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the order's to handle: it ends this process
    folder = Path(sys.argv[1])
    if os.getpgid(0) == os.getpid():
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        report = work(folder, start_probe)
    except LynxbenchError as error:
        report = JobReport(status=JobStatus.FAILED, error=_withheld(str(error)))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        line = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        report = JobReport(status=JobStatus.FAILED, error=_withheld(f"{type(error).__name__} at {where}: {line}"))
        (folder / TRACEBACK_FILE).write_text(traceback.format_exc())
    write_text(folder / REPORT_FILE, report.model_dump_json())
    os._exit(int(ExitCode.DONE))  # the thread above waits for ever


if __name__ == "__main__":
    main()
