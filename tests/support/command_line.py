"""The real command line in a process of its own, and a contract that it finishes in a second."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

QUICK_CONTRACT = """\
lynxbench: 1
name: spin
question: How many spins a second does one process sustain?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "spinning:spin"}
  precisions: [fp32]
engine: {name: callable, threads: 1}
protocol:
  restarts: 2
  steady: {drift: 20 %, window: 20 ms}
  min_duration: 400 ms
  limit: 600 ms
  foreign_load: 100 %
owners: {application: "the spinners"}
"""

SPINNING = """\
import time

def spin():
    until = time.perf_counter_ns() + 1_000_000
    while time.perf_counter_ns() < until:
        pass
    return 1
"""


PAUSING = """\
import time

def spin():
    time.sleep(0.01)
    return 1
"""
"""The same contract where two runs have to agree: a pause lasts as long on a machine that others use too."""


@dataclass(frozen=True)
class CommandRun:
    """How a command ended."""

    code: int
    out: str
    err: str


def lynxbench(*arguments: str, cwd: Path, timeout_s: float = 1800, **environment: str) -> CommandRun:
    """Run the real command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "lynxbench", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return CommandRun(done.returncode, done.stdout, done.stderr)


def lynxbench_here(*arguments: str, cwd: Path, **environment: str) -> CommandRun:
    """The same command line in this process: most need none of their own; a run measures in fresh ones all the same."""
    from lynxbench.cli.main import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["lynxbench", *arguments]),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return CommandRun(code, out.getvalue(), err.getvalue())
