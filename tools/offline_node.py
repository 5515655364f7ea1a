"""Run lynxbench on a machine that reaches nothing: carry what it lacks, run contracts there, bring the evidence back.

    python tools/offline_node.py pack                          here: wheels for the node into carry/site
    python3 tools/offline_node.py run --out OUT [--within 540] there: contracts one after the other, evidence into OUT
    python tools/offline_node.py unpack OUT --into results/h200   here again: one bundle a result

Needs nothing but Python: the node's own torch, transformers, numpy, scipy, uvloop and nvidia-ml-py are used as
they are. `run` goes on where it stopped when it is called again with the same --state. What it leaves in OUT is a
summary, a log, and one archive in parts of limited size, in one flat folder.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CARRIED = (
    "pydantic",
    "msgspec",
    "psutil",
    "rfc8785",
    "ruamel.yaml",
    "httptools",
    "cryptography",
    "sqlalchemy",
    "alembic",
    "typer",
    "prometheus-client",
)
"""What lynxbench needs beside what machines with PyTorch have; their own dependencies come along."""
LARGEST_SITE_BYTES = 52 << 20
PLAN: dict[str, float] = {
    "llm-decode": 330,
    "llm-decode-weights": 260,
    "llm-prefill": 220,
    "llm-decode-8": 110,
    "stress": 110,
    "llm-decode-64": 110,
    "llm-decode-eager": 200,
    "vision-gpu": 210,
    "training-step-gpu": 210,
    "embedding-gpu": 120,
    "llm-chat": 150,
}
"""The bundled GPU contracts with the seconds each may take, the most telling first."""
EXPERIMENT_LIMIT_S = TUNING_LIMIT_S = 520.0
RESERVE_S = 20.0
"""Kept at the end of the time for packing."""
LEAST_S = 20.0
"""Less than this is not worth a start."""
GRACE_S = 15.0
"""An interrupted run keeps its samples and ends within this."""
PART_BYTES = 15 << 20
MOST_BYTES = 60 << 20
ARCHIVE = "node.tar.gz"
EXPERIMENT, RERUN, TUNING = "experiment", "rerun", "tuning"
"""What a step's name begins with where it is no contract."""
ANALYSES = ("experiments", "tunings")
"""Folders of what is concluded from several results."""
SUMMARY = "summary.json"
LOG = "log.txt"


# --- here: what the node lacks ---------------------------------------------------------------------------------------


