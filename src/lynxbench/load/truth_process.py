"""Runs the ground-truth server: in the foreground for a demonstration, or beside a measurement in its own process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from lynxbench.errors import CannotRun
from lynxbench.load.event_loop import new_event_loop, raise_file_limit
from lynxbench.load.ground_truth import Behaviour, GroundTruthServer, Truth
from lynxbench.load.truth_peer import listen

ENDING = (signal.SIGTERM, signal.SIGINT)


def serve(
    behaviour: Behaviour, host: str, port: int, log: Path | None = None, announce: str = "listening on {url}"
) -> None:
    """Answer until interrupted; then write the log."""
    server = GroundTruthServer(behaviour)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for name in ENDING:
            loop.add_signal_handler(name, stop.set)
        try:
            listening = await listen(server, host, port)
        except OSError as error:
            raise CannotRun(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another port") from None
        actual = listening.sockets[0].getsockname()[1]
        scheme = "https" if behaviour.cert_file else "http"
        print(announce.format(url=f"{scheme}://{host}:{actual}/v1"), flush=True)  # noqa: T201  the process's one message
        await stop.wait()
        listening.close()
        for name in ENDING:
            loop.remove_signal_handler(name)  # uvloop complains where one is left when its loop is closed

    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run())
    if log is not None:
        truth = server.truth()
        with log.open("wb") as file:
            np.savez(file, **{name: np.asarray(value) for name, value in asdict(truth).items()})  # type: ignore[arg-type]


def read_truth(path: Path) -> Truth:
    """The log a server left."""
    with np.load(path, allow_pickle=False) as stored:
        columns = {name: stored[name] for name in stored.files}
    return Truth(connections=int(columns.pop("connections")), **columns)


class RunningServer:
    """A ground-truth server in a process of its own."""

    def __init__(self, url: str, process: subprocess.Popen[str], log: Path) -> None:
        self.url = url
        self.pid = process.pid
        self._process = process
        self._log = log

    def stop(self) -> Truth:
        """End it and read what it did."""
        self._process.terminate()
        self._process.wait(10)
        return read_truth(self._log)


@contextmanager
def running_server(behaviour: Behaviour, core: int | None = None) -> Iterator[RunningServer]:
    """Start a server in its own process, on its own core where one is named."""
    with tempfile.TemporaryDirectory(prefix="lynxbench-truth-") as folder:
        log = Path(folder) / "truth.npz"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-m", "lynxbench.load.truth_process", json.dumps(asdict(behaviour)), str(log)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise CannotRun("the ground-truth server did not start; see the message above")
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
            yield RunningServer(url, process, log)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


if __name__ == "__main__":
    serve(Behaviour(**json.loads(sys.argv[1])), "127.0.0.1", 0, Path(sys.argv[2]), announce="{url}")
