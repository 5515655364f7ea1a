"""Fresh processes start clean, are watched, and never outlive their parent."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from lynxbench.load.fresh_process import ERRORS_FILE, last_words, run_fresh


def _module(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    (folder / "probe_module.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "probe_module"


def test_exit_code_threads_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "import os, sys\nprint(os.environ['OMP_NUM_THREADS'], sys.argv[1])\nsys.exit('broken: no model')"
    seen: list[int] = []
    code = run_fresh(_module(tmp_path, monkeypatch, body), tmp_path, 3, seen.append)
    assert code == 1
    assert (tmp_path / "stdout.txt").read_text().split() == ["3", str(tmp_path)]
    assert last_words(tmp_path / ERRORS_FILE) == "broken: no model"
    assert len(set(seen)) <= 1


def test_a_process_that_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lynxbench.load.fresh_process.POLL_S", 3600.0)  # a look that came late would outlast the test
    assert run_fresh(_module(tmp_path, monkeypatch, "import time\ntime.sleep(0.2)"), tmp_path, 1, lambda pid: None) == 0


def test_where_the_kernel_tells_no_end_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr("os.pidfd_open", refuse)
    seen: list[int] = []
    assert run_fresh(_module(tmp_path, monkeypatch, "import time\ntime.sleep(0.2)"), tmp_path, 1, seen.append) == 0
    assert seen


def test_an_exception_in_the_watcher_ends_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def interrupt(pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fresh(_module(tmp_path, monkeypatch, "import time\ntime.sleep(60)"), tmp_path, 1, interrupt)
    assert not psutil.pid_exists(pids[0])


def test_a_worker_leaves_when_its_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(
        "import os, time\n"
        "from lynxbench.load.fresh_process import leave_with_parent\n"
        "leave_with_parent(lambda: os._exit(3))\n"
        "time.sleep(60)"
    )
    note = tmp_path / "pid"
    parent_body = (
        "from pathlib import Path\nfrom lynxbench.load.fresh_process import run_fresh\n"
        f"run_fresh('patient', Path({str(tmp_path)!r}), 1, lambda pid: Path({str(note)!r}).write_text(str(pid)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", parent_body], env=environment)
    deadline = time.monotonic() + 300
    while not note.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    child = psutil.Process(int(note.read_text()))
    parent.kill()
    parent.wait()
    child.wait(timeout=1800)


def test_a_process_that_could_write_nothing_because_the_disk_is_full_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stderr.txt").touch()
    assert last_words(tmp_path / "stderr.txt") == "no message"
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(total=1 << 30, used=1 << 30, free=0))
    assert last_words(tmp_path / "stderr.txt") == f"no message: the disk is full ({tmp_path})"
    (tmp_path / "stderr.txt").write_text("it said something\n")
    assert last_words(tmp_path / "stderr.txt") == "it said something"
