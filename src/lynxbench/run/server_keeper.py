"""Stands between lynxbench and a server: starts it, and ends it with all it started when nobody asks for it any more.

Run as a plain file by a bare Python, with its patience in seconds and the command behind its name. Its standard input
is held open by lynxbench: it closes when lynxbench is done, and also when it was killed. Whatever the server forked, in
sessions of their own or left behind by their parents, comes back to this process, which has taken on to be their
reaper.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_S = 10.0
"""Between asking and killing: servers with several processes wait for each other when they end."""
KILLING_S = 30.0
"""A process that a kill does not end within this hangs in the kernel; nobody can end it."""
LEFT_BEHIND_S = 1.0
LOOK_S = 0.05
NOT_STARTED = 127
"""As shells say that there is no such program."""
_SUBREAPER, _DEATH_SIGNAL = 36, 1


def main(grace_s: float, command: list[str]) -> int:
    """Keep a server until it ends or nobody wants it; the code that it ended with, 128 and the signal where killed."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _close_input)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # should this process itself be killed, the server at least goes with it
            preexec_fn=lambda: libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509  one thread here
        )
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror or error}\n".encode())
        return NOT_STARTED
    code: int | None = None
    while code is None and _wanted():
        code = _reaped(server.pid)
    # what a server leaves behind that has ended by itself is not waited for: somebody wants to know that it ended
    stopped = _end_all(server.pid, grace_s if code is None else min(grace_s, LEFT_BEHIND_S))
    return code if code is not None else stopped


def _close_input(*_: object) -> None:
    try:
        os.close(0)
    except OSError:
        return


def _wanted() -> bool:
    """Whether lynxbench still holds the other end; it writes nothing, so that anything to read is the end of it."""
    try:
        return not select.select([0], [], [], LOOK_S)[0]
    except (OSError, ValueError):
        return False


def _reaped(server: int) -> int | None:
    """Reap whatever has ended; the server's own code where it was among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == server:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended


def _end_all(server: int, grace_s: float) -> int:
    """Ask everything below this process to end, then kill it; the server's own code, 0 where it had ended before."""
    code = 0
    for stop, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILLING_S)):
        until, asked = time.monotonic() + patience_s, set[int]()
        while time.monotonic() < until:
            code = _reaped(server) or code
            below = _below(os.getpid())
            if not below:
                return code
            for pid in below - asked:
                _send(pid, stop)
            # a kill is repeated: a process may have forked between the look and the signal
            asked = below if stop is signal.SIGTERM else set()
            time.sleep(LOOK_S)
    return code


def _below(root: int) -> set[int]:
    """Every living process that descends from this one."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z" or int(fields[1]) == root:
                children.setdefault(int(fields[1]), []).append(int(place.name))
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.add(child)
            waiting.append(child)
    return found


def _send(pid: int, stop: signal.Signals) -> None:
    try:
        os.kill(pid, stop)
    except ProcessLookupError:
        return
    except PermissionError:  # it has become another user's, who alone may end it
        return


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
