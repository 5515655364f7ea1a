"""A process that is stopped in the middle of its samples: the figure is shown, and not as a valid one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT, lynxbench

STOPPED = """\
import os, signal, subprocess, time

stop_at = time.perf_counter() + 3  # by the clock: on a crowded machine a count is reached late, or never

def spin():
    global stop_at
    if time.perf_counter() > stop_at:
        stop_at = float("inf")
        subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.001)
    return 1
"""


@pytest.mark.slow
def test_a_run_that_was_stopped_for_three_seconds_is_not_valid(tmp_path: Path) -> None:
    longer = QUICK_CONTRACT.replace("min_duration: 400 ms", "min_duration: 7 s").replace("limit: 600 ms", "limit: 9 s")
    (tmp_path / "spin.yaml").write_text(longer.replace("restarts: 2", "restarts: 1"))
    (tmp_path / "spinning.py").write_text(STOPPED)
    done = lynxbench("run", "spin.yaml", "--json", "--out", "out", "--ledger", "none", cwd=tmp_path)
    assert done.code == 0, done.err
    validity = json.loads(done.out)["validity"]
    assert validity["verdict"] == "doubtful"
    assert any("stalls: " in reason for reason in validity["reasons"]), validity