def pack(into: Path, python: str, machine: str) -> int:
    """Install the carried packages for the node's Python into a folder; 1 where they are too large."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    pinned = ["--constraint", str(ROOT / "constraints.txt")]
    done = subprocess.run([*_installer(python, machine), *pinned, "--target", str(into), *CARRIED], check=False)
    if done.returncode:
        return done.returncode
    for name in ("__pycache__", "tests", "test", "testing", "bin", ".lock"):
        for found in [*into.rglob(name)]:
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    size = sum(file.stat().st_size for file in into.rglob("*") if file.is_file())
    names = sorted(folder.name.removesuffix(".dist-info") for folder in into.glob("*.dist-info"))
    print(f"{into}: {len(names)} packages, {size / 1e6:.1f} MB: {', '.join(names)}")
    if size > LARGEST_SITE_BYTES:
        print(f"{into}: more than {LARGEST_SITE_BYTES >> 20} MiB; it will not travel", file=sys.stderr)
        return 1
    return 0


def _installer(python: str, machine: str) -> list[str]:
    """pip or uv, whichever is here, told to take binary packages for another machine."""
    binary = ["--only-binary", ":all:"]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        tags = [f"manylinux2014_{machine}", f"manylinux_2_28_{machine}"]
        platforms = [part for tag in tags for part in ("--platform", tag)]
        return [sys.executable, "-m", "pip", "install", "--quiet", *platforms, "--implementation", "cp",
                "--python-version", python, *binary]  # fmt: skip
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise SystemExit("neither pip nor uv is here; install one of them")
    return [uv, "pip", "install", "--quiet", "--python-platform", f"{machine}-manylinux_2_28",
            "--python-version", python, *binary]  # fmt: skip


# --- there: contracts, one after the other --------------------------------------------------------------------------


@dataclass
class Step:
    """One contract, experiment or tuning, or one result to run again, and what became of it."""

    name: str
    limit_s: float
    status: str = "not started"
    seconds: float = 0.0
    code: int | None = None
    result_id: str | None = None
    verdict: str = ""
    figures: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class Node:
    """The run on the node: its folders, its environment, the time it has."""

    def __init__(self, out: Path, state: Path, site: Path, within_s: float) -> None:
        self.out, self.state, self.site = out, state, site
        self.until = time.monotonic() + within_s
        for folder in (out, state / "done", state / "runs", *(state / place for place in ANALYSES)):
            folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(site.resolve())]),
            "PYTHONUNBUFFERED": "1",
            "LYNXBENCH_HOME": str(state / "home"),
            "LYNXBENCH_LEDGER": str(state / "ledger"),
            "LYNXBENCH_CACHE": str(state / "cache"),
        }

    @property
    def left_s(self) -> float:
        """Seconds until packing must begin."""
        return self.until - RESERVE_S - time.monotonic()

    def say(self, text: str) -> None:
        """One line for whoever watches, and for the log."""
        line = f"{time.strftime('%H:%M:%S')} {text}"
        print(line, flush=True)
        self.log(line)

    def log(self, text: str) -> None:
        """A line for the log alone; the file is closed after each, so that nothing is lost with the process."""
        with (self.out / LOG).open("a") as file:
            file.write(text + "\n")

    def lynxbench(self, arguments: Sequence[str], limit_s: float) -> tuple[int | None, str, str]:
        """The program with a limit: interrupted in order, so that its samples are kept; None where it was killed."""
        child = subprocess.Popen(
            [sys.executable, "-m", "lynxbench", *arguments],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            try:
                out, err = child.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                out, err = child.communicate()
                return None, out, err
        return child.returncode, out, err


def run(node: Node, steps: Iterable[Step]) -> int:
    """All steps that the time allows; 1 where one failed, 4 where this machine cannot run them."""
    asked = list(steps)
    finished: list[Step] = []
    for step in asked:
        done = node.state / "done" / f"{_plain(step.name)}.json"
        if done.exists():
            finished.append(Step(**json.loads(done.read_text())))
            node.say(f"{step.name}: done before ({finished[-1].status})")
            continue
        finished.append(step)
        if node.left_s < LEAST_S:
            node.say(f"{step.name}: not started, {max(node.left_s, 0):.0f} s left")
            continue
        carry_out(node, step)
        if step.status in ("measured", "void", "cannot"):
            done.write_text(json.dumps(asdict(step)))
    collect(node, finished)
    if finished and all(step.status == "cannot" for step in finished):
        return 4
    return 0 if all(step.status in ("measured", "not started") for step in finished) else 1


def carry_out(node: Node, step: Step) -> dict[str, Any]:
    """One step within its limit and the node's; the document that it printed, empty where it printed none."""
    marker = node.state / "done" / f"{_plain(step.name)}.interrupted"
    arguments = _arguments(node, step, resume=marker.exists())
    limit_s = min(step.limit_s, node.left_s)
    node.say(f"{step.name}: {'goes on' if marker.exists() else 'starts'}, at most {limit_s:.0f} s")
    began = time.monotonic()
    step.code, out, err = node.lynxbench(arguments, limit_s)
    step.seconds = round(time.monotonic() - began, 1)
    marker.unlink(missing_ok=True)
    # a tuning that proves no gain ends with 1 and is a measurement all the same
    no_gain = "measured" if step.name.startswith(f"{TUNING}:") else "void"
    words = {0: "measured", 1: no_gain, 4: "cannot", 130: "interrupted", None: "killed"}
    step.status = words.get(step.code, "failed")
    if step.code in (130, None):
        marker.touch()
    step.said = err.strip().splitlines()[-3:]
    try:
        document: dict[str, Any] = json.loads(out)
    except ValueError:
        document = {}
    step.result_id = document.get("result_id")
    step.figures = [figure_line(one) for one in document.get("per_precision", [])]
    found = document.get("analysis") or document.get("attribution") or {}
    step.verdict = _gated(step.result_id, err) or str(document.get("verdict") or found.get("sentence") or "")
    node.log(f"--- {step.name}\n{err}")
    shown = step.verdict or (step.said[-1] if step.said else "")
    node.say(f"{step.name}: {step.status} in {step.seconds:.0f} s  {shown}")
    for line in step.figures:
        node.say(f"    {line}")
    return document


def _gated(result_id: str | None, err: str) -> str:
    """What is said beside a result whose evidence blames nobody: the document is sealed and cannot say it."""
    beside = f"lynxbench: {(result_id or '')[:12]}: "
    return next((line.removeprefix(beside) for line in err.splitlines() if line.startswith(beside)), "")


