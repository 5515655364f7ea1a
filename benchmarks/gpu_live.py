"""Causes planted in functions as users write them, run by `lynxbench run` on a GPU: what it names, what a fix gains.

    python benchmarks/gpu_live.py [--set unseen|further|later|fifth|sixth|seventh|eighth|ninth] [--first 20]
        [--case NAME ...] [--seconds 2] [--within 300] [--out DIR]

Each case of gpu_live_cases.py and gpu_live_waits.py, with --set those of gpu_live_unseen.py, gpu_live_further.py,
gpu_live_later.py, gpu_live_fifth.py, gpu_live_sixth.py, gpu_live_seventh.py, gpu_live_eighth.py or gpu_live_ninth.py,
is measured through a callable contract with owners of its own. Its fix is timed before and after all runs, in processes
without any profiler; the true gain is the run's own step over the quicker of the two, since a host may be slower for a
while. A verdict is right where bound, bottleneck and layer are among the accepted ones and the owner is the contract's;
no case whose fix gains 1.3× may be called hardware-bound. With --out, the trace's columns and the verdict of every case
are kept in archives beside gpu_live.json. Exit 1 where a bar is missed, 4 without a device.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_eighth import EIGHTH
from gpu_live_fifth import FIFTH
from gpu_live_further import FURTHER
from gpu_live_later import LATER
from gpu_live_ninth import NINTH
from gpu_live_seventh import SEVENTH
from gpu_live_sixth import SIXTH
from gpu_live_unseen import UNSEEN
from gpu_setting import describe, find_device

NEEDED, INSIDE, WIDEST = 0.9, 0.85, 3.0
"""Shares of cases that must be right and of gains that must lie in their range; the median range's high over low."""
SOFTWARE_GAIN = 1.3
RUN_LIMIT_S = 90.0
ARCHIVE_BYTES = 12 << 20
OWNERS = {layer: f"the {layer} team" for layer in ("application", "runtime", "framework", "system", "accelerator")}
CONTRACT = """\
lynxbench: 1
name: {case}
question: What bounds this step?
regime: throughput
owners: {owners}
workload: {{task: callable, model: {{source: callable, target: "{module}:{case}"}}, precisions: [{precision}]}}
engine: {{name: callable}}
protocol: {{restarts: 1, min_duration: {seconds} s, limit: {seconds} s, steady: {{drift: 20 %, window: 100 ms}}}}
"""


def _kernels(bottlenecks: tuple[str, ...], *layers: str) -> Live:
    return Live("gpu_live_cases", bottlenecks, layers)


def _waits(bottleneck: str, *layers: str, also: tuple[str, ...] = ()) -> Live:
    return Live("gpu_live_waits", (bottleneck, *also), layers)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return Live("gpu_live_cases", bottlenecks, ("accelerator",), "hardware", precision)


KNOWN: dict[str, Live] = {
    "doubles": _kernels(COMPUTE, "application", "framework"),
    "singles": _kernels(COMPUTE, "application", "framework"),
    "masked": _kernels(KERNELS, "runtime", "application"),
    "concatenated": _kernels(MEMORY, "application"),
    "repeated": _kernels(MEMORY, "application"),
    "cast": _kernels(KERNELS, "application", "runtime"),
    "unfused": _kernels(MEMORY, "runtime"),
    "items": _waits("synchronization", "application"),
    "logits": _waits("transfer", "application"),
    "built": _waits("input", "application", also=("idle",)),
    "tiny": _waits("launch", "runtime"),
    "emptied": _waits("allocator", "framework", "application"),
    "products": _healthy(COMPUTE),
    "added": _healthy(MEMORY),
    "decoded": _healthy(MEMORY),
    "narrow": _healthy(COMPUTE, "tf32"),
    "written": _kernels(KERNELS, "runtime", "application"),
    "softened": _kernels(MEMORY, "runtime", "application"),
    "onehot": _kernels(KERNELS, "application"),
    "transposed": _kernels(MEMORY, "application", "runtime"),
    "channels": _kernels(KERNELS, "runtime", "application"),
    "odd": _kernels(COMPUTE, "runtime", "application"),
    "cloned": _kernels(MEMORY, "application"),
    "timed": _waits("synchronization", "application"),
    "chosen": _waits("synchronization", "application"),
    "pageable": _waits("transfer", "application"),
    "pinned": _waits("transfer", "application"),
    "drawn": _waits("input", "application", also=("idle", "transfer")),
    "stepped": _waits("launch", "runtime"),
    "gathered": _waits("launch", "runtime"),
    "looped": _waits("launch", "runtime"),
    "decoding": _waits("launch", "runtime"),
}
SETS = {
    "known": KNOWN,
    "unseen": UNSEEN,
    "further": FURTHER,
    "later": LATER,
    "fifth": FIFTH,
    "sixth": SIXTH,
    "seventh": SEVENTH,
    "eighth": EIGHTH,
    "ninth": NINTH,
}
SETS["all"] = KNOWN | UNSEEN | FURTHER | LATER | FIFTH | SIXTH | SEVENTH | EIGHTH | NINTH
CASES = SETS["all"]


