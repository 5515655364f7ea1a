"""Whether a newcomer's first run ends valid, and says the same thing each time.

    python benchmarks/quickstart_repeats.py [--runs 10] [--out FOLDER] [--json]

`lynxbench run` as the README gives it, again and again in one home that goes away: how each run ended (valid, and
steady at every precision that it prints), the cause that it names or the two that it calls level, and how long its
measuring took. Promised on a quiet machine: nine of ten valid and steady, one verdict in nine of ten, 180 s of
measuring. Each line is printed as it comes; with --out what was measured is kept. Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MEASURING_S = 180.0
SHARE = 0.9
LEVEL_WITH = re.compile(r"level with (\w+)")


@dataclass(frozen=True, slots=True)
class Quickstart:
    """How one run ended."""

    exit_code: int
    validity: str
    reasons: tuple[str, ...]
    steady: dict[str, str]
    verdict: tuple[str, ...]
    bound: str
    measuring_s: float

    @property
    def whole(self) -> bool:
        """Valid, and steady at every precision."""
        return self.validity == "valid" and set(self.steady.values()) == {"steady"}

    @property
    def line(self) -> str:
        """For whoever waits."""
        steady = ", ".join(f"{precision} {word}" for precision, word in self.steady.items())
        reasons = f"; {'; '.join(self.reasons)}" if self.reasons else ""
        verdict = " level with ".join(self.verdict)
        return f"{self.validity} ({steady}); {self.bound}: {verdict}; {self.measuring_s:.0f} s of measuring{reasons}"


def main() -> None:
    """Run and print; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, choices=range(1, 101), metavar="1…100")
    parser.add_argument("--out", type=Path, help="where the runs are kept")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        out = asked.out or Path(temporary) / "results"
        for number in range(1, asked.runs + 1):
            runs.append(quickstart(Path(temporary) / "home", out))
            print(f"{number}: {runs[-1].line}", file=sys.stderr, flush=True)
    summary = summarised(runs)
    print(json.dumps({"runs": [asdict(run) for run in runs], **summary}, indent=1) if asked.json else said(summary))
    sys.exit(0 if summary["holds"] else 1)


def quickstart(home: Path, out: Path) -> Quickstart:
    """One run, as a process of its own."""
    command = [sys.executable, "-m", "lynxbench", "run", "--out", str(out), "--json"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"LYNXBENCH_HOME": str(home)}
    )
    if not ended.stdout.strip():
        sys.exit(f"the quickstart printed no result (exit code {ended.returncode}): {ended.stderr.strip()[-400:]}")
    return read(ended.returncode, json.loads(ended.stdout))


def read(exit_code: int, result: dict[str, Any]) -> Quickstart:
    """What a result document says of itself."""
    attribution = result["attribution"] or {}
    printed = [precision for precision in result["per_precision"] if not precision["skipped"]]
    return Quickstart(
        exit_code=exit_code,
        validity=result["validity"]["verdict"],
        reasons=tuple(result["validity"]["reasons"]),
        steady={one["precision"]: (one["steady"] or {}).get("verdict", "nothing counted") for one in printed},
        verdict=causes(attribution),
        bound=attribution.get("bound", "none"),
        measuring_s=result["measuring_s"],
    )


def causes(attribution: dict[str, Any]) -> tuple[str, ...]:
    """The cause that is named, with the one it is level with, in no order; only the sentence tells of the second."""
    level = LEVEL_WITH.search(attribution.get("sentence", ""))
    return tuple(sorted({attribution.get("bottleneck", "none"), *(level.groups() if level else ())}))


def summarised(runs: list[Quickstart]) -> dict[str, Any]:
    """The promises, over all runs."""
    whole = sum(run.whole for run in runs)
    alike = Counter(run.verdict for run in runs).most_common(1)[0]
    longest_s = max(run.measuring_s for run in runs)
    needed = SHARE * len(runs)
    return {
        "valid_and_steady": whole,
        "same_verdict": alike[1],
        "verdict": list(alike[0]),
        "longest_s": longest_s,
        "of": len(runs),
        "holds": whole >= needed and alike[1] >= needed and longest_s <= MEASURING_S,
    }


def said(summary: dict[str, Any]) -> str:
    """The summary in a line."""
    return (
        f"{summary['valid_and_steady']} of {summary['of']} valid and steady at every precision; "
        f"{summary['same_verdict']} of {summary['of']} say {' level with '.join(summary['verdict'])}; "
        f"measuring at most {summary['longest_s']:.0f} s: {'holds' if summary['holds'] else 'broken'}"
    )


if __name__ == "__main__":
    main()
