"""Two results from disk or ledger into one comparison: contracts rule on keys, samples give each process."""

from pathlib import Path

import numpy as np

from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.pair import BetweenSittings, ComparedPair, ComparedSide, LatencyRuns
from lynxbench.contract.diff import compare_contracts
from lynxbench.errors import BadResult
from lynxbench.evidence.documents import check_samples
from lynxbench.evidence.sample_file import read_samples
from lynxbench.model.comparison import Comparison, ContractDifference
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess
from lynxbench.model.standing import Standing
from lynxbench.report.drawn_series import counted_ms

PERCENTILES = (50.0, 99.0)
FEWEST_BEYOND = 5
"""Samples beyond a percentile that a process must have before its own percentile says anything."""


def contract_differences(a: Result, b: Result) -> tuple[ContractDifference, ...]:
    """How the two contracts differ, and what that breaks."""
    if a.contract_id == b.contract_id:
        return ()
    return compare_contracts(a.contract, b.contract).differences


def side_of(
    result: Result, *, folder: Path | None = None, standing: Standing | None = None, name: str = ""
) -> ComparedSide:
    """One side with everything that is known: its standing, and each process's latencies where samples are there."""
    return ComparedSide(result, name, standing, _latency_runs(result, folder))


def compare_sides(
    a: ComparedSide,
    b: ComparedSide,
    precision: Precision | None = None,
    between: BetweenSittings | None = None,
    order: tuple[str, ...] = (),
) -> Comparison:
    """B against A; `between` says what is known of how sittings differ, where they are of two; `order` is of pairs."""
    return compare_pair(ComparedPair(a, b, contract_differences(a.result, b.result), between, order), precision)


def _latency_runs(result: Result, folder: Path | None) -> LatencyRuns:
    """Percentiles by process; without samples there are none, and latencies then carry no verdict."""
    if folder is None:
        return {}
    try:
        processes = read_samples(check_samples(result, folder))
    except BadResult:
        return {}
    objective = {(slo.metric.value, slo.percentile) for slo in result.contract.objective.slo}
    latencies: dict[Precision, dict[tuple[str, float], tuple[float, ...]]] = {}
    for part in result.per_precision:
        mine = [process for process in processes if process.samples.precision == part.precision.value]
        keys = {(metric, p) for metric in part.latency_ms for p in PERCENTILES} | objective
        runs = {key: _each(mine, *key, served=part.load is not None) for key in keys if key[0] in part.latency_ms}
        latencies[part.precision] = {key: values for key, values in runs.items() if values}
    return latencies


def _each(processes: list[CountedProcess], metric: str, percentile: float, *, served: bool) -> tuple[float, ...]:
    values = []
    for process in processes:
        counted = counted_ms(process, metric, served=served)
        if counted.size * (1 - percentile / 100) < FEWEST_BEYOND:
            return ()
        values.append(float(np.percentile(counted, percentile)))
    return tuple(values)
