"""The labelled traces, one line each: the bottleneck named, and the predicted gain over the measured one.

    python benchmarks/trace_truth.py FOLDER        (a folder with truth.json and the traces it names)

Exit 1 where a case without a `weak` label gets its bottleneck wrong, where fewer than 80 % of the predicted gains lie
within a factor 1.5 of the measured one, or where one exceeds it by more than 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.roofline import DEVICES
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

NEAR, NEEDED, MOST = 1.5, 0.8, 2.0


def judge(folder: Path, case: dict[str, Any]) -> tuple[bool, float | None, str]:
    """Whether the bottleneck is right, predicted over measured gain, and the sentence."""
    attribution = attribute_trace(
        folder / f"{case['case']}.json.gz",
        ceilings=DEVICES["h200"],
        precision=Precision.FP32 if case["case"].startswith("fp32") else Precision.BF16,
        unprofiled_step_ms=case["step_ms"],
        owner=DEFAULT_OWNERS.__getitem__,
    )
    right = attribution.bottleneck in case.get("accepted", [case["bottleneck"]])
    ratio = attribution.gain_if_removed.estimate / case["speedup"] if case["speedup"] else None
    return right, ratio, attribution.sentence


def main() -> int:
    """Print the table and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    cases = json.loads((folder / "truth.json").read_text())
    cases = cases["cases"] if isinstance(cases, dict) else cases
    right = 0
    ratios = []
    for case in cases:
        good, ratio, sentence = judge(folder, case)
        right += good
        ratios += [ratio] if ratio is not None else []
        shown = f"{ratio:.2f}x" if ratio is not None else "–"
        sys.stdout.write(f"{'right' if good else 'WRONG':6}{case['case']:22}{shown:>7}  {sentence}\n")
    near = sum(1 / NEAR <= ratio <= NEAR for ratio in ratios)
    sys.stdout.write(
        f"{right} of {len(cases)} bottlenecks; {near} of {len(ratios)} gains within {NEAR}x of the measured one, "
        f"the largest {max(ratios, default=0.0):.2f}x\n"
    )
    sound = right == len(cases) and near >= NEEDED * len(ratios) and max(ratios, default=0.0) <= MOST
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
