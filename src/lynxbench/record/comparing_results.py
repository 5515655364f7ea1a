"""Two results from disk or ledger into one comparison: contracts rule on keys, samples give each process."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from lynxbench.compare.comparing import compare_foreign, compare_pair
from lynxbench.compare.pair import BetweenSittings, ComparedPair, ComparedSide, LatencyRuns
from lynxbench.contract.diff import compare_contracts
from lynxbench.errors import BadInput, BadResult
from lynxbench.evidence.documents import check_samples
from lynxbench.evidence.run_folder import ANSWERS_FILE
from lynxbench.evidence.sample_file import read_samples
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison, ContractDifference
from lynxbench.model.entries import ForeignImported
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy, Result
from lynxbench.model.samples import CountedProcess
from lynxbench.model.standing import Standing
from lynxbench.record.formats.foreign_results import read_foreign
from lynxbench.record.known_sittings import known_sittings
from lynxbench.record.recalling import Recalled, recalled
from lynxbench.report.drawn_series import counted_ms, first_share_of

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


def compare_named(
    a: str, b: str, precision: Precision | None, ledger: str | None, environment: Mapping[str, str]
) -> Comparison:
    """Two results that a person named; a foreign one is refused with what it lacks."""
    with ExitStack() as stack:
        first, second = (_foreign(name) or stack.enter_context(recalled(name, ledger, environment)) for name in (a, b))
        if isinstance(first, ForeignImported) or isinstance(second, ForeignImported):
            left, right = (side if isinstance(side, ForeignImported) else side.result for side in (first, second))
            return compare_foreign(left, right, (a, b))
        refuse_one(first.result.result_id, second.result.result_id)
        sides = [side_of(side.result, folder=side.folder, standing=side.standing) for side in (first, second)]
        answers = _answers(first, second)
    between = known_sittings(sides[0].result, sides[1].result, ledger, environment)
    return compare_sides(sides[0], sides[1], precision, between).model_copy(update={"answers": answers})


def refuse_one(a: str, b: str) -> None:
    """BadInput where two ids are of one result: its restarts against themselves are within any budget."""
    if a == b:
        one = f"A and B are one and the same result, {short(a)}"
        raise BadInput(f"{one}: held against itself it shows nothing; name another one (lynxbench results list)")


def _answers(a: Recalled, b: Recalled) -> Accuracy | None:
    """B's kept answers against A's, where both kept some."""
    if not all((side.folder / ANSWERS_FILE).exists() for side in (a, b)):
        return None
    from lynxbench.run.served_accuracy import compare_kept  # what asks servers, and only where answers are

    return compare_kept(a.folder, b.folder, (a.result, b.result))


def _foreign(name: str) -> ForeignImported | None:
    """A foreign result file, where the name is a file that is not a result of ours and that we know."""
    path = Path(name)
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        if b'"lynxbench_version"' in stream.read(4096):
            return None
    try:
        return read_foreign(path)
    except BadInput:
        return None


def _latency_runs(result: Result, folder: Path | None) -> LatencyRuns:
    """Percentiles by process; without samples there are none, and latencies then carry no verdict."""
    if folder is None or result.contract.protocol.duration_s is not None:  # rows of an endurance run are slices
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
        served, share = part.load is not None, first_share_of(part)
        shown = [key for key in keys if key[0] in part.latency_ms]
        runs = {key: _each(mine, *key, served=served, first_share=share) for key in shown}
        latencies[part.precision] = {key: values for key, values in runs.items() if values}
    return latencies


def _each(
    processes: list[CountedProcess], metric: str, percentile: float, *, served: bool, first_share: float
) -> tuple[float, ...]:
    values = []
    for process in processes:
        counted = counted_ms(process, metric, served=served, first_share=first_share)
        if counted.size * (1 - percentile / 100) < FEWEST_BEYOND:
            return ()
        values.append(float(np.percentile(counted, percentile)))
    return tuple(values)
