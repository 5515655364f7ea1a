"""`lynxbench compare --run`: two contracts measured now, restart by restart in pairs, and held against each other."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lynxbench.cli.analysis_records import AnalysisRecords
from lynxbench.cli.experiment_progress import VisitProgress
from lynxbench.cli.terminal import tell
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput
from lynxbench.executor.declaration import read_declaration
from lynxbench.experiment.experiment_run import ENVIRONMENTS
from lynxbench.experiment.pairing import run_paired
from lynxbench.experiment.visiting import Setting, Visits
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison
from lynxbench.model.precision import Precision
from lynxbench.record.comparing_results import compare_sides, side_of


def compare_in_pairs(
    a: str,
    b: str,
    precision: Precision | None,
    env_b: Sequence[str],
    lock_b: str | None,
    out: Path,
    declare: Path | None,
    ledger: str | None,
) -> Comparison:
    """Measure both in one sitting; each leaves a result of its own."""
    first = Setting(read_contract(a))
    second = Setting(read_contract(b), environment=_variables(env_b), lock=lock_b)
    declaration = read_declaration(declare) if declare else None
    records = AnalysisRecords(ledger)
    visits = Visits(out, out / ENVIRONMENTS, Path(), declaration, records)
    pairs = first.contract.protocol.restarts
    paired = run_paired(
        first,
        second,
        visits,
        VisitProgress(),
        np.random.default_rng(),
        lambda pair, halves: tell(f"  pair {pair + 1}/{pairs}: {halves}"),
    )
    records.tell_news()
    for name, finished in (("A", paired.a), ("B", paired.b)):
        tell(f"{name}: {short(finished.result.result_id)} in {finished.folder}")
    sides = [side_of(finished.result, folder=finished.folder) for finished in (paired.a, paired.b)]
    return compare_sides(sides[0], sides[1], precision, order=paired.order)


def _variables(pairs: Sequence[str]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadInput(f"--env-b {pair!r}: write NAME=VALUE")
        variables[name] = value
    return variables
