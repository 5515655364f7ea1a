"""What judging several new results needs to know of the ledger, asked once for all of them."""

from collections.abc import Sequence

from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.ledger.result_standings import disputed, standings
from lynxbench.model.entries import ResultRecorded
from lynxbench.model.standing import Standing
from lynxbench.watch.recomputations import OBJECTIONS, Recomputation, Recomputations


class JudgingRound:
    """Results that are judged one after the other, and what is known of each when the round begins."""

    def __init__(self, log: Ledger, recomputations: Recomputations, seqs: Sequence[int], trust: TrustList) -> None:
        self._log, self._recomputations, self.trust = log, recomputations, trust
        with log.database.held():
            self.entries: list[Logged] = log.read_all(seqs)
            self.names = {logged.seq: body_of(logged).result_id for logged in self.entries}
            """The result of each entry, by its number in the log."""
            self._standings = standings(log, sorted(set(self.names.values())), trust)
        self._outcomes: dict[str, Recomputation] = recomputations.of(self.names.values())
        self._refused: dict[str, set[str]] = {}

    def standing(self, result_id: str) -> Standing:
        """Where a result of the round stands."""
        return self._standings[result_id]

    def objected(self, result_id: str) -> bool:
        """Whether its own samples refute it, or nobody could recompute it."""
        return self._outcomes[result_id].state in OBJECTIONS

    def refused(self, contract_id: str) -> set[str]:
        """Results of a contract that are no level: taken back, refuted, or not to be recomputed."""
        known = self._refused.get(contract_id)
        if known is None:
            taken_back = disputed(self._log, contract_id, self.trust)
            known = {name for name, standing in taken_back.items() if standing.retracted or standing.refuted}
            known |= self._recomputations.objected(contract_id)
            self._refused[contract_id] = known
        return known


def body_of(logged: Logged) -> ResultRecorded:
    """What the entry of a result says."""
    body = logged.entry.body
    assert isinstance(body, ResultRecorded)
    return body
