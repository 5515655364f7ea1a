"""Conditions planted around an unchanged function on a GPU, and what `lynxbench run` says of them.

    python benchmarks/gpu_conditions.py [--case NAME ...] [--repeat N] [--within 200] [--out FOLDER]

A condition counts as named where the run's validity holds a line with its words, the layer and the contract's owner of
it, and for a neighbour its name; a clean run counts where no such line stands. Clocks and limits are put back in every
case; a setting that the driver refuses is left out, with its answer. Exit 1 where one was missed, a clean run was
doubted or fewer than eight conditions could be planted; 4 without a CUDA device.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpu_setting import find_device

OWNER = "the machine room"
LEAST_PLANTED = 8
CONTRACT = f"""\
lynxbench: 1
name: conditions
question: What does a product sustain?
regime: throughput
owners: {{system: {OWNER}}}
workload: {{task: callable, model: {{source: callable, target: "product:step"}}, precisions: [bf16]}}
engine: {{name: callable}}
protocol: {{restarts: 1, min_duration: 4 s, limit: 4 s, steady: {{drift: 20 %, window: 200 ms}}}}
"""
MODULE = """\
import torch

held = {}


def step(index):
    if not held:
        held["x"] = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        held["y"] = held["x"] @ held["x"]
"""
NEIGHBOUR = """\
import sys, time, torch
if len(sys.argv) > 3:
    open("/proc/self/comm", "w").write(sys.argv[3])
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
print("ready", flush=True)
busy, rest = float(sys.argv[1]), float(sys.argv[2])
while True:
    end = time.monotonic() + busy
    while time.monotonic() < end:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()
    time.sleep(rest)
