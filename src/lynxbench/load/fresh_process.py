"""A fresh process for every repetition: started, watched and ended in order; its own side leaves with its parent."""

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lynxbench.model.secrets import secret_values, withhold
from lynxbench.model.surroundings import Surroundings

POLL_S = 0.5
GRACE_S = 3.0
ERRORS_FILE = "stderr.txt"
FULL_BELOW_BYTES = 1 << 16
"""A disk with less than this left takes no log of a process that fails."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_fresh(
    module: str,
    folder: Path,
    threads: int,
    watch: Callable[[int], None],
    around: Surroundings | None = None,
) -> int:
    """Run `python -m module folder` in a process of its own until it ends; `watch(pid)` is called a few times a second.

    The child holds the other end of a pipe and leaves when it closes: it never outlives a killed parent.
    An exception here (Ctrl-C among them) ends the child before it goes on. `around` gives it variables, another
    interpreter or CPUs of its own.
    """
    with (folder / "stdout.txt").open("wb") as out, (folder / ERRORS_FILE).open("wb") as err:
        child = subprocess.Popen(
            [*_command(around), "-P", "-m", module, str(folder)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            env=process_environment(os.environ, threads, around),
            start_new_session=True,  # the terminal's Ctrl-C reaches the parent alone, which ends the child in order
        )
        try:
            while child.poll() is None:
                watch(child.pid)
                _pause(child.pid)
        finally:
            end_group(child)
            withhold_secrets(folder)
    return child.returncode


def leave_with_parent(leave: Callable[[], object]) -> None:
    """The parent holds the other end of standard input; when it is gone, nobody waits for this process."""

    def wait() -> None:
        while os.read(0, 4096):  # the bare descriptor: a buffered reader would be locked when the interpreter ends
            pass
        leave()

    threading.Thread(target=wait, daemon=True).start()


def last_words(log: Path) -> str:
    """The last line a process wrote to its log; where it could write none because the disk is full, that."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    if lines:
        return lines[-1][:400]
    free_bytes = shutil.disk_usage(log.parent).free if log.parent.exists() else FULL_BELOW_BYTES
    return f"no message: the disk is full ({log.parent})" if free_bytes < FULL_BELOW_BYTES else "no message"


def end_group(child: subprocess.Popen[bytes], leaving_s: float = 0.0, grace_s: float = GRACE_S) -> None:
    """End a process and its whole group: by its closed input, where it is given time for that, then by signals."""
    if child.stdin is not None:
        child.stdin.close()
    if leaving_s and _ended(child, leaving_s):
        return
    for stop in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        try:
            os.killpg(child.pid, stop)
        except ProcessLookupError:
            continue
        if _ended(child, grace_s):
            return


def _pause(pid: int) -> None:
    """Until the next look, or until the process ends where the kernel tells (not before 5.3, nor in every sandbox)."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        time.sleep(POLL_S)
        return
    try:
        waiting = select.poll()
        waiting.register(process, select.POLLIN)
        waiting.poll(POLL_S * 1000)
    finally:
        os.close(process)


def _ended(child: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        child.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def withhold_secrets(folder: Path) -> None:
    """A model may print what it likes; what is kept of it is shown to every team."""
    secrets = secret_values(os.environ)
    for log in folder.glob("*.txt"):
        text = log.read_bytes().decode("utf-8", errors="surrogateescape")
        clean = withhold(text, secrets)
        if clean != text:
            log.write_bytes(clean.encode("utf-8", errors="surrogateescape"))


def _command(around: Surroundings | None) -> list[str]:
    if around is None:
        return [sys.executable]
    python = around.interpreter or sys.executable
    if around.cpus is None:
        return [python]
    # taskset sets the mask before Python starts: libraries size their thread pools by it when they are loaded.
    return ["taskset", "--cpu-list", ",".join(map(str, around.cpus)), python]


def process_environment(
    inherited: Mapping[str, str], threads: int, around: Surroundings | None = None
) -> dict[str, str]:
    """The variables of a fresh process: as many threads as were asked for, and what its surroundings give it."""
    given = {} if around is None else around.environment
    usual = {**{name: str(threads) for name in _THREAD_VARIABLES}, "TOKENIZERS_PARALLELISM": "false"}
    inherited = dict(inherited)
    if around is not None and around.interpreter is not None:
        inherited.pop("PYTHONHOME", None)
        inherited.pop("PYTHONPATH", None)  # the other environment is complete; a path of this one would leak into it
    return {**inherited, **usual, **given}
