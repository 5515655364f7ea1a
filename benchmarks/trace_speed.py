"""CPU time and memory of `attribute` against Holistic Trace Analysis, in one sitting, on a labelled trace tiled up.

    python benchmarks/trace_speed.py --trace TRACE.json.gz [--hta-python PYTHON] [--megabytes 100 500] [--alone 1000]

HTA loads the trace and makes its temporal and idle breakdowns; we read, account, judge, describe and replay five
hardware swaps. Each runs in a process of its own; CPU seconds (user and system, with children) and peak resident memory
(VmHWM of the process itself: ru_maxrss would carry the benchmark's own over) are the kernel's. Tiling shifts stamps and
ids, so that every copy is a run of steps of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CPU_TIMES, MEMORY_TIMES = 10.0, 8.0
"""What is asked: so many times less than HTA."""
LARGEST_RSS_MB = 1000.0
"""For a trace of a gigabyte."""

OURS = """
import resource, sys
from pathlib import Path
from lynxbench.attribute.attributing import TraceSettings
from lynxbench.attribute.rank_traces import analyse_ranks
report = analyse_ranks([Path(sys.argv[1])], TraceSettings())
used = resource.getrusage(resource.RUSAGE_SELF)
said = report.main.analysis
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
print(used.ru_utime + used.ru_stime, peak, said.attribution.steps, len(said.swaps))
"""
THEIRS = """
import os, resource, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))
analysis.get_temporal_breakdown(visualize=False)
analysis.get_idle_time_breakdown(visualize=False)
mine, inner = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = mine.ru_utime + mine.ru_stime + inner.ru_utime + inner.ru_stime
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
print(cpu, peak)
"""


def tile(source: Path, into: Path, megabytes: float) -> int:
    """Write copies of a trace after one another until the file is that large; returns how many."""
    opened: Any = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rt", encoding="utf-8") as file:
        document = json.load(file)
    events = document.pop("traceEvents")
    timed = [event for event in events if event.get("ph") == "X"]
    span = max(e["ts"] + e.get("dur", 0) for e in timed) - min(e["ts"] for e in timed) + 100
    ids = {key: 1 + max((_id(event, key) for event in events), default=0) for key in ("correlation", "External id")}
    written = copies = 0
    with into.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, separators=(",", ":"))[:-1] + ',"traceEvents":[')
        while written < megabytes * 1e6:
            for event in events:
                text = json.dumps(_shifted(event, copies, span, ids), separators=(",", ":"))
                written += file.write(text if not written else "," + text)
            copies += 1
        file.write("]}")
    return copies


def _id(event: dict[str, Any], key: str) -> int:
    value = event.get("args", {}).get(key, 0)
    return value if isinstance(value, int) else 0


def _shifted(event: dict[str, Any], copy: int, span: float, ids: dict[str, int]) -> dict[str, Any]:
    out = dict(event)
    if "ts" in out:
        out["ts"] = round(out["ts"] + copy * span, 3)
    if isinstance(out.get("id"), int):
        out["id"] += copy * ids["correlation"]
    if "args" in out:
        shift = {key: out["args"][key] + copy * by for key, by in ids.items() if isinstance(out["args"].get(key), int)}
        out["args"] = out["args"] | shift
    return out


def measure(python: str, code: str, trace: Path) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one fresh process."""
    command = [python, "-c", code, str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    cpu_s, rss_mb = done.stdout.strip().splitlines()[-1].split()[:2]
    return float(cpu_s), float(rss_mb)


def main() -> int:
    """Measure and print a table; exit 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--hta-python", help="a Python with HolisticTraceAnalysis; without it only ours is measured")
    parser.add_argument("--megabytes", type=float, nargs="*", default=[100.0, 500.0])
    parser.add_argument("--alone", type=float, nargs="*", default=[1000.0], help="sizes measured for ours alone")
    chosen = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiled.json"
        for megabytes in (*chosen.megabytes, *chosen.alone):
            copies = tile(chosen.trace, path, megabytes)
            size_mb = path.stat().st_size / 1e6
            cpu_s, rss_mb = measure(sys.executable, OURS, path)
            line = f"{size_mb:6.0f} MB ({copies} copies)  ours {cpu_s:6.2f} s {rss_mb:6.0f} MB"
            if megabytes in chosen.alone:
                met &= rss_mb <= LARGEST_RSS_MB
            elif chosen.hta_python:
                their_s, their_mb = measure(chosen.hta_python, THEIRS, path)
                met &= their_s >= CPU_TIMES * cpu_s and their_mb >= MEMORY_TIMES * rss_mb
                times = f"{their_s / cpu_s:.1f}x less CPU, {their_mb / rss_mb:.1f}x less memory"
                line += f"  HTA {their_s:7.2f} s {their_mb:6.0f} MB  {times}"
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