"""
HOARDER = """\
import time, torch
free, total = torch.cuda.mem_get_info()
kept = torch.empty(int(free - 0.03 * total), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
time.sleep(600)
"""
SPINNER = """\
print("ready", flush=True)
while True:
    pass
"""
SHARED, CLOCK, POWER = "another process on the device", "locked clock", "lowered power limit"
LOADED, BLOCKED = "foreign load", "blocking launches"
COMMON = (SHARED, CLOCK, POWER, LOADED, BLOCKED)


class Refused(Exception):
    """A setting that this machine does not let us make."""


@contextlib.contextmanager
def beside(*programs: tuple[str, ...]) -> Iterator[str]:
    """Processes that run meanwhile; the name of the first is yielded."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for code, *words in programs:
            command = [sys.executable, "-c", code, *words]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise Refused("the process beside the run did not start")
        yield Path(f"/proc/{processes[0].pid}/comm").read_text().strip()
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def setting(change: list[str], restore: list[str]) -> Iterator[str]:
    """A setting of the driver, put back in every case."""
    try:
        changed = subprocess.run(["nvidia-smi", *change], capture_output=True, text=True, check=False)
        if changed.returncode:
            raise Refused(f"nvidia-smi {' '.join(change)}: {changed.stdout.strip()[:160]}")
        time.sleep(1)
        yield ""
    finally:
        subprocess.run(["nvidia-smi", *restore], capture_output=True, check=False)


@contextlib.contextmanager
def variable(name: str, value: str) -> Iterator[str]:
    """A variable of the environment."""
    os.environ[name] = value
    try:
        yield ""
    finally:
        del os.environ[name]


def ask(what: str) -> list[str]:
    """What the driver answers to a query about the first device."""
    query = ["nvidia-smi", f"--query-{what}", "--format=csv,noheader,nounits", "-i", "0"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()


def lowest_memory_mhz() -> str:
    """The lowest memory clock that the driver offers."""
    offered = [int(word) for word in ask("supported-clocks=memory") if word.isdigit()]
    return str(min(offered, default=0))


def power(share: float) -> contextlib.AbstractContextManager[str]:
    """A share of the device's own power limit."""
    normal = round(float(ask("gpu=power.default_limit")[0]))
    return setting(["-pl", str(round(normal * share))], ["-pl", str(normal)])


def spinners() -> contextlib.AbstractContextManager[str]:
    """A program for every CPU that does nothing else."""
    return beside(*[(SPINNER,)] * (len(os.sched_getaffinity(0)) - 1))


@contextlib.contextmanager
def memory_clock() -> Iterator[str]:
    """The lowest memory clock there is; some drivers take the setting and keep the clock."""
    lowest = lowest_memory_mhz()
    with setting(["-lmc", f"{lowest},{lowest}"], ["-rmc"]):
        clock = ask("gpu=clocks.mem")[0]
        if float(clock) > 1.1 * float(lowest):
            raise Refused(f"nvidia-smi -lmc {lowest} was taken, and the memory runs at {clock} MHz")
        yield ""


Condition = Callable[[], contextlib.AbstractContextManager[str]]
CASES: dict[str, tuple[Condition, str | None]] = {
    "clean": (lambda: contextlib.nullcontext(""), None),
    "neighbour all the time": (lambda: beside((NEIGHBOUR, "1", "0")), SHARED),
    "neighbour a fifth of the time": (lambda: beside((NEIGHBOUR, "0.2", "0.8")), SHARED),
    "neighbour with a name": (lambda: beside((NEIGHBOUR, "0.5", "0.5", "nightly-train")), SHARED),
    "neighbour that fills the memory": (lambda: beside((HOARDER,)), SHARED),
    "clock locked at 600 MHz": (lambda: setting(["-lgc", "600,600"], ["-rgc"]), CLOCK),
    "clock locked at 1200 MHz": (lambda: setting(["-lgc", "1200,1200"], ["-rgc"]), CLOCK),
    "memory clock locked low": (memory_clock, CLOCK),
    "half the power": (lambda: power(0.5), POWER),
    "CPUs taken by other programs": (spinners, LOADED),
    "launches that block": (lambda: variable("CUDA_LAUNCH_BLOCKING", "1"), BLOCKED),
}


def run_once(home: Path) -> list[str]:
    """What one run gives as reasons for doubt."""
    place = {**os.environ, "LYNXBENCH_HOME": str(home / "home"), "LYNXBENCH_CACHE": str(home / "cache")}
    command = [sys.executable, "-m", "lynxbench", "run", "conditions.yaml", "--json"]
    done = subprocess.run(
        command, cwd=home, env=place | {"COLUMNS": "400"}, capture_output=True, text=True, check=False, timeout=120
    )
    if not done.stdout.strip():
        raise RuntimeError(done.stderr[-600:])
    return [str(reason) for reason in json.loads(done.stdout)["validity"]["reasons"]]


def judge(reasons: list[str], cause: str | None, name: str) -> tuple[bool, list[str]]:
    """Whether the condition is named as it should be, and the lines that name any."""
    told = [line for line in reasons if any(word in line for word in COMMON)]
    if cause is None:
        return not told, told
    words = [cause, name if cause == SHARED else "", f"(layer system, {OWNER})"]
    return any(all(word in line for word in words) for line in told), told


def main() -> int:
    """Every case, one line each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case")
    parser.add_argument("--within", type=float, default=float("inf"), help="begin no case after so many seconds")
    parser.add_argument("--out", type=Path, help="keep what was said in this folder")
    options = parser.parse_args()
    find_device()
    began = time.monotonic()
    said: dict[str, list[dict[str, object]]] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "conditions.yaml").write_text(CONTRACT)
        (home / "product.py").write_text(MODULE)
        for case in options.case or list(CASES):
            if time.monotonic() - began > options.within:
                print(f"not begun  {case}: the time is over", flush=True)
                continue
            condition, cause = CASES[case]
            try:
                with condition() as name:
                    for _ in range(options.repeat):
                        reasons = run_once(home)
                        right, told = judge(reasons, cause, name)
                        said.setdefault(case, []).append({"right": right, "reasons": reasons})
                        wrong += not right
                        print(f"{'right' if right else 'WRONG'}  {case}: {told or reasons}", flush=True)
            except Refused as why:
                print(f"refused  {case}: {why}", flush=True)
            except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
                wrong += 1
                print(f"FAILED  {case}: {str(error)[-300:]}", flush=True)
    planted = [case for case in said if CASES[case][1] is not None]
    named = sum(all(one["right"] for one in said[case]) for case in planted)
    print(f"{named} of {len(planted)} conditions named; {wrong} runs wrong")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_conditions.json").write_text(json.dumps(said, indent=1))
    few = options.case is None and len(planted) < LEAST_PLANTED
    return 1 if wrong or few else 0


if __name__ == "__main__":
    sys.exit(main())
