"""What-if ranges of software fixes against measured speed-ups, on labelled traces.

    python benchmarks/whatif_truth.py FOLDER        (a folder with truth.json and the traces it names)

Each case with a measured fix is asked twice: for the bottleneck that the attribution finds, and for the category that
the label names. Exit 1 where fewer than 80 % of the ranges contain the measured speed-up, in either way of asking.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.roofline import DEVICES
from lynxbench.decide.whatif import estimate_fix
from lynxbench.model.attribution import Category
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

NEEDED = 0.8


def main() -> int:
    """Print the table and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    cases = [case for case in json.loads((folder / "truth.json").read_text())["cases"] if case["speedup"]]
    inside = [0, 0]
    for case in cases:
        attribution = attribute_trace(
            folder / f"{case['case']}.json.gz",
            ceilings=DEVICES["h200"],
            precision=Precision.FP32 if case["case"].startswith("fp32") else Precision.BF16,
            unprofiled_step_ms=case["step_ms"],
            owner=DEFAULT_OWNERS.__getitem__,
        )
        line = f"{case['case']:22}measured {case['speedup']:6.2f}x"
        for way, category in enumerate((None, Category(case["bottleneck"]))):
            gain = estimate_fix(attribution, category).gain
            held = gain.low <= case["speedup"] <= gain.high
            inside[way] += held
            name = "found" if category is None else "named"
            line += f"   {name} {gain.low:5.2f} to {gain.high:5.2f}x {'in' if held else 'OUT'}"
        sys.stdout.write(line + "\n")
    sys.stdout.write(
        f"{inside[0]} of {len(cases)} ranges of the bottleneck found, {inside[1]} of {len(cases)} of the one named, "
        "contain the measured speed-up\n"
    )
    return 0 if min(inside) >= NEEDED * len(cases) else 1


if __name__ == "__main__":
    raise SystemExit(main())
