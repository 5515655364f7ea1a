"""The server whose truth is known: compiled, pinned to a core, and asked afterwards what really happened."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROW = np.dtype(
    [(name, "<i8") for name in ("arrival", "first", "last", "conn_t")]
    + [("n", "<i4"), ("sent", "<i4"), ("status", "<i2"), ("kind", "<i2"), ("conn", "<i4"), ("tokoff", "<i8")]
)
"""One request in the server's log; moments are CLOCK_MONOTONIC, the clock of `perf_counter_ns` on Linux."""
OK, DROPPED, HTTP_500, STALLED = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server saw and did."""

    rows: npt.NDArray[np.void]

    @property
    def good(self) -> npt.NDArray[np.void]:
        """Requests that were answered in full."""
        return self.rows[self.rows["status"] == OK]

    def count(self, status: int) -> int:
        """Requests that ended so."""
        return int(np.count_nonzero(self.rows["status"] == status))

    def middle(self) -> tuple[int, int, int]:
        """The middle 80 % of the completions, without start and end: how many, from when, until when."""
        ends = np.sort(self.good["last"])
        low, high = int(len(ends) * 0.1), int(len(ends) * 0.9)
        if high - low < 10:
            return 0, 0, 0
        return high - low, int(ends[low]), int(ends[high])

    def first_token_ms(self) -> npt.NDArray[np.float64]:
        """From the arrival of a request to its first token's write."""
        result: npt.NDArray[np.float64] = (self.good["first"] - self.good["arrival"]) / 1e6
        return result

    def token_gap_ms(self) -> float:
        """The mean distance between the tokens of a request."""
        rows = self.good[self.good["n"] > 1]
        return float(((rows["last"] - rows["first"]) / 1e6 / (rows["n"] - 1)).mean()) if len(rows) else float("nan")

    def lateness_ms(self, rate_per_s: float) -> npt.NDArray[np.float64]:
        """How far arrivals lag behind an even schedule laid through the one that came earliest against it."""
        arrivals = np.sort(self.rows["arrival"]) / 1e6
        behind = arrivals - np.arange(len(arrivals)) * (1e3 / rate_per_s)
        result: npt.NDArray[np.float64] = behind - behind.min()
        return result


class TruthServer:
    """The compiled server, running on its core."""

    def __init__(self, binary: Path, core: int, folder: Path, *options: str, prefix: tuple[str, ...] = ()) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.base}/v1"
        self._prefix = folder / f"truth-{self.port}"
        command = [str(binary), "--port", str(self.port), *options, "--dump", str(self._prefix)]
        self._process = subprocess.Popen([*prefix, "taskset", "-c", str(core), *command])
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise SystemExit("the truth server did not start")

    def stop(self) -> Truth:
        """End it and read its log."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        return Truth(np.fromfile(f"{self._prefix}.req", ROW))

    def kill(self) -> None:
        """End it whatever happened."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def truth_server(
    binary: Path, core: int, folder: Path, *options: str, prefix: tuple[str, ...] = ()
) -> Iterator[TruthServer]:
    """A server for one measurement; the prefix starts it with another priority."""
    server = TruthServer(binary, core, folder, *options, prefix=prefix)
    try:
        yield server
    finally:
        server.kill()


def compile_server(source: Path, folder: Path) -> Path:
    """The binary, from its one source file."""
    binary = folder / "truth_server"
    subprocess.run(["gcc", "-O2", "-w", "-o", str(binary), str(source)], check=True)
    return binary
