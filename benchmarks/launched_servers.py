"""Interventions on a server that lynxbench starts itself: the gain of its launch argument against the true one.

The bundled server answers `--slots` requests at a time and takes a known time for each, so that twice the slots are
worth exactly two under a closed loop that fills them. `python benchmarks/launched_servers.py [--seconds 4]`
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = ((1, 2), (1, 4), (2, 8), (4, 5))
"""Slots before and after; the last is a gain that is easily missed."""
CONCURRENCY = 16
SERVERS = """\
lynxbench_servers: 1
servers:
  truth:
    command: ["{python}", -m, lynxbench, demo-server, --port, "{port}", --ttft, "20", --itl, "10"]
"""
CONTRACT = """\
lynxbench: 1
name: slots
question: What are slots worth?
regime: throughput
workload:
  task: generate
  model: {{source: served, name: ground-truth}}
  precisions: [fp32]
  input_tokens: {{distribution: fixed, value: 10}}
  output_tokens: {{distribution: fixed, value: 4}}
  arrival: {{process: closed, concurrency: {concurrency}}}
engine:
  name: openai
  url: http://127.0.0.1:0/v1
  processes: 1
  serve: {{server: truth, arguments: {{slots: {slots}}}}}
protocol:
  restarts: 1
  steady: {{drift: 20 %, window: 200 ms}}
  min_duration: {seconds} s
  limit: {seconds} s
  foreign_load: 100 %
"""


def main() -> None:
    """Print a line a case, and how many intervals hold the true gain."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=4.0, help="of each visit")
    seconds = options.parse_args().seconds
    held = 0
    for before, after in CASES:
        low, estimate, high = measure(before, after, seconds)
        true = after / before
        held += low <= true <= high
        print(
            f"slots {before} to {after}: true {true:.3f}, measured {estimate:.3f} [{low:.3f}, {high:.3f}], "
            f"off by {estimate / true - 1:+.1%}",
            flush=True,
        )
    print(f"{held} of {len(CASES)} intervals hold the true gain")


def measure(before: int, after: int, seconds: float) -> tuple[float, float, float]:
    """The gain that `run --intervene` reports for a change of slots."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "servers.yaml").write_text(SERVERS)
        text = CONTRACT.format(slots=before, seconds=f"{seconds:g}", concurrency=CONCURRENCY)
        (folder / "slots.yaml").write_text(text)
        change = f"engine.serve.arguments.slots={after}"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "lynxbench",
                "run",
                "slots.yaml",
                "--json",
                "--ledger",
                "none",
                "--intervene",
                change,
            ],
            cwd=folder,
            env={**os.environ, "LYNXBENCH_HOME": name},
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout:
            sys.exit(done.stderr)
        (tried,) = json.loads(done.stdout)["attribution"]["interventions"]
    gain = tried["measured"]
    return gain["low"], gain["estimate"], gain["high"]


if __name__ == "__main__":
    main()
