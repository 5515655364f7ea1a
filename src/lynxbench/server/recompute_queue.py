"""What was submitted is recomputed one after the other, in a process that may die of it; the outcome is the server's
own word."""

import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lynxbench.errors import BadLedger, LynxbenchError
from lynxbench.ledger.location import Location
from lynxbench.server.settings import WorkerBounds
from lynxbench.watch.recomputations import DueResult, Recomputations, RecomputationState

START_S = 120.0
"""A process that is not ready by then never will be."""
GRACE_S = 5.0
MOST_ANSWER_BYTES = 64 << 10
REST_SHARE = 9.0
"""What was in the ledger before is no hurry: it takes a tenth of one processor at most."""
LOOK_S, RETRY_S = 1.0, 10.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_ENDED: dict[int, str] = {
    signal.SIGXCPU: "it took more than {cpu_s} s of a processor",
    signal.SIGALRM: "it took more than {wall_s} s",
    signal.SIGKILL: "the process that computed it was killed, as the system does where memory runs out",
}


class RecomputeProcess:
    """One process that recomputes results, started when it is first asked, and again after each that it died of."""

    def __init__(
        self,
        location: Location,
        environment: Mapping[str, str],
        scratch: Path,
        bounds: WorkerBounds | None = None,
    ) -> None:
        self._location, self._scratch, self._bounds = location, scratch, bounds or WorkerBounds()
        self._environment = {**os.environ, **environment, **ONE_THREAD}
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._stop = threading.Event()

    def ask(self, result_id: str, *, whole: bool = True) -> tuple[RecomputationState, list[str]]:
        """What comes of one result, or of its figures alone; BadLedger where that is not the result's fault."""
        process = self._process or self._start()
        question = json.dumps({"result": result_id, "whole": whole})
        answer = self._say(process, question, self._bounds.wall_s + GRACE_S)
        if answer is None or not answer.keys() & {"broken", "state"}:
            return RecomputationState.CANNOT, [self._why_ended(process)]
        if "broken" in answer:
            raise BadLedger(str(answer["broken"]))
        return RecomputationState(answer["state"]), [str(line) for line in answer["lines"]]

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

    def _start(self) -> subprocess.Popen[bytes]:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True, mode=0o700)
        process = subprocess.Popen(
            # -P: nothing that lies where it works is imported
            [sys.executable, "-P", "-m", "lynxbench.server.recompute_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            cwd=self._scratch,
            start_new_session=True,  # Ctrl-C is for the server, which then ends this
        )
        self._process, self._unread = process, b""
        told = {
            "database": self._location.database,
            "blobs": self._location.blobs,
            "scratch": str(self._scratch.absolute()),
            "bounds": asdict(self._bounds),
        }
        if self._say(process, json.dumps(told), START_S) is None:
            self.close()
            raise BadLedger("the process that recomputes results does not start")
        return process

    def _say(self, process: subprocess.Popen[bytes], line: str, seconds: float) -> dict[str, Any] | None:
        assert process.stdin is not None
        try:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
        except OSError:
            return None
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
            if self._stop.is_set() or time.monotonic() > until or len(self._unread) > MOST_ANSWER_BYTES:
                return b""
            if poller.poll(200):
                more = os.read(process.stdout.fileno(), 1 << 16)
                if not more:
                    return b""
                self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _why_ended(self, process: subprocess.Popen[bytes]) -> str:
        with suppress(subprocess.TimeoutExpired):  # one that is ending by itself says why
            process.wait(timeout=GRACE_S / 10)
        code = process.poll()
        self.close()
        if code is None:
            return f"it gave no answer in {self._bounds.wall_s} s"
        words = _ENDED.get(-code, "the process that computed it ended ({code})")
        return words.format(code=code, **asdict(self._bounds))


class RecomputeQueue:
    """Takes what is due, one after the other, in a thread that mostly waits; `told` hears of every outcome."""

    def __init__(
        self,
        recomputations: Recomputations,
        process: RecomputeProcess,
        told: Callable[[DueResult, RecomputationState], None],
        log: logging.Logger,
    ) -> None:
        self._recomputations, self._process, self._told, self._log = recomputations, process, told, log
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._broken = False

    @property
    def working(self) -> bool:
        """Whether what is due will soon be done."""
        return self._thread is not None and not self._broken and not self._stop.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._work, name="lynxbench-recompute", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something came."""
        self._wake.set()

    def stop(self) -> None:
        """End; what was not done is due when it starts again."""
        self._stop.set()
        self._wake.set()
        self._process.interrupt()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._process.close()

    def take_next(self) -> DueResult | None:
        """Recompute the next result that is due; None where there is none."""
        due = self._recomputations.due()
        if due is None:
            return None
        state, lines = self._process.ask(due.result_id, whole=due.whole)
        if self._stop.is_set():
            return None  # its process was ended because the server ends: that is no outcome
        self._recomputations.keep(due, state, lines)
        if state is not RecomputationState.HOLDS:
            fields = {"result": due.result_id, "state": state.value, "why": lines[0] if lines else ""}
            self._log.warning("recomputed", extra=fields)
        self._told(due, state)
        return due

    def _work(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                due = self.take_next()
                self._broken = False
            except (LynxbenchError, OSError) as error:
                self._broken = True
                self._log.warning("recomputing waits", extra={"error": str(error)})
                self._stop.wait(RETRY_S)
                continue
            if due is not None and due.urgent:
                continue
            self._wake.wait(LOOK_S if due is None else REST_SHARE * (time.monotonic() - began))
            self._wake.clear()
