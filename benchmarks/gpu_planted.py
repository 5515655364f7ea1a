"""Ten live bottlenecks on a GPU, each named by its trace and then taken away: verdict, predicted gain, measured gain.

    PYTHONPATH=src python benchmarks/gpu_planted.py [--case NAME] [--seconds 0.8] [--dry]

Each case is measured without a profiler (with telemetry and the device's counters beside it), profiled, attributed by
ceilings measured here, and run again without its cause. A verdict is right where the bottleneck is the planted one; an
intervention agrees where taking it away gains something (a healthy step: where the change gains nothing). Exit 1 under
9 of 10 verdicts or interventions; 4 without a CUDA device. `--dry` runs the steps small on any device, judging nothing.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_setting import describe, find_device, finish

NEEDED = 9
PROFILED_STEPS = 8


def measure(name: str, device: Any, seconds: float, ceilings: dict[str, Any]) -> dict[str, Any]:
    """One case, from its step to its intervention."""
    from gpu_plants import PLANTS, timed_ms
    from lynxbench.attribute.attributing import attribute_trace
    from lynxbench.attribute.judge.unit_activity import measured_side, weigh_activity
    from lynxbench.engines.torch.profiling import profile_steps, write_trace
    from lynxbench.measure.device_activity import device_activity
    from lynxbench.measure.telemetry import TelemetrySampler, read_telemetry
    from lynxbench.model.layers import DEFAULT_OWNERS
    from lynxbench.model.precision import Precision

    plant = PLANTS[name](device, False)
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder) / "telemetry.csv"
        with TelemetrySampler(beside):
            timed_ms(plant.step, device, 0.2)
            start_ns = time.perf_counter_ns()
            plain_ms = timed_ms(plant.step, device, seconds)
            span = (start_ns, time.perf_counter_ns())
        activity = device_activity(read_telemetry(beside), [span])
        trace = write_trace(profile_steps(lambda _: plant.step(), PROFILED_STEPS, device), Path(folder))
        found = attribute_trace(
            trace,
            ceilings=ceilings[plant.precision],
            precision=Precision(plant.precision),
            unprofiled_step_ms=plain_ms,
            owner=DEFAULT_OWNERS.__getitem__,
        )
    found = weigh_activity(found, activity, DEFAULT_OWNERS.__getitem__)
    fixed_ms = timed_ms(plant.fixed, device, seconds)
    again_ms = timed_ms(plant.step, device, seconds / 2)
    gain = min(plain_ms, again_ms) * plant.units / fixed_ms
    right = found.bottleneck.value in plant.accepted
    agrees = gain >= plant.least_gain and (plant.most_gain is None or gain <= plant.most_gain)
    predicted = found.gain_if_removed
    return {
        "right": right,
        "bottleneck": found.bottleneck.value,
        "accepted": list(plant.accepted),
        "bound": found.bound.value,
        "weak": found.weak,
        "sentence": found.sentence,
        "shares": {category.value: round(share, 4) for category, share in found.shares.items()},
        "step_ms": plain_ms,
        "again_ms": again_ms,
        "change": plant.change,
        "changed_ms": fixed_ms,
        "measured_gain": gain,
        "predicted_gain": [predicted.low, predicted.estimate, predicted.high],
        "intervention_agrees": agrees,
        "counters": activity.model_dump() if activity is not None else None,
        "counters_say": side.value if activity is not None and (side := measured_side(activity)) else None,
    }


def measured_ceilings(device: Any) -> dict[str, Any]:
    """Both precisions' ceilings in one list each: mixed steps use both."""
    from lynxbench.engines.torch.ceilings import measure_ceilings
    from lynxbench.engines.torch.device import set_float32_products
    from lynxbench.model.precision import Precision

    all_of_them: list[Any] = []
    for precision in (Precision.FP32, Precision.BF16):
        set_float32_products(device, precision)
        all_of_them += measure_ceilings(precision, device)
    return {"bf16": tuple(all_of_them), "fp32": tuple(all_of_them)}


def dry_run(names: list[str]) -> dict[str, Any]:
    """Every step and its change once, small, on whatever is here."""
    import torch

    from gpu_plants import PLANTS

    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    for name in names:
        plant = PLANTS[name](device, True)
        plant.step()
        plant.fixed()
    return {"benchmark": "gpu_planted", "dry": True, **describe(device), "cases": names, "pass": True}


def main() -> int:
    """Run the cases and print one document."""
    from gpu_plants import PLANTS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=sorted(PLANTS), action="append")
    parser.add_argument("--seconds", type=float, default=0.8, help="of each timed pass")
    parser.add_argument("--dry", action="store_true", help="run the steps small, measure nothing")
    chosen = parser.parse_args()
    names = chosen.case or list(PLANTS)
    if chosen.dry:
        return finish(dry_run(names))
    device = find_device()
    import torch

    began = time.perf_counter()
    ceilings = measured_ceilings(device)
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = measure(name, device, chosen.seconds, ceilings)
        except Exception as error:  # one case that fails must not cost the others their time on the device
            said = (str(error).strip().splitlines() or [""])[0]
            found[name] = {"right": False, "intervention_agrees": False, "error": f"{type(error).__name__}: {said}"}
        torch.set_float32_matmul_precision("highest")
        gc.collect()
        torch.cuda.empty_cache()
    right = sum(one["right"] for one in found.values())
    agree = sum(one["intervention_agrees"] for one in found.values())
    needed = min(NEEDED, len(found))
    document = {
        "benchmark": "gpu_planted",
        **describe(device),
        "right": right,
        "interventions_agree": agree,
        "of": len(found),
        "ceilings": [one.model_dump(mode="json") for one in ceilings["bf16"]],
        "cases": found,
        "seconds": round(time.perf_counter() - began, 1),
        "pass": right >= needed and agree >= needed,
    }
    return finish(document)


if __name__ == "__main__":
    raise SystemExit(main())
