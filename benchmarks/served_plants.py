"""Bottlenecks planted in a real vLLM on one GPU, each measured by `lynxbench run`: what it names, what the fix gains.

    python benchmarks/served_plants.py --vllm DIR [--within 540] [--out DIR] [--case NAME ...]

DIR is an unpacked vLLM with `vllm_serve.sh` and `vllm_model/gen_model.py`. All servers are started at once on the one
GPU and measured one at a time. A case is right where bound, layer and the server's own flag (or the word for what is
no flag's) are as planted; its gain is that of the case that stands for its fix, in throughput at the same load. One
line a case as it ends, then a table; runs with all their evidence go to OUT/served_plants.tar.gz. Exit 1 where fewer
than nine in ten are right; 4 without a GPU or a server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from served_plant_cases import CASES, CONTRACT, GRAPHS, SERVERS, Case

NEEDED = 0.9
WITHIN_FACTOR = 1.5
LOAD_S = 10
FIRST_PORT = 8101
GIB = 1 << 30


@dataclass
class Running:
    """A server that was started."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    ready_s: float | None = None


@dataclass
class Outcome:
    """What a run said of a case."""

    attribution: dict[str, Any] | None
    why: str
    per_s: float | None
    first_ms: float | None
    took_s: float
    folder: Path
    validity: str = ""


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# --- servers ----------------------------------------------------------------------------------------------------------


def start_servers(names: list[str], vllm: Path, home: Path) -> dict[str, Running]:
    """Start all at once; each has a port and a log."""
    small = home / "small_model"
    if any(SERVERS[name].small or "@small" in " ".join(SERVERS[name].arguments) for name in names):
        generate = [sys.executable, str(vllm / "vllm_model" / "gen_model.py"), str(small), "--size", "1b"]
        subprocess.run([*generate, "--tokenizer-from", str(vllm / "vllm_model")], check=True, capture_output=True)
    started = {}
    for number, name in enumerate(names):
        started[name] = start_server(name, FIRST_PORT + number, vllm, home, small)
        time.sleep(0.5)
    return started


def start_server(name: str, port: int, vllm: Path, home: Path, small: Path, plain: bool = False) -> Running:
    """One server; `plain` leaves out how its graphs are made."""
    server, log = SERVERS[name], home / f"{name}.log"
    arguments = [argument.replace("@small", str(small)) for argument in server.arguments]
    arguments += ["--kv-cache-memory-bytes", str(int(server.cache_gib * GIB)), "--gpu-memory-utilization", "0.05"]
    arguments += ["--generation-config", "vllm", "--no-enable-prefix-caching"]
    if server.graphs and not plain:
        arguments += GRAPHS
    surroundings = {**os.environ, "PORT": str(port), "MAXLEN": str(server.longest), "VLLM_NO_USAGE_STATS": "1"}
    surroundings.pop("PYTHONPATH", None)
    if server.small:
        surroundings["MODEL"] = str(small)
    command = ["bash", str(vllm / "vllm_serve.sh"), *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=surroundings, cwd=home, start_new_session=True
        )
    return Running(name, port, process, log)


def await_servers(
    running: dict[str, Running], deadline: float, began: float, again: Callable[[str, int], Running]
) -> None:
    """Wait until each answers or has died; one that dies is started once more the plain way."""
    repeated: set[str] = set()
    while time.monotonic() < deadline and any(server.ready_s is None for server in running.values()):
        for name, server in list(running.items()):
            if server.ready_s is not None:
                continue
            if server.process.poll() is not None:
                say(f"server {name} died: {last_line(server.log)}")
                if name in repeated or not SERVERS[name].graphs:
                    running.pop(name)
                else:
                    repeated.add(name)
                    shutil.copy(server.log, server.log.with_suffix(".first.log"))
                    running[name] = again(name, server.port)
            elif answers(server.port):
                server.ready_s = time.monotonic() - began
                say(f"server {name} ready after {server.ready_s:.0f} s")
        time.sleep(1.0)
    for name in [name for name, server in running.items() if server.ready_s is None]:
        say(f"server {name} was not ready in time: {last_line(running[name].log)}")
        end(running.pop(name).process)


def answers(port: int) -> bool:
    """Whether the server is healthy."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def served_name(port: int) -> str:
    """What the server calls its model."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
        return str(json.loads(answer.read())["data"][0]["id"])