def figure_line(one: dict[str, Any]) -> str:
    """One precision of a result document in one line, for whoever watches."""
    if one.get("skipped"):
        return f"{one['precision']}: skipped: {one['skipped']['reason']}"
    parts = [f"{one['precision']} ({one.get('native')})", _figure(one.get("sustained") or one.get("throughput"))]
    p50 = next((p["estimate"] for p in one.get("latency_ms", {}).get("latency", []) if p["percentile"] == 50), None)
    parts += [f"p50 {p50:.4g} ms"] if p50 else []
    parts += [_figure(one[key]) for key in ("energy_j_per_unit", "energy_j_per_request") if one.get(key)]
    steady, governed, units = one.get("steady") or {}, one.get("governed_by"), one.get("activity")
    parts += [
        str(steady.get("verdict")),
        f"governed by {governed['cause']}" if governed else "governed by nothing seen",
    ]
    if units:
        parts.append(", ".join(f"{name} {units[name]:.0%}" for name in ("sm", "tensor", "dram") if units.get(name)))
    loss = (one.get("accuracy") or {}).get("loss")
    parts += [f"loss {loss:.2%}"] if loss is not None else []
    return f"{parts[0]}: {' · '.join([*parts[1:], one['validity']['verdict']])}"


def _figure(figure: dict[str, Any] | None) -> str:
    if not figure or figure.get("estimate") is None:
        return "no figure"
    low, high = figure.get("low"), figure.get("high")
    bounds = f" [{low:.5g}, {high:.5g}]" if low is not None and high is not None else ""
    return f"{figure['estimate']:.5g}{bounds} {figure['unit']}"


def _arguments(node: Node, step: Step, *, resume: bool) -> list[str]:
    goes_on = ["--resume"] if resume else []
    kind, _, name = step.name.rpartition(":")
    if kind == EXPERIMENT:
        return ["experiment", "run", name, "--out", str(node.state / "experiments"), "--json", *goes_on]
    if kind == TUNING:
        return ["tune", name, "--out", str(node.state / "tunings"), "--json", *goes_on]
    runs = ["--out", str(node.state / "runs"), "--json"]
    return ["rerun", name, "--yes", *runs] if kind == RERUN else ["run", step.name, *runs, *goes_on]


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in name)[-80:]


def import_bundle(node: Node, bundle: Path) -> None:
    """Another call's results into this ledger, so that they can be run again."""
    code, out, err = node.lynxbench(["results", "import", str(bundle)], 60)
    node.say(f"import {bundle.name}: {(out or err).strip().splitlines()[-1] if (out or err).strip() else code}")


# --- there: what comes back -----------------------------------------------------------------------------------------


def collect(node: Node, steps: Sequence[Step]) -> None:
    """Bundles, result documents, telemetry and reports in one archive of parts, and a summary beside it."""
    archive = node.state / ARCHIVE
    left_out: list[str] = []
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        taken = 0
        for name, file in [*_bundles(node), *_readable(node)]:
            if taken + file.stat().st_size > MOST_BYTES:
                left_out.append(f"{name} ({file.stat().st_size / 1e6:.0f} MB)")
                continue
            taken += file.stat().st_size
            tar.add(file, arcname=name, recursive=False)
        summary = {
            "machine": {"python": platform.python_version(), "kernel": platform.release(), "cpus": os.cpu_count()},
            "steps": [asdict(step) for step in steps],
            "left_out": left_out,
        }
        data = json.dumps(summary, indent=1).encode()
        member = tarfile.TarInfo(SUMMARY)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    (node.out / SUMMARY).write_bytes(data)
    for stale in node.out.glob(f"{ARCHIVE}.*"):
        stale.unlink()
    with archive.open("rb") as source:
        for number, part in enumerate(iter(lambda: source.read(PART_BYTES), b"")):
            (node.out / f"{ARCHIVE}.{number:02d}").write_bytes(part)
    node.say(f"{archive.stat().st_size / 1e6:.1f} MB come back; left out: {', '.join(left_out) or 'nothing'}")


def _bundles(node: Node) -> list[tuple[str, Path]]:
    """A signed bundle for each result and each analysis with its results, written in this process to save starts."""
    folder = node.state / "bundles"
    folder.mkdir(exist_ok=True)
    if not (node.state / "ledger").exists():
        return []
    sys.path[:0] = [str(ROOT / "src"), str(node.site.resolve())]
    os.environ.update({name: node.environment[name] for name in ("LYNXBENCH_HOME", "LYNXBENCH_LEDGER")})
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.bundle import export_bundle
    from lynxbench.ledger.queries import Wanted, list_results
    from lynxbench.record.recalling import opened
    from lynxbench.record.recording_analyses import read_analysis

    found = []
    keyring, now = Keyring(), datetime.now(UTC)
    with opened(None, os.environ) as ledger:
        whole = {
            done.name: list(read_analysis(done).body.cites)
            for place in ANALYSES
            for done in sorted((node.state / place).iterdir())
            if (done / "report.html").exists()
        }
        together = {one for cites in whole.values() for one in cites}
        for number, listed in enumerate(list_results(ledger.log, Wanted(limit=100))[::-1]):
            if listed.result_id not in together:
                name = f"{number:02d}-{_plain(listed.contract_name)}-{listed.result_id[:12]}"
                whole[name] = [listed.result_id]
        for name, results in whole.items():
            path = folder / f"{name}.bundle"
            if not path.exists():
                export_bundle(ledger, results, path, keyring.signing_key(now).key, keyring.trust, now)
            found.append((f"bundles/{path.name}", path))
    return found