# --- what a fix gains, without any profiler ---------------------------------------------------------------------------


def timed_s(steps: tuple[Any, Any], seconds: float) -> tuple[float, float]:
    """The usual time of two steps, in turns, each with a wait at its end as the callable engine takes it."""
    import torch

    for step in steps:
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(2):
        for step, taken in zip(steps, times, strict=True):
            began, least = time.perf_counter(), len(taken) + 3
            while len(taken) < least or time.perf_counter() - began < seconds / 2:
                start = time.perf_counter()
                step()
                torch.cuda.synchronize()
                taken.append(time.perf_counter() - start)
    return median(times[0]), median(times[1])


def measure_truth(cases: list[str], into: Path, *, compiled: bool) -> None:
    """Planted and fixed step of every case; one that fails is left out, with a word."""
    import torch

    known: dict[str, dict[str, float]] = {}
    for case in cases:
        function = getattr(importlib.import_module(CASES[case].module), case)
        try:
            function.setup()
            gc.collect()
            gc.freeze()  # as a run's process does: scans of what imports left behind are nobody's step
            fixed = torch.compile(function.__call__, dynamic=False) if compiled else function.fixed
            planted_s, fixed_s = timed_s((function, fixed), 0.4)
            known[case] = {"planted_ms": planted_s * 1e3, "fixed_ms": fixed_s * 1e3}
            if compiled:
                print(f"{case}: {planted_s * 1e3:.3f} ms, {fixed_s * 1e3:.3f} compiled", flush=True)
        except Exception as error:  # one case must not cost the others
            print(f"FAILED {case}: its fix could not be timed: {error!r}"[:300], flush=True)
        function.__dict__.clear()
        torch.cuda.empty_cache()
        into.write_text(json.dumps(known))


def time_fixes(cases: list[str], folder: Path) -> dict[str, dict[str, float]]:
    """The same in a process of its own, which leaves the device before the runs begin."""
    file = folder / "truth.json"
    command = [sys.executable, __file__, "--truth", str(file), *(word for case in cases for word in ("--case", case))]
    subprocess.run(command, check=False)
    return dict(json.loads(file.read_text())) if file.exists() else {}


# --- what a run says --------------------------------------------------------------------------------------------------


def run_case(case: str, seconds: float, home: Path) -> tuple[dict[str, Any], Path]:
    """The precision's part of the result document, and the folder that the run left."""
    live, out = CASES[case], home / "results" / case
    owners = json.dumps(OWNERS)
    contract = CONTRACT.format(
        case=case, module=live.module, precision=live.precision, seconds=f"{seconds:g}", owners=owners
    )
    (home / "contract.yaml").write_text(contract)
    beside = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    place = {**os.environ, "LYNXBENCH_HOME": str(home / "home"), "LYNXBENCH_CACHE": str(home / "cache")}
    command = [sys.executable, "-m", "lynxbench", "run", "contract.yaml", "--json", "--out", str(out)]
    done = subprocess.run(
        command, cwd=home, env={**place, "PYTHONPATH": beside}, capture_output=True, text=True, check=False,
        timeout=RUN_LIMIT_S,
    )  # fmt: skip
    if not done.stdout.strip():
        raise RuntimeError(done.stderr.strip()[-600:])
    precision = dict(json.loads(done.stdout)["per_precision"][0])
    if precision["attribution"] is None:
        raise RuntimeError(str(precision["attribution_missing"]))
    return precision, out


@dataclass(frozen=True)
class Outcome:
    """One case: whether the cause was named, and how the printed range stands to the true gain."""

    case: str
    named: bool
    wrongly_hardware: bool
    inside: bool
    width: float
    line: str


def true_gain(case: str, found: dict[str, Any], timed: dict[str, float]) -> float:
    """What the fix gains over the step that the verdict is about."""
    return float(found["unprofiled_ms_per_step"]) / timed["fixed_ms"] if CASES[case].bound == "software" else 1.0


def judge(case: str, found: dict[str, Any], gain: float, seconds: float) -> Outcome:
    """The verdict held against what was planted."""
    live, predicted = CASES[case], found["gain_if_removed"]
    low, estimate, high = (predicted[key] for key in ("low", "estimate", "high"))
    named = found["bound"] == live.bound and found["bottleneck"] in live.bottlenecks
    named &= found["layer"] in live.layers and found["owner"] == OWNERS.get(found["layer"])
    inside = low <= gain <= high
    line = (
        f"{'right' if named else 'WRONG'} {case}: {found['bound']} {found['bottleneck']} | {found['layer']}, "
        f"{found['owner']} | gain {estimate:.2f} [{low:.2f}, {high:.2f}], true {gain:.2f}"
        f"{'' if inside else ' OUTSIDE'} | {found['next_step'][:60]} | {found['sentence'][:110]} | {seconds:.0f} s"
    )
    wrongly = found["bound"] == "hardware" and gain >= SOFTWARE_GAIN
    return Outcome(case, named, wrongly, inside, high / low, line)


