"""Every benchmark that needs nothing but this repository, one after the other: `make bench`.

Peers are measured by scripts of their own, which need further environments; see docs/benchmarks.md.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "command_latency.py",
    "harness_overhead.py",
    "interval_coverage.py",
    "steady_truth.py",
    "truth.py",
    "changepoints.py",
    "attribution_cpu.py",
    "regressions.py",
    "sittings_truth.py",
    "watch_year.py",
    "watch_recovery.py",
    "saturation.py",
    "capacity.py",
    "first_request.py",
    "experiments.py",
    "tune_landscapes.py",
    "fleet.py",
)


def main() -> None:
    """Run all; the exit code is 1 when one of them missed a bar."""
    failed = []
    for script in SCRIPTS:
        print(f"\n=== {script}", flush=True)
        started = time.perf_counter()
        if subprocess.run([sys.executable, str(HERE / script)], check=False).returncode != 0:
            failed.append(script)
        print(f"--- {script}: {time.perf_counter() - started:.0f} s", flush=True)
    print(
        f"\n{len(SCRIPTS) - len(failed)} of {len(SCRIPTS)} met their bars"
        + (f"; missed: {', '.join(failed)}" if failed else "")
    )
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
