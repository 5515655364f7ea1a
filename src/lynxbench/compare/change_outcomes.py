"""The iteration loop: what a change was expected to do against what it did, and how good expectations are. Pure."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple

from lynxbench.compare.suspects import COUNTS
from lynxbench.errors import BadInput, Refused
from lynxbench.model.comparison import Comparison
from lynxbench.model.entries import ChangeDeclared, ChangeMeasured, ChangeVerdict
from lynxbench.model.history import ChangeBook, ChangeRow, ExpectationRecord
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer

_RANGE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(?:×|x)?\s*(?:\.\.|…|–|-)\s*([0-9]*\.?[0-9]+)\s*(?:×|x)?\s*")
LARGEST_FACTOR = 1e6
MARGIN = 0.02
"""Within this of the expected range, or of no change at all, counts as there: what a rerun tolerates, too."""


def parse_expectation(text: str) -> Interval:
    """`1.2..1.5`: throughput after over before, as a range; its middle is geometric."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadInput(f"--expect {text!r}: write a range of throughput after over before, such as 1.2..1.5")
    low, high = float(match.group(1)), float(match.group(2))
    if not 0 < low <= high <= LARGEST_FACTOR:
        raise BadInput(f"--expect {text!r}: the lower bound comes first, and both are above 0")
    return Interval(low, (low * high) ** 0.5, high)


def judge_expectation(expected: Interval, measured: Interval) -> ChangeVerdict:
    """Expected against measured: the whole interval in the range, beyond it, or neither."""
    if not measured.known:
        return ChangeVerdict.INCONCLUSIVE
    low, high = expected.low * (1 - MARGIN), expected.high / (1 - MARGIN)
    if measured.inside(low, high):
        return ChangeVerdict.AS_EXPECTED
    if measured.low > high:
        return ChangeVerdict.MORE
    if measured.high < low:
        nothing = measured.inside(1 - MARGIN, 1 / (1 - MARGIN))
        return ChangeVerdict.NO_EFFECT if nothing else ChangeVerdict.LESS
    return ChangeVerdict.INCONCLUSIVE


def measure_change(declared: ChangeDeclared, comparison: Comparison) -> ChangeMeasured:
    """The entry for a declared change that was measured before and after; an unsound pair is refused."""
    if comparison.refused or comparison.precision is None:
        rules = ", ".join(dict.fromkeys(f"{r.rule} {r.name}" for r in comparison.rules if r.outcome == "breaks"))
        raise Refused(f"before and after are incomparable ({rules}): no effect is given")
    row = next(compared for compared in comparison.per_precision if compared.precision is comparison.precision)
    throughput = next(effect for effect in row.effects if effect.higher_is_better)
    doubtful = any(r.outcome == "doubts" and r.precision in (None, row.precision) for r in comparison.rules)
    return ChangeMeasured(
        change_id=declared.change_id,
        contract_id=declared.contract_id,
        before=comparison.a.result_id,
        after=comparison.b.result_id,
        precision=comparison.precision,
        effect=throughput.ratio,
        verdict=ChangeVerdict.INCONCLUSIVE if doubtful else judge_expectation(declared.expected, throughput.ratio),
        layers_differing=tuple(difference.layer for difference in comparison.layers if difference.weight in COUNTS),
    )


def caution_of(declared_layer: Layer, differing: Sequence[Layer]) -> str:
    """What the record says against the claim that this change did it; empty where nothing does."""
    others = [layer.value for layer in differing if layer is not declared_layer]
    if declared_layer not in differing:
        seen = f"the record shows changes in {', '.join(others)}" if others else "the record shows no change at all"
        return f"layer {declared_layer} did not change in the record: {seen}"
    if others:
        return f"{', '.join(others)} changed with it: the effect cannot be separated from theirs"
    return ""


def keep_book(
    declared: Iterable[ChangeDeclared], measured: Iterable[ChangeMeasured], contract_id: str | None = None
) -> ChangeBook:
    """All changes with what came of them, chained gains, and how often each owner and layer was right."""
    rows = []
    by_change: dict[str, list[ChangeMeasured]] = defaultdict(list)
    for outcome in measured:
        by_change[outcome.change_id].append(outcome)
    for change in declared:
        if contract_id is not None and change.contract_id != contract_id:
            continue
        outcomes = by_change[change.change_id]
        last = outcomes[-1] if outcomes else None
        rows.append(
            ChangeRow(
                change_id=change.change_id,
                contract_id=change.contract_id,
                layer=change.layer,
                owner=change.owner,
                what=change.what,
                expected=change.expected,
                measured=None if last is None else last.effect,
                verdict=None if last is None else last.verdict,
                times_measured=len(outcomes),
                before=None if last is None else last.before,
                after=None if last is None else last.after,
                caution="" if last is None else caution_of(change.layer, last.layers_differing),
            )
        )
    return ChangeBook(
        rows=tuple(rows),
        by_owner=_calibrate(rows, lambda row: row.owner),
        by_layer=_calibrate(rows, lambda row: row.layer.value),
        chains=_chains(rows),
    )


def _calibrate(rows: Sequence[ChangeRow], key: Callable[[ChangeRow], str]) -> tuple[ExpectationRecord, ...]:
    groups: dict[str, list[ChangeRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    records = []
    for name, mine in groups.items():
        verdicts = [row.verdict for row in mine if row.verdict is not None]
        decided = [verdict for verdict in verdicts if verdict is not ChangeVerdict.INCONCLUSIVE]
        records.append(
            ExpectationRecord(
                name=name,
                declared=len(mine),
                measured=len(verdicts),
                decided=len(decided),
                as_expected=decided.count(ChangeVerdict.AS_EXPECTED),
                less=decided.count(ChangeVerdict.LESS) + decided.count(ChangeVerdict.NO_EFFECT),
                more=decided.count(ChangeVerdict.MORE),
            )
        )
    return tuple(records)


def _chains(rows: Sequence[ChangeRow]) -> tuple[tuple[tuple[str, ...], Interval], ...]:
    """Changes that began where the last one ended: effects multiply, with bounds that cover the worst case."""
    following: dict[str | None, ChangeRow] = {row.before: row for row in rows if row.measured is not None}
    ends = {row.after for row in rows if row.measured is not None}
    chains = []
    for start in (row for row in rows if row.measured is not None and row.before not in ends):
        chain, seen = [start], {start.change_id}
        while (after := following.get(chain[-1].after)) is not None and after.change_id not in seen:
            chain.append(after)
            seen.add(after.change_id)
        if len(chain) > 1:
            effects = [row.measured for row in chain if row.measured is not None]
            # Bounds multiplied: wide, because effects that share a run are not independent.
            low, middle, high = (math.prod(bounds) for bounds in zip(*map(astuple, effects), strict=True))
            chains.append((tuple(row.change_id for row in chain), Interval(low, middle, high)))
    return tuple(chains)
