"""Conditions planted on a GPU around an unchanged function, and what `lynxbench run` says of them.

    python benchmarks/gpu_conditions.py [--case NAME ...] [--repeat N]

A condition counts as named where the run's validity holds a line with its words, the layer and the contract's owner of
it, and for a neighbour its name; a clean run counts where no such line stands. Clocks and limits are put back in every
case. Exit 1 where one was missed or a clean run was doubted; 4 without a CUDA device, or where clocks may not be set.
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
from collections.abc import Iterator
from pathlib import Path

from gpu_setting import find_device

OWNER = "the machine room"
CONTRACT = f"""\
lynxbench: 1
name: conditions
question: What does a product sustain?
regime: throughput
owners: {{system: {OWNER}}}
workload: {{task: callable, model: {{source: callable, target: "product:step"}}, precisions: [bf16]}}
engine: {{name: callable}}
protocol: {{restarts: 2, min_duration: 4 s, limit: 8 s, steady: {{drift: 10 %}}}}
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
COMMON = ("another process on the device", "locked clock", "lowered power limit")


@contextlib.contextmanager
def neighbour(busy_s: float, rest_s: float) -> Iterator[str]:
    """A process that uses the device part of the time; its name is yielded."""
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, str(busy_s), str(rest_s)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield Path(f"/proc/{process.pid}/comm").read_text().strip()
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def setting(change: list[str], restore: list[str]) -> Iterator[str]:
    """A setting of the driver, put back in every case."""
    try:
        changed = subprocess.run(["nvidia-smi", *change], capture_output=True, text=True, check=False)
        if changed.returncode:
            sys.stderr.write(f"nvidia-smi {' '.join(change)}: {changed.stdout.strip()}\n")
            raise SystemExit(4)
        time.sleep(1)
        yield ""
    finally:
        subprocess.run(["nvidia-smi", *restore], capture_output=True, check=True)


def default_limit_w() -> str:
    """The device's own power limit, to go back to."""
    query = ["nvidia-smi", "--query-gpu=power.default_limit", "--format=csv,noheader,nounits", "-i", "0"]
    return str(round(float(subprocess.run(query, capture_output=True, text=True, check=True).stdout)))


def run_once(home: Path) -> list[str]:
    """What one run gives as reasons for doubt."""
    place = {**os.environ, "LYNXBENCH_HOME": str(home / "home"), "COLUMNS": "400"}
    command = [sys.executable, "-m", "lynxbench", "run", "conditions.yaml", "--json"]
    done = subprocess.run(command, cwd=home, env=place, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise RuntimeError(done.stderr[-2000:])
    return [str(reason) for reason in json.loads(done.stdout)["validity"]["reasons"]]


def main() -> int:
    """Every case, one line each."""
    cases = {
        "clean": (contextlib.nullcontext(""), None),
        "neighbour all the time": (neighbour(1, 0), COMMON[0]),
        "neighbour a fifth of the time": (neighbour(0.2, 0.8), COMMON[0]),
        "clock locked at 600 MHz": (setting(["-lgc", "600,600"], ["-rgc"]), COMMON[1]),
        "clock locked at 1200 MHz": (setting(["-lgc", "1200,1200"], ["-rgc"]), COMMON[1]),
        "half the power": (setting(["-pl", "350"], ["-pl", default_limit_w()]), COMMON[2]),
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--case", action="append", choices=list(cases))
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case")
    options = parser.parse_args()
    find_device()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "conditions.yaml").write_text(CONTRACT)
        (home / "product.py").write_text(MODULE)
        for case in options.case or list(cases):
            condition, cause = cases[case]
            with condition as name:
                for _ in range(options.repeat):
                    reasons = run_once(home)
                    told = [line for line in reasons if any(word in line for word in COMMON)]
                    expected = [] if cause is None else [cause, name, f"(layer system, {OWNER})"]
                    right = not told if cause is None else any(all(word in line for word in expected) for line in told)
                    wrong += not right
                    print(f"{'right' if right else 'WRONG'}  {case}: {told or reasons}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
