"""One more rank of a run: takes every step that rank 0 takes, until it is told to stop.

Started as `python -m lynxbench.run.rank_peer FOLDER` with the variables that torchrun sets. Rank 0 alone decides how
long a run is; a step that holds a collective cannot run ahead of it. What this rank stamped is kept beside its job.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from lynxbench.engines.engine_registry import load_engine
from lynxbench.errors import ExitCode
from lynxbench.load.engine_session import Engine
from lynxbench.load.fresh_process import leave_with_parent
from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal
from lynxbench.model.job import Job
from lynxbench.model.secrets import secret_values, withhold
from lynxbench.run.fresh_job import JOB_FILE

FOR_EVER_S = 1e9


def follow(folder: Path) -> None:
    """Open the same session as rank 0 and step for as long as it does."""
    job = Job.model_validate_json((folder / JOB_FILE).read_bytes())
    engine: Engine = load_engine(job.contract.engine)
    session = engine.open(job)
    session.compile()
    with Journal(folder) as journal:
        drive(session, journal, StopRule(FOR_EVER_S, FOR_EVER_S, lambda iterations: False))


def main() -> None:
    """Follow until standard input closes; an error is left in one line."""
    leave_with_parent(lambda: os._exit(int(ExitCode.DONE)))
    try:
        follow(Path(sys.argv[1]))
    except Exception:  # a user's step can raise anything; rank 0 sees the broken collective and reports it
        sys.stderr.write(withhold(traceback.format_exc(), secret_values(os.environ)))
        sys.stderr.flush()
        os._exit(int(ExitCode.VERDICT_NO))


if __name__ == "__main__":
    main()