def _readable(node: Node) -> list[tuple[str, Path]]:
    """What a person reads without a ledger: reports, and what an analysis came to. All else is in the bundles."""
    return [
        (f"reports/{folder.name}.{kind}", folder / file)
        for place in ("runs", *ANALYSES)
        for folder in sorted((node.state / place).iterdir())
        for kind, file in (("html", "report.html"), ("md", "report.md"), ("json", "outcome.json"))
        if (folder / file).exists()
    ]


# --- here again -----------------------------------------------------------------------------------------------------


def unpack(source: Path, into: Path) -> int:
    """Join the parts and lay bundles and reports out; check a bundle with `lynxbench results import` and `verify`."""
    parts = sorted(source.glob(f"{ARCHIVE}.*"))
    if not parts:
        print(f"{source}: no {ARCHIVE} parts here", file=sys.stderr)
        return 2
    into.mkdir(parents=True, exist_ok=True)
    whole = b"".join(part.read_bytes() for part in parts)
    with tarfile.open(fileobj=io.BytesIO(whole), mode="r:gz") as tar:
        tar.extractall(into, filter="data")
    print(f"{into}: {', '.join(sorted(file.name for file in into.rglob('*.bundle'))) or 'no bundles'}")
    return 0


def main() -> int:
    """Parse and do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="wheels for the node")
    packing.add_argument("--into", type=Path, default=ROOT / "carry" / "site")
    packing.add_argument("--python", default="3.12", help="the node's Python")
    packing.add_argument("--machine", default="x86_64", help="the node's architecture")
    running = verbs.add_parser("run", help="contracts on the node")
    running.add_argument("--out", type=Path, required=True, help="what comes back")
    running.add_argument("--state", type=Path, default=ROOT / "carry" / "state", help="kept between calls")
    running.add_argument("--site", type=Path, default=ROOT / "carry" / "site")
    running.add_argument("--within", type=float, default=540, help="seconds for everything")
    running.add_argument("--contract", action="append", help="NAME or NAME=SECONDS; without it, all GPU contracts")
    running.add_argument("--experiment", action="append", default=[], help="NAME or NAME=SECONDS of an experiment")
    running.add_argument("--tune", action="append", default=[], help="FILE or FILE=SECONDS of a contract with knobs")
    running.add_argument("--rerun", action="append", default=[], help="a BUNDLE=RESULT of an earlier call to run again")
    running.add_argument("--rerun-limit", type=float, default=120, help="seconds for each of them")
    unpacking = verbs.add_parser("unpack", help="what came back")
    unpacking.add_argument("source", type=Path)
    unpacking.add_argument("--into", type=Path, default=ROOT / "results" / "h200")
    chosen = parser.parse_args()
    if chosen.verb == "pack":
        return pack(chosen.into, chosen.python, chosen.machine)
    if chosen.verb == "unpack":
        return unpack(chosen.source, chosen.into)
    node = Node(chosen.out, chosen.state, chosen.site, chosen.within)
    steps = []
    for pair in chosen.rerun:
        bundle, _, result = pair.rpartition("=")
        import_bundle(node, Path(bundle))
        steps.append(Step(f"{RERUN}:{result}", chosen.rerun_limit))
    for kind, default_s, wanted in (
        (EXPERIMENT, EXPERIMENT_LIMIT_S, chosen.experiment),
        (TUNING, TUNING_LIMIT_S, chosen.tune),
    ):
        for asked in wanted:
            name, _, limit = asked.partition("=")
            steps.append(Step(f"{kind}:{name}", float(limit) if limit else default_s))
    for asked in chosen.contract or ([] if steps else list(PLAN)):
        name, _, limit = asked.partition("=")
        steps.append(Step(name, float(limit) if limit else PLAN.get(Path(name).stem, 120.0)))
    return run(node, steps)


if __name__ == "__main__":
    raise SystemExit(main())
