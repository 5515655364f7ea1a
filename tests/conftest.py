"""What several rooms' tests share: a real, small run through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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


@dataclass(frozen=True)
class CommandRun:
    """How a command ended."""

    code: int
    out: str
    err: str


def lynxbench(*arguments: str, cwd: Path, timeout_s: float = 240, **environment: str) -> CommandRun:
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


@pytest.fixture(scope="session")
def spin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a quick contract and the function it names."""
    folder = tmp_path_factory.mktemp("spin")
    (folder / "spin.yaml").write_text(QUICK_CONTRACT)
    (folder / "spinning.py").write_text(SPINNING)
    return folder


@pytest.fixture(scope="session")
def spin_run(spin_folder: Path) -> Path:
    """The folder of a finished run of the quick contract."""
    done = lynxbench("run", "spin.yaml", cwd=spin_folder)
    assert done.code == 0, done.err
    (folder,) = (spin_folder / "results").iterdir()
    return folder
