"""Estimated against true gains of recorded cases, and the range that they calibrate; checked on cases left out.

    python benchmarks/gain_calibration.py [--traces FOLDER] [--live ARCHIVE ...] [--half A|B] [--write FILE]

FOLDER holds truth.json with the traces it names; an ARCHIVE is what gpu_live.py kept. Half of the archives' cases, every
other one by name, calibrate (A) and the others check (B): prints each case, how many lie in a range calibrated on all
others (leave one out), and how many of the half that was not used lie in the range of the one that was. --write puts
the cases that calibrate where the program reads them. Exit 1 where fewer than 85 % of the left-out half lie inside.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.gain_range import calibrate, error_of
from lynxbench.attribute.judge.roofline import DEVICES
from lynxbench.model.attribution import Attribution, Bound, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

INSIDE = 0.85
HEAD = "# Recorded cases: the gain estimated from the trace, and what the fix gained without a profiler.\n"
HEAD += "# Written by benchmarks/gain_calibration.py; cases that check the range are not among them.\n"


@dataclass(frozen=True)
class Recorded:
    """One case: what was said of its trace, and what its fix gained."""

    name: str
    said: Attribution
    true: float
    live: bool

    @property
    def error(self) -> float:
        """How far the estimate lay from the truth."""
        return error_of(self.said.gain_if_removed.estimate, self.true)


def labelled(folder: Path) -> Iterator[Recorded]:
    """Labelled traces with a measured fix."""
    for case in json.loads((folder / "truth.json").read_text())["cases"]:
        if case["speedup"] is None:
            continue
        wide = case["case"].startswith("fp32")
        said = attribute_trace(
            folder / f"{case['case']}.json.gz",
            ceilings=DEVICES["h200"],
            precision=Precision.FP32 if wide else Precision.BF16,
            unprofiled_step_ms=case["step_ms"],
            owner=DEFAULT_OWNERS.__getitem__,
        )
        yield Recorded(case["case"], said, case["speedup"], live=False)


def kept(archive: Path) -> Iterator[Recorded]:
    """The cases of a live benchmark's archive, judged again by the rules of today."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        for found in sorted(Path(folder).glob("*/found.json")):
            document: dict[str, Any] = json.loads(found.read_text())
            earlier = document["found"]["attribution"]
            said = attribute_trace(
                found.parent / "trace.columns",
                ceilings=tuple(Ceiling.model_validate_json(json.dumps(one)) for one in earlier["ceilings"]),
                precision=Precision(document["found"]["precision"]),
                unprofiled_step_ms=earlier["unprofiled_ms_per_step"],
                owner=DEFAULT_OWNERS.__getitem__,
            )
            yield Recorded(found.parent.name, said, document["truth"]["gain"], live=True)


def held_without_each(cases: list[Recorded]) -> int:
    """How many lie in the range that all others calibrate."""
    held = 0
    for case in cases:
        low, high = calibrate([other.error for other in cases if other is not case])
        held += low <= case.error <= high
    return held


def main() -> int:
    """Print the cases and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--live", type=Path, nargs="+", default=[])
    parser.add_argument("--half", choices=["A", "B"], default="A", help="the half of the archives that calibrates")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    everything = [*(labelled(options.traces) if options.traces else ())]
    live = sorted((case for archive in options.live for case in kept(archive)), key=lambda case: case.name)
    everything += live
    for case in everything:
        gain, said = case.said.gain_if_removed, case.said
        inside = "" if gain.low <= case.true <= gain.high else " OUTSIDE"
        print(
            f"{case.name:20} {said.bound:12} {said.bottleneck:16} {gain.estimate:7.2f} [{gain.low:.2f}, {gain.high:.2f}] "
            f"true {case.true:7.2f} error {case.error:+.2f}{inside}"
        )
    usable = [case for case in everything if case.said.bound is Bound.SOFTWARE]
    half = {case.name for case in live[0 if options.half == "A" else 1 :: 2]}
    used = [case for case in usable if not case.live or case.name in half]
    aside = [case for case in usable if case.live and case.name not in half]
    low, high = calibrate([case.error for case in used])
    within = sum(low <= case.error <= high for case in aside)
    print(f"{held_without_each(used)} of {len(used)} in the range of all others; errors from {low:+.2f} to {high:+.2f}")
    print(f"{within} of {len(aside)} that were left out lie in it")
    if options.write is not None:
        lines = [
            f"{case.name} = {{estimated = {case.said.gain_if_removed.estimate:.4g}, true = {case.true:.4g}}}\n"
            for case in used
        ]
        options.write.write_text(HEAD + "".join(lines))
    return 0 if within >= INSIDE * len(aside) else 1


if __name__ == "__main__":
    sys.exit(main())
