"""Steady-state verdicts on series whose truth is known, on a growing run, on short ones, and on a recorded one.

python benchmarks/steady_truth.py [--repetitions 400] [--json]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from lynxbench.measure.foreign_series import direction_of, judge_group, read_series
from lynxbench.stats.steady import SteadyJudgement, SteadyVerdict, judge_steady

POINTS = 600
LOOKS = (75, 150, 300, 600)  # geometric checkpoints of a run that is extended while inconclusive
NEVER_STEADY = ("drift 2 %", "drift 4 %", "step 5 % at 80 %", "thermal -5 % tau 400")
BOUND = 0.01
DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "sustained" / "iterations.csv"


def truth(points: int = POINTS) -> dict[str, np.ndarray]:
    """The levels of the truth table, without noise."""
    t = np.arange(points) * POINTS / points
    return {
        "flat": np.ones(points),
        "warm-up +10 % tau 30": 1 + 0.10 * np.exp(-t / 30),
        "thermal -3 % tau 100": 1 - 0.03 * (1 - np.exp(-t / 100)),
        "drift 2 %": 1 + 0.02 * t / POINTS,
        "drift 4 %": 1 + 0.04 * t / POINTS,
        "step 5 % at 80 %": 1 + 0.05 * (t >= 0.8 * POINTS),
        "thermal -5 % tau 400": 1 - 0.05 * (1 - np.exp(-t / 400)),
        "cycle 3 % period 60": 1 + 0.03 * ((t // 30) % 2),
        "step 5 % at 95 %": 1 + 0.05 * (t >= 0.95 * POINTS),
        "excursion 3 % in the middle": 1 + 0.03 * ((t >= 200) & (t < 400)),
    }


def noise(rng: np.random.Generator, points: int, phi: float, sigma: float) -> np.ndarray:
    """AR(1) noise with marginal deviation sigma."""
    shocks = rng.standard_normal(points + 200) * sigma * np.sqrt(1 - phi**2)
    return np.asarray(lfilter([1.0], [1.0, -phi], shocks)[200:])


def remaining_change(level: np.ndarray, judgement: SteadyJudgement) -> float:
    """What the true level still does from the first counted point to the last."""
    return float(abs(level[-1] - level[judgement.truncate]) / level[-1])


def run_table(repetitions: int, seed: int, phi: float, sigma: float) -> dict[str, dict[str, float]]:
    """Shares of verdicts by case, and how often `steady` was said although the counted level still changes by more."""
    table = {}
    for name, level in truth().items():
        rng = np.random.default_rng(seed)
        counts: Counter[str] = Counter()
        false = 0
        for _ in range(repetitions):
            judged = judge_steady(level * (1 + noise(rng, level.size, phi, sigma)))
            counts[f"{judged.verdict} {judged.reason}".strip()] += 1
            if judged.verdict is SteadyVerdict.STEADY and "cycle" not in name:
                false += name in NEVER_STEADY or remaining_change(level, judged) > BOUND
        table[name] = {**{k: v / repetitions for k, v in counts.most_common()}, "FALSE steady": false / repetitions}
    return table


def run_looks(repetitions: int, seed: int) -> dict[str, dict[str, float]]:
    """Steady at any of four looks, by how the looks are paid for."""
    ways: dict[str, dict[str, int]] = {
        "unadjusted": {},
        "looks=4": {"looks": len(LOOKS)},
        "horizon=600": {"horizon": POINTS},
        "looks=4 horizon=600": {"looks": len(LOOKS), "horizon": POINTS},
    }
    table: dict[str, dict[str, float]] = {}
    for name in ("flat", *NEVER_STEADY):
        level = truth()[name]
        rng = np.random.default_rng(seed)
        series = [level * (1 + noise(rng, POINTS, 0.5, 0.01)) for _ in range(repetitions)]
        table[name] = {
            way: sum(any(judge_steady(x[:n], **kw).verdict is SteadyVerdict.STEADY for n in LOOKS) for x in series)
            / repetitions
            for way, kw in ways.items()
        }
    return table


def run_short(repetitions: int, seed: int) -> dict[str, dict[str, float]]:
    """Few points, a bound of ±5 %, white noise of 1 %; and 600 points with five spikes of 5×."""
    table: dict[str, dict[str, float]] = {}
    for points in (12, 20, 30):
        t = np.arange(points) / points
        for name, level in {
            "flat": np.ones(points),
            "drift 10 %": 1 + 0.1 * t,
            "step 10 % at 75 %": 1 + 0.1 * (t >= 0.75),
        }.items():
            rng = np.random.default_rng(seed)
            steady = sum(
                judge_steady(level * (1 + 0.01 * rng.standard_normal(points)), drift_bound=0.05).verdict
                is SteadyVerdict.STEADY
                for _ in range(repetitions)
            )
            table[f"{points} points, {name}"] = {"steady": steady / repetitions}
    for name in ("flat", "drift 2 %", "step 5 % at 80 %"):
        rng = np.random.default_rng(seed)
        steady = 0
        for _ in range(repetitions):
            x = truth()[name] * (1 + noise(rng, POINTS, 0.5, 0.01))
            x[rng.integers(0, POINTS, 5)] *= 5
            steady += judge_steady(x).verdict is SteadyVerdict.STEADY
        table[f"five 5x spikes, {name}"] = {"steady": steady / repetitions}
    return table


def run_real() -> dict[str, dict[str, object]]:
    """The recorded H200 series: a power cap after the first tenth of a second."""
    series = read_series(DATA)
    out: dict[str, dict[str, object]] = {}
    for group in series.groups:
        found = judge_group(group, higher_is_better=direction_of(series.column))
        out[group.label] = {
            "verdict": str(found.judgement.verdict),
            "left out": f"{found.truncate_s:.1f} s",
            "sustained ms": round(found.judgement.level.estimate, 4),
            "burst ms": round(found.burst.mean, 4) if found.burst else None,
            "sustained under burst": round(found.under_burst, 4),
        }
    return out


def main() -> None:
    """Run all parts and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    n, seed = options.repetitions, options.seed
    report: dict[str, object] = {
        "truth table (phi .5, sigma 1 % marginal)": run_table(n, seed, 0.5, 0.01),
        "truth table (phi .5, innovations of 1 %)": run_table(n, seed + 1, 0.5, 0.01 / np.sqrt(0.75)),
        "steady at any of the looks 75, 150, 300, 600": run_looks(n, seed + 2),
        "short series and outliers": run_short(n, seed + 3),
        "H200, recorded": run_real(),
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for title, table in report.items():
        print(f"\n{title}")
        assert isinstance(table, dict)
        for case, row in table.items():
            shown = ", ".join(f"{k} {v:.1%}" if isinstance(v, float) and v <= 1 else f"{k} {v}" for k, v in row.items())
            print(f"  {case:<32} {shown}")


if __name__ == "__main__":
    main()
