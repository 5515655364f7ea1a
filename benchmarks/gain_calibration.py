"""Estimated against true gains of recorded cases, and the range that they calibrate; checked on cases left out.

    python benchmarks/gain_calibration.py [--traces FOLDER] [--pairs FILE ...] [--live ARCHIVE ...] [--recorded EDITION]
                                          [--write]

FOLDER holds truth.json with the traces it names; a FILE holds pairs of which no trace was kept, an ARCHIVE what
gpu_live.py kept. --recorded takes the cases that calibrate an earlier edition as they stand there, where their traces
are not at hand: estimated by that edition, and all of them among those that calibrate. Half of the archives' cases,
every other one by name, calibrate (A) and the others check (B): prints each case, how many lie in a range calibrated on
all others (leave one out), and how many of the half that was not used lie in the range of the one that was; cases of
two level causes are a group of their own. --write puts the cases that calibrate where the program reads them, under
today's edition of the rules. Exit 1 where fewer than 85 % of the left-out half lie inside.
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
from statistics import median
from typing import Any

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.causes import BOTH_LEVEL
from lynxbench.attribute.judge.gain_range import calibrate, error_of, predict_range, recorded
from lynxbench.attribute.judge.roofline import DEVICES
from lynxbench.model.attribution import Attribution, Bound, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES

INSIDE = 0.85
ROUNDING = 1e-9
TABLE = Path(__file__).parent.parent / "src/lynxbench/attribute/judge/gain_cases.toml"


@dataclass(frozen=True)
class Recorded:
    """One case: what was said of its trace, and what its fix gained."""

    name: str
    said: Attribution | None
    """None where only figures were kept."""
    estimated: float
    true: float
    live: bool
    kept_error: float | None = None
    """As an earlier edition recorded it."""

    @property
    def level(self) -> bool:
        """Whether two causes were level."""
        return self.said is not None and self.said.next_step in [cause.next_step for cause in BOTH_LEVEL.values()]

    @property
    def error(self) -> float:
        """How far the estimate lay from the truth, beyond what the verdict's own bound allows for."""
        if self.kept_error is not None:
            return self.kept_error
        if self.said is not None and not self.level and self.estimated < self.true <= self.said.gain_if_removed.high:
            own = self.said.gain_if_removed.high > predict_range(self.estimated).high * (1.0 + ROUNDING)
            if own:
                return 0.0
        return error_of(self.estimated, self.true)

    @property
    def line(self) -> str:
        """The case in a line."""
        text = f"{self.name:20} estimated {self.estimated:7.2f} true {self.true:7.2f} error {self.error:+.2f}"
        if self.said is None:
            return text
        gain = self.said.gain_if_removed
        outside = "" if gain.low <= self.true <= gain.high else " OUTSIDE"
        return f"{text} | {self.said.bound} {self.said.bottleneck} [{gain.low:.2f}, {gain.high:.2f}]{outside}"


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
        yield Recorded(case["case"], said, said.gain_if_removed.estimate, case["speedup"], live=False)


def kept(archive: Path) -> Iterator[Recorded]:
    """The cases of a live benchmark's archive, judged again by the rules of today."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        for found in sorted(Path(folder).glob("*/found.json")):
            if not (found.parent / "trace.columns").exists():
                continue  # judged by accounts: nothing there to judge again
            document: dict[str, Any] = json.loads(found.read_text())
            earlier = document["found"]["attribution"]
            said = attribute_trace(
                found.parent / "trace.columns",
                ceilings=tuple(Ceiling.model_validate_json(json.dumps(one)) for one in earlier["ceilings"]),
                precision=Precision(document["found"]["precision"]),
                unprofiled_step_ms=earlier["unprofiled_ms_per_step"],
                owner=DEFAULT_OWNERS.__getitem__,
            )
            gain = earlier["unprofiled_ms_per_step"] / document["truth"]["fixed_ms"]
            yield Recorded(found.parent.name, said, said.gain_if_removed.estimate, gain, live=True)


def held_without_each(cases: list[Recorded]) -> int:
    """How many lie in the range that all others of their group calibrate."""
    held = 0
    for case in cases:
        others = [other.error for other in cases if other is not case and other.level is case.level]
        low, high = calibrate(others) if others else (0.0, 0.0)
        held += low <= case.error <= high
    return held


def main() -> int:
    """Print the cases and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--pairs", type=Path, nargs="+", default=[])
    parser.add_argument("--live", type=Path, nargs="+", default=[])
    parser.add_argument("--recorded", type=int, help="an edition whose cases stand for traces that are not at hand")
    parser.add_argument("--half", choices=["A", "B"], default="A", help="the half of the archives that calibrates")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    everything = [*(labelled(options.traces) if options.traces else ())]
    live = sorted((case for archive in options.live for case in kept(archive)), key=lambda case: case.name)
    pairs = {name: one for file in options.pairs for name, one in json.loads(file.read_text()).items()}
    everything += [Recorded(name, None, one["estimated"], one["true"], live=False) for name, one in pairs.items()]
    named = {case.name for case in (*everything, *live)}
    if options.recorded is not None:
        everything += [
            Recorded(name, None, one["estimated"], one["true"], live=False, kept_error=one["error"])
            for name, one in recorded(options.recorded).items()
            if name not in named
        ]
    everything += live
    for case in everything:
        print(case.line)
    widths = [case.said.gain_if_removed.high / case.said.gain_if_removed.low for case in live if case.said is not None]
    print(f"ranges of the archives' cases as printed: {median(widths):.2f}x wide in the median" if widths else "")
    usable = [case for case in everything if case.said is None or case.said.bound is Bound.SOFTWARE]
    half = {case.name for case in live[0 if options.half == "A" else 1 :: 2]}
    used = [case for case in usable if not case.live or case.name in half]
    aside = [case for case in usable if case.live and case.name not in half]
    within = 0
    for level, words in ((False, "clear causes"), (True, "level causes")):
        group, others = ([case for case in some if case.level is level] for some in (used, aside))
        if not group:
            continue
        low, high = calibrate([case.error for case in group])
        within += (inside := sum(low <= case.error <= high for case in others))
        print(f"{words}: {held_without_each(group)} of {len(group)} in the range of all others; ", end="")
        print(f"errors from {low:+.2f} to {high:+.2f}; {inside} of {len(others)} that were left out lie in it")
    if options.write:
        lines = [
            f"{case.name} = {{estimated = {case.estimated:.4g}, true = {case.true:.4g}, error = {case.error:.3f}"
            f"{', level = true' if case.level else ''}}}"
            for case in used
        ]
        section = f"\n[edition_{RULES}]\n"
        TABLE.write_text(TABLE.read_text().partition(section)[0] + section + "\n".join(lines) + "\n")
    return 0 if within >= INSIDE * len(aside) else 1


if __name__ == "__main__":
    sys.exit(main())
