"""Bundles are taken in by a process of their own: whoever reads pages does not wait while one is verified."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lynxbench.errors import BadLedger, LynxbenchError
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import Location
from lynxbench.server.bounded_process import BoundedProcess, refusal_of
from lynxbench.server.ingest import OfferedBundle, Outcome
from lynxbench.server.rights import Principal
from lynxbench.server.settings import WorkerBounds
from lynxbench.server.uploads import Taken

COPIES = 6
"""Times a bundle is in memory at most while it is checked: its bytes, its members, its documents, and spare."""


def intake_bounds(largest_bundle_bytes: int) -> WorkerBounds:
    """As much as recomputing may take, and more where larger bundles are allowed."""
    usual = WorkerBounds()
    memory_bytes = max(usual.memory_bytes, usual.memory_bytes // 2 + COPIES * largest_bundle_bytes)
    return WorkerBounds(memory_bytes=memory_bytes, cpu_s=usual.wall_s, disk_bytes=None)


class IntakeProcess(BoundedProcess):
    """One process that takes bundles in, those that wait together."""

    def __init__(self, location: Location, environment: Mapping[str, str], scratch: Path, bounds: WorkerBounds) -> None:
        super().__init__("lynxbench.server.intake_worker", location, environment, scratch, bounds)
        self._one_at_a_time = threading.Lock()

    def take_in(self, path: Path, trust: TrustList, who: Principal, now_s: float) -> Taken:
        """Check a bundle and append what is new in it, as `ingest.take_in` does; the same errors."""
        (outcome,) = self.take_in_all([OfferedBundle(path, who)], trust, now_s)
        if isinstance(outcome, LynxbenchError):
            raise outcome
        return outcome

    def take_in_all(self, offers: Sequence[OfferedBundle], trust: TrustList, now_s: float) -> list[Outcome]:
        """The same of several, as `ingest.take_in_all` does. One that ends the process takes no other with it."""
        question = {"offers": [_told(offer) for offer in offers], "trust": trust.model_dump_json(), "now_s": now_s}
        with self._one_at_a_time:
            answer = next(self.answers([question]))
            if answer is not None:
                return [_outcome_of(said) for said in answer["outcomes"]]
            why = self.why_ended()
        if len(offers) > 1:
            return [outcome for offer in offers for outcome in self.take_in_all([offer], trust, now_s)]
        return [BadLedger(f"the bundle was not taken in: {why}; try again")]


def _told(offer: OfferedBundle) -> dict[str, Any]:
    who = offer.who
    told = {"path": str(offer.path.absolute()), "name": who.name, "team": who.team}
    return {**told, "scopes": sorted(who.scopes), "via": who.via}


def _outcome_of(said: Mapping[str, Any]) -> Outcome:
    return Taken(**said["taken"]) if "taken" in said else refusal_of(said)
