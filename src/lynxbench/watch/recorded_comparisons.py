"""Recorded results held against one another: the rules of `compare`, and what the server found of their figures."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lynxbench.compare.pair import ComparedSide
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.result_standings import standings
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison
from lynxbench.model.precision import Precision
from lynxbench.record.comparing_results import compare_sides, side_of
from lynxbench.record.known_sittings import between_sittings
from lynxbench.record.recalling import lay_out, result_document
from lynxbench.watch.recomputations import Recomputations, RecomputationState


def compare_recorded(
    ledger: OpenLedger,
    recomputations: Recomputations,
    names: Sequence[str],
    trust: TrustList,
    precision: Precision | None = None,
) -> dict[tuple[str, str], Comparison]:
    """Every result held against each that is named before it, with its samples where they are at hand.

    Each is laid out once, however many it is held against.
    """
    known = standings(ledger.log, names, trust)
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        sides: list[ComparedSide] = []
        for place, name in enumerate(names):
            folder: Path | None = Path(temporary) / str(place)
            assert folder is not None
            try:
                lay_out(ledger, name, folder)
            except LynxbenchError:  # an entry without samples still has its figures
                folder = None
            side = side_of(result_document(ledger, name), folder=folder, standing=known[name], name=short(name))
            sides.append(_with_objection(side, recomputations))
        return {
            (names[i], names[j]): compare_sides(a, b, precision, between_sittings(a.result, b.result, ledger, trust))
            for j, b in enumerate(sides)
            for i, a in enumerate(sides[:j])
        }


def _with_objection(side: ComparedSide, recomputations: Recomputations) -> ComparedSide:
    outcome = recomputations.objection(side.result.result_id)
    if outcome is None:
        return side
    if outcome.state is RecomputationState.REFUTED:
        return replace(side, refuted=outcome.sentence)
    return replace(side, not_recomputed=outcome.sentence)
