"""Declared changes with what came of them, and how often those who expected were right."""

from __future__ import annotations

from lynxbench.model.document import Bounds, Document
from lynxbench.model.entries import ChangeVerdict
from lynxbench.model.layers import Layer


class ChangeRow(Document):
    """One declared change and its last measurement."""

    change_id: str
    contract_id: str
    layer: Layer
    owner: str
    what: str
    expected: Bounds
    measured: Bounds | None
    verdict: ChangeVerdict | None
    """None: declared, not measured yet."""
    times_measured: int
    before: str | None
    after: str | None
    caution: str = ""


class ExpectationRecord(Document):
    """How expectations of one owner, or for one layer, came out; inconclusive measurements decide nothing."""

    name: str
    declared: int
    measured: int
    decided: int
    as_expected: int
    less: int
    more: int


class ChangeBook(Document):
    """All changes of a contract."""

    rows: tuple[ChangeRow, ...]
    by_owner: tuple[ExpectationRecord, ...]
    by_layer: tuple[ExpectationRecord, ...]
    chains: tuple[tuple[tuple[str, ...], Bounds], ...]
    """Changes that followed one another, and their gains together."""
