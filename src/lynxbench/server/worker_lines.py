"""What every process of the server's own does: hear where the ledger is, take bounds, answer line by line."""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from lynxbench.ledger.location import Location, OpenLedger, open_ledger
from lynxbench.server.settings import WorkerBounds

Answer = Callable[[OpenLedger, dict[str, Any], Path], dict[str, Any]]


def answer_lines(answer: Answer, priority: int, *, unseen: bool) -> None:
    """Answer every line about a ledger; what is asked may write into the folder it is given."""
    with Questions(priority) as questions:
        told = questions.told
        with open_ledger(Location(told["database"], told["blobs"]), os.environ, unseen=unseen) as ledger:
            folder = Path(told["scratch"]) / "run"
            questions.answer(lambda asked: answer(ledger, asked, folder))


class Questions:
    """Lines on the standard input, each answered by one; the first says what this process needs to know."""

    def __init__(self, priority: int) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # whatever a library prints is no answer
        self.told: dict[str, Any] = json.loads(sys.stdin.readline())
        self._bounds = WorkerBounds(**self.told["bounds"])
        _bound_process(self._bounds, priority)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()

    def answer(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Say that it begins, and answer until nobody asks any more."""
        self._write({"ready": True})
        for line in sys.stdin:
            _bound_question(self._bounds)
            self._write(answer(json.loads(line)))
            signal.alarm(0)

    def _write(self, document: dict[str, Any]) -> None:
        self._answers.write(f"{json.dumps(document)}\n")
        self._answers.flush()


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
