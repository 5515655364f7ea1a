"""Processes of a run forked from one that has imported their libraries: in many small runs that is most of the work.

For runs that are looked at afterwards; that each process of a run is a fresh one is tested where that is the point.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from lynxbench.load.fresh_process import ERRORS_FILE, _environment, _withhold_secrets
from lynxbench.run import attempts
from lynxbench.run.fresh_job import leave_report

LOOK_S = 0.25
"""How often whoever started a process looks at it."""
WORKER = "lynxbench.run.worker"
CLIENT = "lynxbench.run.client_work"


@contextmanager
def forked_workers(threads: int = 1, program: str = WORKER) -> Iterator[None]:
    """Every worker that a run starts here meanwhile is forked, with its libraries imported for so many threads."""
    with subprocess.Popen(
        [sys.executable, "-P", __file__, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(os.environ, threads),
    ) as parent:

        def run_forked(
            module: str, folder: Path, asked: int, watch: Callable[[int], None], around: object = None
        ) -> int:
            assert (module, asked, around) == (program, threads, None)
            assert parent.stdin is not None
            assert parent.stdout is not None
            job = (str(folder.resolve()), os.getcwd(), _environment(os.environ, threads))
            parent.stdin.write(f"{json.dumps(job)}\n".encode())
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            while not select.select([parent.stdout], [], [], LOOK_S)[0]:
                watch(pid)
            _withhold_secrets(folder)
            return int(parent.stdout.readline())

        with mock.patch.object(attempts, "run_fresh", run_forked):
            yield
        assert parent.stdin is not None
        parent.stdin.close()


def main() -> None:
    """Fork a process for every job that is named; say its number, and the code with which it ended."""
    program = sys.argv[1]
    {WORKER: _import_worker, CLIENT: _import_client}[program]()
    for line in sys.stdin:
        folder, place, environment = json.loads(line)
        end, held = os.pipe()
        child = os.fork()
        if not child:
            os.close(held)
            os.chdir(place)
            os.environ.clear()
            os.environ.update(environment)
            _live(program, Path(folder), end)
        os.close(end)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        os.close(held)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _import_worker() -> None:
    """What a worker with a small BERT imports anyway; what only some need, such as the compiler, is left to them."""
    import scipy.special  # noqa: F401

    from lynxbench.engines.torch import estimate, torch_session  # noqa: F401
    from lynxbench.engines.torch.library import import_config_class, import_model_class
    from lynxbench.model.workload import Task
    from lynxbench.run import worker  # noqa: F401

    import_config_class("bert")
    import_model_class("bert", Task.EMBED)


def _import_client() -> None:
    """What every client imports, with the document of its job built."""
    from lynxbench.run import client_work  # noqa: F401
    from lynxbench.run.client_job import ClientJob

    ClientJob.model_rebuild()


def _live(program: str, folder: Path, stdin: int) -> None:
    """As `python -m PROGRAM FOLDER` does, in a session of its own; never returns."""
    code = 1
    try:
        os.setsid()
        os.dup2(stdin, 0)
        for number, name in ((1, "stdout.txt"), (2, ERRORS_FILE)):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        sys.argv[1:] = [str(folder)]
        if program == CLIENT:
            from lynxbench.run.client_work import ask

            ask()
        else:
            from lynxbench.run.worker import work

            leave_report(work, lambda: os._exit(130))
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
