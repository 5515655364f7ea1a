"""The commit that made the sample project slower, looked for by `lynxbench bisect` with real processes.

    python benchmarks/bisect_example.py [--hunts 3] [--more 1.5] [--json]

A repository of `examples/branch-check` with eight commits after the first; one of them, by lot, makes every look-up
that much longer, one other, by lot, does not run at all, the rest change a docstring. Bar: every hunt names the planted
commit, or a range that holds it; none names another.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "branch-check"
MODULE = "src/scoring/features.py"
COMMITS = 8
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def main() -> int:
    """Hunt, and print what was found; exit code 1 where a wrong commit was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hunts", type=int, default=3)
    parser.add_argument("--more", type=float, default=1.5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for number in range(options.hunts):
        with tempfile.TemporaryDirectory(prefix="lynxbench-bisect-") as place:
            rows.append(hunt(Path(place), options.more, random.Random()))
        print(f"{number + 1}/{options.hunts}: {rows[-1]}", file=sys.stderr, flush=True)
    named = sum(row["suspects"] == [row["planted"]] for row in rows)
    held = sum(row["planted"] in row["suspects"] for row in rows)
    wrong = sum(bool(row["suspects"]) and row["planted"] not in row["suspects"] for row in rows)
    document = {
        "hunts": len(rows),
        "named": named,
        "in_range": held - named,
        "wrong": wrong,
        "holds": held == len(rows),
    }
    line = f"{named} of {len(rows)} named, {held - named} in a range, {wrong} wrong"
    print(json.dumps({**document, "rows": rows}, indent=1) if options.json else line)
    return 0 if document["holds"] else 1


def hunt(place: Path, more: float, lot: random.Random) -> dict[str, Any]:
    """Plant, hunt, and say what was found."""
    project = place / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "results", "lynxbench-ci"))
    planted, broken = lot.sample(range(1, COMMITS + 1), 2)
    broken = broken if broken != COMMITS else 0  # the last one is the bad commit, and has to run
    text = (project / MODULE).read_text()
    _git(project, "init", "--quiet", "--initial-branch=main")
    for number in range(COMMITS + 1):
        if number == planted:
            text = text.replace("ROUND_TRIPS = 20", f"ROUND_TRIPS = {round(20 * more)}")
        marked = text.replace('"""', f'"""({number}) ', 1)
        (project / MODULE).write_text("raise RuntimeError\n" if number and number == broken else marked)
        _git(project, "add", "--all")
        _git(project, "commit", "--quiet", "--message", f"{number}")
    words = ["bisect", f"HEAD~{COMMITS}", "HEAD", "bench/lookup.yaml", "--json", "--ledger", "none"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(["bench", str(ROOT / "src")]),
        "LYNXBENCH_HOME": str(place / "home"),
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "lynxbench", *words],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout) if done.stdout else {"suspects": [], "ended": done.stderr[-300:], "outcomes": []}
    return {
        "planted": planted,
        "broken": broken,
        "suspects": [int(commit["subject"]) for commit in found["suspects"]],
        "code": done.returncode,
        "looked_at": len(found["outcomes"]),
        "seconds": round(time.monotonic() - began),
        "ended": found["ended"],
    }


def _git(project: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, *words], cwd=project, capture_output=True, check=True)


if __name__ == "__main__":
    sys.exit(main())
