"""Change points against practitioners' annotations, on pure noise, and beside Apache Otava in the same run.

    python benchmarks/changepoints.py [--json] [--otava-python /path/to/an/environment/bin/python]

The annotated series are mozilla/REALISE-Performance (MPL-2.0). A point is true where 3 of the 5 annotators agree
within ±5 revisions; predicted and true points are matched one to one, nearest first.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from lynxbench.stats.changepoints import read_course

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "changepoints" / "mozilla_dev86.json.gz"
TOLERANCE = 5
AGREEING = 3
GRID = {
    "min_t": (4.0, 4.5, 5.0, 5.5, 6.0),
    "min_separation": (0.65, 0.7, 0.75, 0.8),
    "min_of_range": (0.0, 0.04, 0.07),
    "min_segment": (6, 8, 10),
}
OTAVA = """
import json, sys, time
from otava.analysis import compute_change_points
out, spent = [], 0.0
for values in json.load(sys.stdin):
    start = time.process_time()
    found = compute_change_points(values, **json.loads(sys.argv[1]))
    spent += time.process_time() - start
    points = found[0] if isinstance(found, tuple) else found
    out.append([int(p.index) for p in points])
json.dump({"points": out, "ms": 1e3 * spent / max(len(out), 1)}, sys.stdout)
"""


def agreed(annotations: dict[str, list[int]]) -> list[int]:
    """Points that at least AGREEING annotators put within ±TOLERANCE of one place, each annotation used once."""
    marks = [(index, who) for who, indices in annotations.items() for index in indices]
    found = []
    while True:
        best: tuple[int, int, int] | None = None
        for centre in sorted({index for index, _ in marks}):
            near = [(index, who) for index, who in marks if abs(index - centre) <= TOLERANCE]
            votes = len({who for _, who in near})
            rank = (-votes, sum(abs(index - centre) for index, _ in near), centre)
            if votes >= AGREEING and (best is None or rank < best):
                best = rank
        if best is None:
            return sorted(found)
        near = [(index, who) for index, who in marks if abs(index - best[2]) <= TOLERANCE]
        found.append(round(float(np.median([index for index, _ in near]))))
        marks = [mark for mark in marks if mark not in near]


def matched(predicted: Sequence[int], true: Sequence[int]) -> int:
    """One-to-one matches within ±TOLERANCE, nearest pairs first."""
    pairs = sorted((abs(p - t), p, t) for p in predicted for t in true if abs(p - t) <= TOLERANCE)
    taken_p: set[int] = set()
    taken_t: set[int] = set()
    for _, p, t in pairs:
        if p not in taken_p and t not in taken_t:
            taken_p.add(p)
            taken_t.add(t)
    return len(taken_p)


def load() -> tuple[list[np.ndarray], list[list[int]]]:
    """Series and their true points."""
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        data = json.load(file)
    return [np.array(d["x"], dtype=float) for d in data.values()], [agreed(d["annotations"]) for d in data.values()]


def counts(points: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> np.ndarray:
    """Matches, predictions and truths of each series."""
    return np.array([(matched(p, t), len(p), len(t)) for p, t in zip(points, true, strict=True)])


def figures(table: np.ndarray) -> dict[str, float]:
    """Precision, recall and F1 over series."""
    hits, said, there = (float(x) for x in table.sum(axis=0))
    return {"precision": hits / max(said, 1), "recall": hits / max(there, 1), "f1": 2 * hits / max(said + there, 1)}


def noise_series(count: int, points: int, phi: float, seed: int) -> list[np.ndarray]:
    """Pure AR(1) noise about 100."""
    rng = np.random.default_rng(seed)
    return [100 + lfilter([1.0], [1.0, -phi], rng.standard_normal(points + 200))[200:] for _ in range(count)]


def cross_validate(series: list[np.ndarray], true: list[list[int]], splits: int) -> dict[str, float]:
    """Choose the constants on a random half, score on the other; and the shipped constants on the same halves."""
    grid = [dict(zip(GRID, cell, strict=True)) for cell in itertools.product(*GRID.values())]
    tables = [counts([[c.index for c in read_course(x, **kw).changes] for x in series], true) for kw in grid]  # type: ignore[arg-type]
    shipped = counts([[c.index for c in read_course(x).changes] for x in series], true)
    tuned, as_shipped = [], []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(series))
        train, test = order[: len(series) // 2], order[len(series) // 2 :]
        best = max(tables, key=lambda table: figures(table[train])["f1"])
        tuned.append(figures(best[test])["f1"])
        as_shipped.append(figures(shipped[test])["f1"])
    every = [figures(table)["f1"] for table in tables]
    return {
        "f1 on the other half, mean": float(np.mean(tuned)),
        "f1 on the other half, sd": float(np.std(tuned)),
        "f1 on the other half, 5th percentile": float(np.percentile(tuned, 5)),
        "f1 of the shipped constants on those halves": float(np.mean(as_shipped)),
        "f1 of the shipped constants, 5th percentile": float(np.percentile(as_shipped, 5)),
        "grid cells": float(len(grid)),
        "f1 over the grid, median": float(np.median(every)),
        "f1 over the grid, worst": float(np.min(every)),
        "f1 over the grid, best": float(np.max(every)),
    }


def run_otava(python: str, series: list[np.ndarray], arguments: dict[str, float]) -> dict[str, object]:
    """The same series through Apache Otava in its own environment."""
    done = subprocess.run(
        [python, "-c", OTAVA, json.dumps(arguments)],
        input=json.dumps([x.tolist() for x in series]),
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise-series", type=int, default=400)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--no-cv", action="store_true")
    parser.add_argument("--otava-python", default="")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    series, true = load()
    read_course(series[0])  # imports
    start = time.process_time()
    found = [[c.index for c in read_course(x).changes] for x in series]
    spent = (time.process_time() - start) / len(series)
    report: dict[str, dict[str, float]] = {
        "lynxbench": {
            **figures(counts(found, true)),
            "CPU ms a series": 1e3 * spent,
            "true points": sum(map(len, true)),
        }
    }
    laws = {f"AR({phi}) of {n}": noise_series(options.noise_series, n, phi, 7) for phi, n in
            ((0.0, 300), (0.3, 300), (0.6, 300), (0.3, 60), (0.3, 1500))}  # fmt: skip
    for name, noise in laws.items():
        flagged = [bool(read_course(x).changes) for x in noise]
        report[f"lynxbench, pure noise {name}"] = {"flagged": float(np.mean(flagged))}
    if options.otava_python:
        for label, arguments in (("defaults", {}), ("max_pvalue 1e-5", {"max_pvalue": 1e-5})):
            answer = run_otava(options.otava_python, series, arguments)
            report[f"otava, {label}"] = {**figures(counts(answer["points"], true)), "CPU ms a series": answer["ms"]}  # type: ignore[arg-type, dict-item]
            noise = laws["AR(0.3) of 300"][:100]
            flagged = run_otava(options.otava_python, noise, arguments)["points"]
            report[f"otava, {label}, pure noise AR(0.3) of 300"] = {
                "flagged": float(np.mean([bool(p) for p in flagged]))
            }  # type: ignore[attr-defined]
    if not options.no_cv:
        report["cross-validation"] = cross_validate(series, true, options.splits)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for name, row in report.items():
        print(f"{name:<48} {', '.join(f'{k} {v:.3f}' for k, v in row.items())}")


if __name__ == "__main__":
    main()
