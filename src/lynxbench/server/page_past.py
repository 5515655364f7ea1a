"""The past of a contract as pages show it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import Listed, Wanted, list_results
from lynxbench.model.result import Result
from lynxbench.record.histories import ChangedFields, ContractResults, Past, ResultPair
from lynxbench.server.server_state import Server


class PagePast(Past):
    """The past as pages show it.

    Lost or damaged documents leave gaps: one of them must not close every page about its contract. What this server
    refuted is left out, as what was retracted is.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server.ledger, server.trust)
        self._recomputations, self._cache = server.recomputations, server.cache

    def find(self, named: str, newest: int | None = None) -> ContractResults:
        """All results of a contract, with what speaks against some of them."""
        results = super().find(named, newest)
        refuted = self._recomputations.refuted(results.contract_id)
        return replace(results, retracted={**refuted, **results.retracted})

    def listed(self, ledger: OpenLedger, contract_id: str, newest: int | None) -> tuple[Listed, ...]:
        """The results whose entries can be read."""
        try:
            return super().listed(ledger, contract_id, newest)
        except EvidenceInvalid:
            return tuple(list_results(ledger.log, Wanted(contract=contract_id, limit=newest), readable=True)[::-1])

    def recorded(self, ledger: OpenLedger, names: Sequence[str]) -> dict[str, Logged]:
        """The entries of results that can be read: together, or one by one where one of them cannot."""
        try:
            return super().recorded(ledger, names)
        except EvidenceInvalid:
            readable: dict[str, Logged] = {}
            for name in names:
                with suppress(EvidenceInvalid):
                    readable |= super().recorded(ledger, [name])
            return readable

    def changes_between(self, results: ContractResults, pairs: Sequence[ResultPair]) -> list[ChangedFields | None]:
        """What changed from one result to another never changes: documents are read for it once while it is kept."""
        known: dict[ResultPair, ChangedFields | None] = {pair: self._cache.peek(_kept(pair), ()) for pair in pairs}
        missing = [pair for pair, fields in known.items() if fields is None]
        for pair, fields in zip(missing, super().changes_between(results, missing), strict=True):
            if fields is not None:
                known[pair] = self._cache.get(_kept(pair), (), partial(_itself, fields))
        return [known[pair] for pair in pairs]

    def document(self, ledger: OpenLedger, recorded: Logged) -> Result | None:
        """A result's whole document, where it is there and holds."""
        try:
            return super().document(ledger, recorded)
        except EvidenceInvalid:
            return None


def _itself(fields: ChangedFields) -> ChangedFields:
    return fields


def _kept(pair: ResultPair) -> tuple[str, ...]:
    return ("fields", *pair)
