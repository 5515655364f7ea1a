"""The sample project's pipeline, carried out: a planted loss of 5 % is found and commented, an equal branch passes.

    python benchmarks/ci_example.py [--work waiting|computing] [--equal 20] [--slower 5] [--keep FILE] [--json]

A repository is made of `examples/branch-check`; on a branch a docstring is changed (equal), or a call does 5 % more
(slower), in a module that the measured one imports: 21 round trips of 5 ms instead of 20, or 210 products instead of
200. Each branch goes through the composite action, step by step (`tools/run_pipeline.py`), as a pull request would;
`gh` is a script that keeps the comment. What waits can be told apart on a machine whose processors others use too.

Bars: no equal branch is stopped; every slower one is stopped with exit code 1 and a comment that says regressed. What
stays in doubt stops nothing, and is counted. `--keep` writes every branch into a file of lines and goes on with those
that it does not hold yet; `--minutes` begins no branch after so long.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "branch-check"
ACTION = ROOT / ".github" / "actions" / "ci" / "action.yml"
WORKS = {
    "waiting": ("bench/lookup.yaml", "src/scoring/features.py", "ROUND_TRIPS = 20", "ROUND_TRIPS = 21"),
    "computing": ("bench/ranking.yaml", "src/scoring/ranking.py", "ROUNDS = 200", "ROUNDS = 210"),
}
"""By kind of work: the contract, the module that a branch changes, and what a slower one writes instead."""
GH = """\
#!/bin/bash
for word in "$@"; do case "$word" in body=@*) cp "${word#body=@}" "$KEPT" ;; esac; done
"""
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def main() -> int:
    """Carry out every branch, print what came of it; exit code 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=WORKS, default="waiting")
    parser.add_argument("--equal", type=int, default=20)
    parser.add_argument("--slower", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="file of lines, one a branch; it is gone on with")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no branch after so long")
    options = parser.parse_args()
    rows = carry_out(options)
    document = {"work": options.work, **summary(rows, {"equal": options.equal, "slower": options.slower})}
    print(json.dumps({**document, "branches": rows}, indent=1) if options.json else text_of(document))
    return 0 if document["holds"] else 1


def carry_out(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The branches that are kept already, then those that are not."""
    kept = options.keep
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    rows = [row for row in rows if row["work"] == options.work]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lynxbench-example-") as name:
        place = Path(name)
        project = make_project(place)
        for kind, many in (("slower", options.slower), ("equal", options.equal)):
            for number in range(sum(row["kind"] == kind for row in rows), many):
                if time.monotonic() - began > 60 * options.minutes:
                    return rows
                row = {"work": options.work, **one_branch(place, project, options.work, kind)}
                rows.append(row)
                if kept:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                said = f"{kind} {number + 1}/{many}: {row['verdict']}, exit code {row['code']}, {row['seconds']:.0f} s"
                print(f"{said}; {row['said']}", file=sys.stderr, flush=True)
    return rows


def make_project(place: Path) -> Path:
    """A repository of the sample, and a `gh` that keeps comments."""
    project, tools = place / "project", place / "tools"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "results", "lynxbench-ci"))
    tools.mkdir()
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    _git(project, "init", "--quiet", "--initial-branch=main")
    _git(project, "add", "--all")
    _git(project, "commit", "--quiet", "--message", "base")
    return project


def one_branch(place: Path, project: Path, work: str, kind: str) -> dict[str, Any]:
    """Change something on a branch and carry out the action as for a pull request."""
    _git(project, "checkout", "--quiet", "--force", "-B", "branch", "main")
    contract, module, before, after = WORKS[work]
    file = project / module
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after) if kind == "slower" else text.replace('"""', '"""(Changed.) ', 1))
    _git(project, "commit", "--quiet", "--all", "--message", kind)
    kept = place / "comment.md"
    kept.unlink(missing_ok=True)
    base = _git(project, "rev-parse", "main")
    given = {
        "inputs.install": "",
        "inputs.contracts": contract,
        "inputs.python": sys.executable,
        "github.event_name": "pull_request",
        "github.event.pull_request.number": "1",
        "github.event.pull_request.base.sha": base,
        "github.repository": "example/scoring",
    }
    environment = {
        **os.environ,
        "PATH": f"{place / 'tools'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(["bench", str(ROOT / "src")]),
        "LYNXBENCH_HOME": str(place / "home"),
        "LYNXBENCH_LEDGER": "",
        "KEPT": str(kept),
    }
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "run_pipeline.py"), str(ACTION), *words],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - began
    shutil.rmtree(project / "results", ignore_errors=True)
    comment = kept.read_text() if kept.exists() else ""
    check = project / "lynxbench-ci" / "check.json"
    if not comment or not check.exists():
        return {"kind": kind, "code": done.returncode, "verdict": "none", "said": done.stderr[-400:], "commented": "",
                "seconds": seconds}  # fmt: skip
    (one,) = json.loads(check.read_text())["checks"]
    commented = next(
        (word for word in ("regressed", "broken", "nothing proven", "passed") if f"**{word}**" in comment), ""
    )
    shutil.rmtree(project / "lynxbench-ci")
    return {"kind": kind, "code": done.returncode, "verdict": one["verdict"], "said": one["said"],
            "commented": commented, "seconds": seconds}  # fmt: skip


def summary(rows: list[dict[str, Any]], wanted: dict[str, int]) -> dict[str, Any]:
    """Counts by kind, and whether the bars hold: of as many branches as were wanted."""
    equal, slower = ([row for row in rows if row["kind"] == kind] for kind in ("equal", "slower"))
    stopped = [row for row in equal if row["code"] != 0]
    found = [row for row in slower if row["code"] == 1 and row["commented"] == "regressed"]
    return {
        "equal": dict(Counter(row["verdict"] for row in equal)),
        "slower": dict(Counter(row["verdict"] for row in slower)),
        "equal_stopped": len(stopped),
        "slower_found": len(found),
        "seconds": sorted(row["seconds"] for row in rows)[len(rows) // 2] if rows else 0.0,
        "holds": not stopped and len(found) == wanted["slower"] and len(equal) == wanted["equal"],
    }


def text_of(document: dict[str, Any]) -> str:
    """For people."""
    equal, slower = sum(document["equal"].values()), sum(document["slower"].values())
    return "\n".join(
        [
            f"equal branches: {document['equal_stopped']} of {equal} stopped; {document['equal']}",
            f"5 % slower: {document['slower_found']} of {slower} stopped with 1 and commented; {document['slower']}",
            f"a branch took {document['seconds']:.0f} s (median); bars {'hold' if document['holds'] else 'MISSED'}",
        ]
    )


def _git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", *WHO, *words], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
