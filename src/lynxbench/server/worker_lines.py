"""What every process of the server's own does: hear where the ledger is, take bounds, answer line by line."""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lynxbench.ledger.location import Location, OpenLedger, open_ledger
from lynxbench.server.settings import WorkerBounds

Answer = Callable[[OpenLedger, dict[str, Any], Path], dict[str, Any]]


def answer_lines(answer: Answer, priority: int, *, unseen: bool) -> None:
    """Answer every line, until nobody asks any more; what is asked may write into the folder it is given."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    told = json.loads(sys.stdin.readline())
    bounds, folder = WorkerBounds(**told["bounds"]), Path(told["scratch"]) / "run"
    _bound_process(bounds, priority)
    with open_ledger(Location(told["database"], told["blobs"]), os.environ, unseen=unseen) as ledger:

        def write(document: dict[str, Any]) -> None:
            answers.write(f"{json.dumps(document)}\n")
            answers.flush()

        write({"ready": True})
        for line in sys.stdin:
            _bound_question(bounds)
            write(answer(ledger, json.loads(line), folder))
            signal.alarm(0)


def _bound_process(bounds: WorkerBounds, priority: int) -> None:
    os.nice(priority)
    if hasattr(os, "SCHED_BATCH"):  # it computes for long stretches: whoever wakes to answer a page goes first
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    limits = [(resource.RLIMIT_AS, bounds.memory_bytes), (resource.RLIMIT_CORE, 0)]
    if bounds.disk_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, bounds.disk_bytes))
    for kind, most in limits:
        resource.setrlimit(kind, (most, most))


def _bound_question(bounds: WorkerBounds) -> None:
    """The kernel ends this process where a question takes more time than this."""
    signal.alarm(bounds.wall_s)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(spent.ru_utime + spent.ru_stime) + 1 + bounds.cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))