class Archive:
    """Evidence of the cases in archives of a bounded size."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._parts, self._held = folder, 0, ARCHIVE_BYTES
        self._open: tarfile.TarFile | None = None

    def add(self, case: str, out: Path, precision: dict[str, Any], truth: dict[str, float]) -> None:
        """What the verdict was computed from, what it was, and what is true."""
        if self._folder is None:
            return
        (out / "found.json").write_text(json.dumps({"truth": truth, "found": precision}))
        kept = [*out.rglob("trace.columns"), *out.rglob("resource.json"), out / "found.json"]
        size = sum(path.stat().st_size for path in kept)
        if self._held + size > ARCHIVE_BYTES:
            self.close()
            self._parts, self._held = self._parts + 1, 0
            self._open = tarfile.open(self._folder / f"gpu_live_{self._parts}.tar.gz", "w:gz")  # noqa: SIM115 - closed below
        assert self._open is not None
        for path in kept:
            self._open.add(path, f"{case}/{path.name}")
        self._held += size

    def close(self) -> None:
        """End the archive that is being written."""
        if self._open is not None:
            self._open.close()
            self._open = None


def summarise(outcomes: list[Outcome], missing: list[str], out: Path | None, figures: dict[str, Any]) -> int:
    """The score, and the exit code that follows from it."""
    planted = [one for one in outcomes if CASES[one.case].bound == "software"]
    right, inside = sum(one.named for one in outcomes), sum(one.inside for one in outcomes)
    planted_right, wrongly = sum(one.named for one in planted), sum(one.wrongly_hardware for one in outcomes)
    width = median([one.width for one in outcomes]) if outcomes else 0.0
    print(
        f"{right} of {len(outcomes)} right ({planted_right} of {len(planted)} planted), gain inside in {inside}, "
        f"median range {width:.2f}x wide, hardware-bound wrongly {wrongly}; not run: {', '.join(missing) or 'none'}"
    )
    sound = (
        not missing
        and planted_right >= NEEDED * len(planted)
        and right >= NEEDED * len(outcomes)
        and inside >= INSIDE * len(outcomes)
        and width <= WIDEST
        and not wrongly
    )
    if out is not None:
        score = {"right": right, "inside": inside, "of": len(outcomes), "median_width": width, "pass": sound}
        (out / "gpu_live.json").write_text(json.dumps({**figures, **score, "missing": missing}, indent=1))
    return 0 if sound else 1


def main() -> int:
    """Every case, one line each, and the score."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--set", choices=list(SETS), default="known", help="where no case is named")
    parser.add_argument("--first", type=int, help="only so many of them, in the order of the set")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each case is measured")
    parser.add_argument("--within", type=float, default=float("inf"), help="begin no case after so many seconds")
    parser.add_argument("--out", type=Path, help="keep evidence and figures in this folder")
    parser.add_argument("--truth", type=Path, help="only time the fixes, into this file")
    parser.add_argument("--compiled", action="store_true", help="with --truth: the planted step compiled, as its fix")
    options = parser.parse_args()
    began = time.monotonic()
    device = find_device()
    cases = (options.case or list(SETS[options.set]))[: options.first]
    if options.truth is not None:
        measure_truth(cases, options.truth, compiled=options.compiled)
        return 0
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    measured: list[tuple[str, Path, dict[str, Any], float]] = []
    missing: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        truth = time_fixes(cases, Path(folder))
        print(f"fixes timed after {time.monotonic() - began:.0f} s", flush=True)
        longest = 0.0
        for case in cases:
            start = time.monotonic()
            if case not in truth or start - began + longest > options.within:
                missing.append(case)
                continue
            try:
                precision, out = run_case(case, options.seconds, Path(folder))
            except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"FAILED {case}: {str(error)[-300:]}", flush=True)
                missing.append(case)
                continue
            longest = max(longest, time.monotonic() - start)
            measured.append((case, out, precision, time.monotonic() - start))
            gain = true_gain(case, precision["attribution"], truth[case])
            print("so far:", judge(case, precision["attribution"], gain, measured[-1][3]).line, flush=True)
        for case, timed in time_fixes([case for case, *_ in measured], Path(folder)).items():
            truth[case]["fixed_ms"] = min(timed["fixed_ms"], truth[case]["fixed_ms"])
        outcomes, archive = [], Archive(options.out)
        for case, out, precision, seconds in measured:
            archive.add(case, out, precision, truth[case])
            gain = true_gain(case, precision["attribution"], truth[case])
            outcomes.append(judge(case, precision["attribution"], gain, seconds))
        archive.close()
    lines = [outcome.line for outcome in outcomes]
    print("\n".join(lines), flush=True)
    return summarise(
        outcomes, missing, options.out, {"benchmark": "gpu_live", **describe(device), "truth": truth, "lines": lines}
    )


if __name__ == "__main__":
    sys.exit(main())