def last_line(log: Path) -> str:
    """The last line that names an error, else the last line."""
    lines = log.read_text(errors="replace").splitlines()[-400:] if log.exists() else []
    wrong = [line for line in lines if "Error" in line]
    return (wrong or lines or ["nothing"])[-1][-300:]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server with all it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(4)


# --- plants that need no restart --------------------------------------------------------------------------------------


def tree_of(root: int) -> list[int]:
    """A process and all below it."""
    import psutil

    process = psutil.Process(root)
    return [root, *(child.pid for child in process.children(recursive=True))]


def threads_of(root: int) -> list[int]:
    """Every thread of a tree."""
    threads: list[int] = []
    for pid in tree_of(root):
        with contextlib.suppress(OSError):
            threads += [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return threads


@contextlib.contextmanager
def starve(server: Running) -> Iterator[None]:
    """All threads of the server on one core, which a busy loop shares."""
    cores = os.sched_getaffinity(0)
    core = max(cores)
    for thread in threads_of(server.process.pid):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, {core})
    loop = subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()
        for thread in threads_of(server.process.pid):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, cores)


NEIGHBOUR = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
print("at work", flush=True)
while True:
    for _ in range(8):
        a @ a
    torch.cuda.synchronize()
"""


@contextlib.contextmanager
def share(server: Running) -> Iterator[None]:
    """Another process that multiplies matrices on the same GPU."""
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def slow(server: Running) -> Iterator[None]:
    """The clock of the GPU locked."""
    subprocess.run(["nvidia-smi", "-lgc", "510,510"], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["nvidia-smi", "-rgc"], check=False, capture_output=True)


PLANTS: dict[str, Callable[[Running], contextlib.AbstractContextManager[None]]] = {
    "starve": starve,
    "share": share,
    "slow": slow,
    "": lambda server: contextlib.nullcontext(),
}


# --- one case ---------------------------------------------------------------------------------------------------------


def measure(name: str, server: Running, home: Path, seconds: int) -> Outcome:
    """Run the contract of a case, with what is planted meanwhile."""
    case, folder = CASES[name], home / name.replace(" ", "-").replace(",", "")
    folder.mkdir()
    began = time.monotonic()
    contract = CONTRACT.format(
        model=served_name(server.port),
        precision=case.precision,
        inputs=case.inputs,
        outputs=case.outputs,
        in_flight=case.in_flight,
        port=server.port,
        seconds=seconds,
    )
    (folder / "contract.yaml").write_text(contract)
    place = {**os.environ, "LYNXBENCH_HOME": str(home / "home")}
    command = [sys.executable, "-m", "lynxbench", "run", "contract.yaml", "--json", "--out", "runs"]
    with PLANTS[case.plant](server):
        done = subprocess.run(
            command, cwd=folder, env=place, capture_output=True, text=True, check=False, timeout=6 * seconds + 90
        )
    took_s = time.monotonic() - began
    if not done.stdout.strip():
        return Outcome(None, done.stderr.strip()[-400:] or f"code {done.returncode}", None, None, took_s, folder)
    part = json.loads(done.stdout)["per_precision"][0]
    rate = (part["load"] or {}).get("requests_per_s") or {}
    first = next((each for each in part["latency_ms"].get("time-to-first-token", ()) if each["percentile"] == 50), {})
    return Outcome(
        part["attribution"],
        part["attribution_missing"] or "",
        rate.get("estimate"),
        first.get("estimate"),
        took_s,
        folder,
        part["validity"]["verdict"],
    )


def is_right(case: Case, outcome: Outcome) -> bool:
    """Whether bound, layer and what helps are as planted."""
    said = outcome.attribution
    if said is None:
        return False
    text = f"{said['sentence']} {said['next_step']}"
    named = not case.said or any(word in text for word in case.said)
    return said["bound"] in case.bounds and (said["layer"] or "") in case.layers and named


def gain_of(case: Case, outcome: Outcome, outcomes: dict[str, Outcome]) -> float | None:
    """What the fix gave: the figure of the case that stands for it against this one's."""
    fixed = outcomes.get(case.fix or "")
    if fixed is None:
        return None
    if case.metric == "first":
        return outcome.first_ms / fixed.first_ms if outcome.first_ms and fixed.first_ms else None
    return fixed.per_s / outcome.per_s if outcome.per_s and fixed.per_s else None


