"""Whom a notice suspects: the layer that changed where it is one, and the owners of all that did."""

from dataclasses import dataclass

from lynxbench.compare.suspects import COUNTS
from lynxbench.model.comparison import CauseKind, Comparison

NOBODY = "nobody is named: nothing changed in the record"
APART = "nobody is named: the sessions before and after it cannot be held against each other"
UNKNOWN = "nothing is known of the cause"


@dataclass(frozen=True, slots=True)
class Suspected:
    """What is suspected of a loss that sessions show."""

    layer: str | None
    owner: str
    """All of the owners, in words."""
    owners: tuple[str, ...]
    """Who is told."""
    sentence: str


def suspected_in(comparison: Comparison) -> Suspected:
    """What changed between a usual session and a slow one; state that moves by itself is nobody's."""
    cause = comparison.cause
    if cause is None:
        return Suspected(None, APART, (APART,), UNKNOWN)
    if cause.owner is None:
        return Suspected(None, NOBODY, (NOBODY,), cause.likely)
    owners = {cause.owner: None}
    if cause.kind is CauseKind.NOT_SEPARABLE:
        owners = {difference.owner: None for difference in comparison.layers if difference.weight in COUNTS}
    layer = None if cause.layer is None else cause.layer.value
    return Suspected(layer, cause.owner, tuple(owners), cause.likely)
