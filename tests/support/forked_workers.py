"""Processes of a run forked from one that has imported all: in a run of many small ones the import is most of the work.

For runs that are looked at afterwards; that each process of a run is a fresh one is tested where that is the point.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, cast
from unittest import mock

from lynxbench.load.fresh_process import ERRORS_FILE, process_environment, run_fresh, withhold_secrets
from lynxbench.model.surroundings import Surroundings
from lynxbench.run import attempts
from lynxbench.run.fresh_job import leave_report

LOOK_S = 0.25
"""How often whoever started a process looks at it."""
LIGHT_COMPILER = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_VEC_ISA_OK": "0"}
"""torch.compile looks for no vector units and starts no processes, each of which would import torch."""
WORKER, CLIENT = "lynxbench.run.worker", "lynxbench.run.client_work"
PROGRAMS = {"torch": WORKER, "callable": WORKER, "client": CLIENT}
"""The module that a run starts in a process of its own, by what that process does."""


@contextmanager
def forked_workers(kind: str = "torch") -> Iterator[None]:
    """Every such worker that a run starts here meanwhile is forked, with its libraries imported for as many threads.

    Others, and those that get surroundings of their own, are started as usual.
    """
    with ExitStack() as ends:
        parents: dict[int, subprocess.Popen[bytes]] = {}

        def environment(threads: int) -> dict[str, str]:
            return process_environment(os.environ, threads) | (LIGHT_COMPILER if kind == "torch" else {})

        def parent_of(threads: int) -> subprocess.Popen[bytes]:
            parent = subprocess.Popen(
                [sys.executable, "-P", __file__, kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(threads),
            )
            ends.enter_context(parent)
            ends.callback(cast("IO[bytes]", parent.stdin).close)
            return parent

        def run_forked(
            module: str,
            folder: Path,
            threads: int,
            watch: Callable[[int], None],
            around: Surroundings | None = None,
        ) -> int:
            if module != PROGRAMS[kind] or around is not None:
                return run_fresh(module, folder, threads, watch, around)
            parent = parents.get(threads) or parents.setdefault(threads, parent_of(threads))
            assert parent.stdin is not None
            assert parent.stdout is not None
            parent.stdin.write(f"{json.dumps((str(folder.resolve()), os.getcwd(), environment(threads)))}\n".encode())
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            try:
                while not select.select([parent.stdout], [], [], LOOK_S)[0]:
                    watch(pid)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise
            finally:
                code = int(parent.stdout.readline())
                withhold_secrets(folder)
            return code

        with mock.patch.object(attempts, "run_fresh", run_forked):
            yield


def main() -> None:
    """Fork a process for every job that is named; say its number, and the code with which it ended."""
    kind = sys.argv[1]
    {"torch": _import_torch, "callable": _import_callable, "client": _import_client}[kind]()
    gc.collect()
    gc.freeze()  # no child's collector walks through it again
    for line in sys.stdin:
        folder, place, environment = json.loads(line)
        end, held = os.pipe()
        child = os.fork()
        if not child:
            os.close(held)
            os.chdir(place)
            os.environ.clear()
            os.environ.update(environment)
            _live(PROGRAMS[kind], Path(folder), end)
        os.close(end)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        os.close(held)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _import_callable() -> None:
    """What a worker with a function imports."""
    import scipy.special  # noqa: F401

    from lynxbench.engines import callable as engine  # noqa: F401
    from lynxbench.run import worker  # noqa: F401


def _import_torch() -> None:
    """What a worker with a small BERT imports, the compiler included."""
    import scipy.special  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401

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