def line_of(name: str, outcome: Outcome, outcomes: dict[str, Outcome]) -> str:
    """What was planted, what was said, what the fix gave, and whether it was right."""
    case, said = CASES[name], outcome.attribution
    rate = "no figure" if outcome.per_s is None else f"{outcome.per_s:.2f} /s"
    if said is None:
        return f"NONE   {name} ({rate}, {outcome.took_s:.0f} s): {outcome.why[:300]}"
    gain, predicted = gain_of(case, outcome, outcomes), said["gain_if_removed"]
    low, estimate, high = (predicted[key] or 0.0 for key in ("low", "estimate", "high"))
    true = "" if gain is None else f", true {gain:.2f}{'' if low <= gain <= high else ' OUTSIDE'}"
    verdict = "right" if is_right(case, outcome) else "WRONG"
    return (
        f"{verdict}  {name} ({rate}, {outcome.validity}, {outcome.took_s:.0f} s): "
        f"{said['sentence'][:260]} | {said['layer']} → {said['owner']} | {said['next_step'][:160]} | "
        f"gain {estimate:.2f} [{low:.2f}, {high:.2f}]{true}"
    )


def keep(home: Path, out: Path) -> None:
    """Every run and the end of every log, in one archive."""
    for log in home.glob("*.log"):
        (home / f"{log.stem}.tail.txt").write_bytes(log.read_bytes()[-30_000:])
    with tarfile.open(out / "served_plants.tar.gz", "w:gz") as archive:
        for path in sorted([*home.glob("*.tail.txt"), *home.glob("*/contract.yaml"), *home.glob("*/runs")]):
            archive.add(path, path.relative_to(home))


def summarise(outcomes: dict[str, Outcome]) -> bool:
    """The table, the score, and whether it suffices."""
    say("")
    right = near = gains = 0
    for name, outcome in outcomes.items():
        say(line_of(name, outcome, outcomes))
        right += is_right(CASES[name], outcome)
        gain = gain_of(CASES[name], outcome, outcomes)
        if gain is not None and outcome.attribution is not None:
            estimate = outcome.attribution["gain_if_removed"]["estimate"] or 1.0
            gains += 1
            near += max(estimate / gain, gain / estimate) <= WITHIN_FACTOR
    say(f"{right} of {len(outcomes)} right; gain within {WITHIN_FACTOR:g}x in {near} of {gains}")
    return right >= NEEDED * len(outcomes)


def main() -> int:
    """Start the servers, measure every case, print the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", type=Path, default=Path("vllm"), help="the unpacked server")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the evidence goes")
    parser.add_argument("--within", type=float, default=540.0, help="seconds for everything")
    parser.add_argument("--seconds", type=int, default=LOAD_S, help="of load a case")
    parser.add_argument("--case", action="append", choices=list(CASES))
    options = parser.parse_args()
    began = time.monotonic()
    deadline = began + options.within - 15
    vllm, out = options.vllm.resolve(), options.out.resolve()
    if not (vllm / "vllm_serve.sh").exists() or shutil.which("nvidia-smi") is None:
        say(f"needs an NVIDIA GPU and {vllm}/vllm_serve.sh")
        return 4
    out.mkdir(parents=True, exist_ok=True)
    cases = options.case or list(CASES)
    home = Path(tempfile.mkdtemp(prefix="served-plants-"))
    running: dict[str, Running] = {}
    outcomes: dict[str, Outcome] = {}
    longest_s = 3.0 * options.seconds
    try:
        names = list(dict.fromkeys(CASES[name].server for name in cases))
        running.update(start_servers(names, vllm, home))
        small = home / "small_model"
        ready_by = min(deadline, began + options.within * 0.45)
        await_servers(running, ready_by, began, lambda name, port: start_server(name, port, vllm, home, small, True))
        for name in cases:
            server = running.get(CASES[name].server)
            if server is None or time.monotonic() + longest_s > deadline:
                say(f"left out: {name} ({'no server' if server is None else 'no time'})")
                continue
            try:
                outcomes[name] = measure(name, server, home, options.seconds)
                longest_s = max(longest_s, outcomes[name].took_s)
                say(line_of(name, outcomes[name], outcomes))
            except Exception as problem:  # one case that fails must not take the others with it
                say(f"FAILED {name}: {type(problem).__name__}: {str(problem)[:300]}")
    finally:
        for server in running.values():
            end(server.process)
        keep(home, out)
    good = bool(outcomes) and summarise(outcomes)
    shutil.rmtree(home, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
