"""A process of the server's own that may die of what it reads: asked by lines of JSON, bounded, started again."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lynxbench import errors
from lynxbench.errors import BadLedger, LynxbenchError
from lynxbench.ledger.location import Location
from lynxbench.server.settings import WorkerBounds

START_S = 120.0
"""A process that is not ready by then never will be."""
GRACE_S = 5.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_ENDED: dict[int, str] = {
    signal.SIGXCPU: "it took more than {cpu_s} s of a processor",
    signal.SIGALRM: "it took more than {wall_s} s",
    signal.SIGKILL: "the process that computed it was killed, as the system does where memory runs out",
}


def refusal_of(answer: Mapping[str, Any]) -> LynxbenchError:
    """The error that a process met and said by its kind and line."""
    kind = getattr(errors, str(answer.get("refused")), LynxbenchError)
    assert issubclass(kind, LynxbenchError)
    return kind(str(answer.get("line")))


class BoundedProcess:
    """One process of a module, started when it is first asked, and again after each question that it died of."""

    most_answer_bytes = 1 << 20

    def __init__(
        self, module: str, location: Location, environment: Mapping[str, str], scratch: Path, bounds: WorkerBounds
    ) -> None:
        self._module, self._location, self._scratch, self._bounds = module, location, scratch, bounds
        self._environment = {**os.environ, **environment, **ONE_THREAD}
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._stop = threading.Event()
        self.was_killed = False
        """Whether the last one that ended was killed, by the system or by somebody: the question may not be why."""

    def answers(self, questions: Sequence[dict[str, Any]]) -> Generator[dict[str, Any] | None]:
        """What it says to each, all of them known to it at once; None, and no more, where it ends before it has."""
        process = self._process or self._start()
        told, left = self._tell(process, questions), len(questions)
        try:
            while left:
                answer = self._answer(process, self._bounds.wall_s + GRACE_S) if told else None
                left -= 1
                yield answer
                if answer is None:
                    return
        finally:
            if left:  # what it would still say would be taken for the answer to another question
                self.close()

    def more_told(self) -> dict[str, Any]:
        """What it is told once, when it starts, beside where the ledger is."""
        return {}

    def interrupt(self) -> None:
        """Whoever waits for an answer gets none."""
        self._stop.set()

    def close(self) -> None:
        """End the process, and take away what it laid out; nobody may wait for an answer any more."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not written yet has nobody to read it
                    assert pipe is not None
                    pipe.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def why_ended(self) -> str:
        """What it died of, once it gave no answer; the next question starts another."""
        process = self._process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):  # one that is ending by itself says why
            process.wait(timeout=GRACE_S)
        code = process.poll()
        self.was_killed = code == -signal.SIGKILL
        self.close()
        if code is None:
            return f"it gave no answer in {self._bounds.wall_s} s"
        words = _ENDED.get(-code, "the process that computed it ended ({code})")
        return words.format(code=code, **asdict(self._bounds))

    def _start(self) -> subprocess.Popen[bytes]:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True, mode=0o700)
        process = subprocess.Popen(
            # -P: nothing that lies where it works is imported
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            cwd=self._scratch,
            # Ctrl-C is for the server, which then ends this. No session of its own: Linux gives every session an equal
            # share (sched_autogroup), and a low priority would count for nothing against the server's.
            process_group=0,
        )
        self._process, self._unread = process, b""
        told = {
            "database": self._location.database,
            "blobs": self._location.blobs,
            "scratch": str(self._scratch.absolute()),
            "bounds": asdict(self._bounds),
            **self.more_told(),
        }
        if not self._tell(process, [told]) or self._answer(process, START_S) is None:
            self.close()
            raise BadLedger(f"a process of the server ({self._module}) does not start")
        return process

    def _tell(self, process: subprocess.Popen[bytes], lines: Sequence[dict[str, Any]]) -> bool:
        assert process.stdin is not None
        try:
            process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
            process.stdin.flush()
        except OSError:
            return False
        return True

    def _answer(self, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
        text = self._read_line(process, time.monotonic() + seconds)
        try:
            answer = json.loads(text) if text else None
        except ValueError:
            return None
        return answer if isinstance(answer, dict) else None

    def _read_line(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        assert process.stdout is not None
        poller = select.poll()  # not select(): a server with many connections has numbers beyond its reach
        poller.register(process.stdout, select.POLLIN)
        while b"\n" not in self._unread:
            if self._stop.is_set() or time.monotonic() > until or len(self._unread) > self.most_answer_bytes:
                return b""
            if poller.poll(200):
                more = os.read(process.stdout.fileno(), 1 << 16)
                if not more:
                    return b""
                self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line
