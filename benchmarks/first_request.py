"""From the command `lynxbench run CONTRACT` to the first request that a server sees, and to the first of the load.

    python benchmarks/first_request.py [--rounds 5]

The bundled ground-truth server stamps arrivals on the clock that this program starts the command on. The first request
is the question that counts tokens; the load begins after the server is captured and the instrument has proved itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server

BAR_S = 1.0
QUESTIONS = 2
"""Asked before the load, to count tokens."""
CONTRACT = """
lynxbench: 1
name: first-request
question: How long until the server is asked?
regime: latency
workload:
  task: generate
  model: {{source: served, name: ground-truth}}
  precisions: [fp32]
  input_tokens: {{distribution: fixed, value: 8}}
  output_tokens: {{distribution: fixed, value: 4}}
  arrival: {{process: constant, rate: 50 /s}}
engine: {{name: openai, url: "{url}", processes: 1}}
objective: {{slo: [{{metric: latency, percentile: 90, at_most: 1 s}}]}}
protocol:
  restarts: 1
  steady: {{drift: 20 %, window: 100 ms}}
  min_duration: 1 s
  limit: 1500 ms
"""


def measure() -> tuple[float, float]:
    """Seconds to the first question, and to the first request of the load."""
    with running_server(Behaviour()) as server, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "contract.yaml").write_text(CONTRACT.format(url=server.url), encoding="utf-8")
        command = [sys.executable, "-m", "lynxbench", "run", "contract.yaml", "--ledger", "none"]
        began_ns = time.perf_counter_ns()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        arrivals = sorted(server.stop().arrival_ns.tolist())
    return (arrivals[0] - began_ns) / 1e9, (arrivals[QUESTIONS] - began_ns) / 1e9


def main() -> None:
    """Measure and print; exit 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    found = [measure() for _ in range(parser.parse_args().rounds)]
    first, load = [pair[0] for pair in found], [pair[1] for pair in found]
    print(f"first request  {median(first):.2f} s ({min(first):.2f} to {max(first):.2f}), bar {BAR_S} s")
    print(f"first of the load  {median(load):.2f} s ({min(load):.2f} to {max(load):.2f})")
    if median(first) > BAR_S:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
