"""One server process of ours: started under a keeper, watched while it comes up, and ended in every case."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from lynxbench.errors import CannotRun
from lynxbench.executor.server_on_host import find_server_process
from lynxbench.model.secrets import secret_values, withhold
from lynxbench.run.server_keeper import GRACE_S, KILLING_S

KEEPER = Path(__file__).with_name("server_keeper.py")
POLL_S = 0.1
TAIL_BYTES = 64 << 10
"""Of its log: what a failure is told from. Servers write megabytes while they load."""
LONGEST_LINE = 400
ENDING_S = 5.0
"""A server that no longer answers is given so long to be seen to have ended."""
PORTS = range(10_240, 32_768)
"""Below those that the kernel hands out for connections: one that was free still is when the server comes to it."""


class StartedServer:
    """A server and everything it started. Its log has no name on disk; what is kept of it is without secrets."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], grace_s: float = GRACE_S
    ) -> None:
        given = {**os.environ, **environment}
        if shutil.which(command[0], path=given.get("PATH")) is None:
            raise CannotRun(f"server {name}: {command[0]}: no such program; name one that can be executed")
        self._name, self._secrets, self._grace_s = name, secret_values(given), grace_s
        self._said = ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by stop
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", str(KEEPER), str(grace_s), *command],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env=given,
            start_new_session=True,  # the terminal's Ctrl-C reaches lynxbench alone, which ends the server in order
        )

    @property
    def pid(self) -> int:
        """Of the process that everything of the server descends from."""
        return self._keeper.pid

    @property
    def ended(self) -> str:
        """How it ended, with its last line; empty while it runs."""
        code = self._keeper.poll()
        if code is None:
            return ""
        how = f"code {code}" if code <= 128 else f"signal {_signal_name(code - 128)}"
        return f"server {self._name} ended with {how}: {self.last_line}"

    def ended_by_now(self) -> str:
        """How it ended, where it is just about to be told: its keeper looks after what it left behind first."""
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(ENDING_S)
        return self.ended

    @property
    def last_line(self) -> str:
        """The last line of its log."""
        lines = self.tail().strip().splitlines()
        return lines[-1][:LONGEST_LINE] if lines else "it wrote nothing"

    def tail(self) -> str:
        """The end of its log in whole lines, without secrets."""
        if self._log.closed:
            return self._said
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - TAIL_BYTES)
        text = os.pread(self._log.fileno(), TAIL_BYTES, start).decode("utf-8", errors="replace")
        # A line cut at its beginning may hold the end of a secret, which nothing would know by half.
        return self.withheld(text.partition("\n")[2] if start else text)

    def withheld(self, text: str) -> str:
        """A text without the secrets that it was given."""
        return withhold(text, self._secrets)

    def await_ready(self, answers: Callable[[], bool], within_s: float) -> None:
        """Wait until it answers; CannotRun with its last line where it ends or takes too long."""
        until = time.monotonic() + within_s
        while not answers():
            self.refuse_ended()
            if time.monotonic() > until:
                raise CannotRun(
                    f"server {self._name} did not come up within {within_s:g} s; its last line: {self.last_line}"
                )
            time.sleep(POLL_S)

    def refuse_ended(self) -> None:
        """CannotRun where it is no longer there."""
        if self.ended:
            raise CannotRun(self.ended)

    def refuse_foreign(self, port: int) -> None:
        """CannotRun where another process answers on its port; nothing where this user may not know."""
        listening = find_server_process(port)
        if listening is None or self.owns(listening.pid):
            return
        self.refuse_ended()
        raise CannotRun(f"server {self._name}: process {listening.pid}, which is not its own, answers on port {port}")

    def owns(self, pid: int) -> bool:
        """Whether a process is this server's."""
        try:
            return self.pid in (parent.pid for parent in psutil.Process(pid).parents())
        except psutil.Error:
            return False

    def stop(self) -> None:
        """End it with everything it started; returns when all of it is gone."""
        assert self._keeper.stdin is not None
        with suppress(BrokenPipeError):
            self._keeper.stdin.close()
        try:
            self._keeper.wait(self._grace_s + KILLING_S + 5.0)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._said = self.tail()
        self._log.close()


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this machine that nobody listens on."""
    for port in random.SystemRandom().sample(PORTS, 100):
        if not _is_taken(host, port):
            return port
    raise CannotRun(f"{host}: none of 100 ports is free")


def refuse_taken(host: str, port: int) -> None:
    """CannotRun where somebody listens there already: what is measured would not be the server that is started."""
    if not _is_taken(host, port):
        return
    holder = find_server_process(port)
    who = "" if holder is None else f" by process {holder.pid} ({_program(holder.pid)})"
    raise CannotRun(
        f"port {port} of {host} is taken already{who}; end it, or write port 0 into engine.url for a free one"
    )


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: a closing connection is no listener
        try:
            probe.bind((host, port))
        except PermissionError:
            return False
        except OSError:
            return True
    return False


def _program(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "unknown"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
