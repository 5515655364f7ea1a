"""Bundles are taken in by a process of their own: whoever reads pages does not wait while one is verified."""

import threading
from collections.abc import Mapping
from pathlib import Path

from lynxbench.errors import BadLedger
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import Location
from lynxbench.server.bounded_process import BoundedProcess, refusal_of
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
    """One process that takes bundles in, one after the other."""

    def __init__(self, location: Location, environment: Mapping[str, str], scratch: Path, bounds: WorkerBounds) -> None:
        super().__init__("lynxbench.server.intake_worker", location, environment, scratch, bounds)
        self._one_at_a_time = threading.Lock()

    def take_in(self, path: Path, trust: TrustList, who: Principal, now_s: float) -> Taken:
        """Check a bundle and append what is new in it, as `ingest.take_in` does; the same errors."""
        question = {
            "path": str(path.absolute()),
            "trust": trust.model_dump_json(),
            "name": who.name,
            "team": who.team,
            "scopes": sorted(who.scopes),
            "via": who.via,
            "now_s": now_s,
        }
        with self._one_at_a_time:
            answer = next(self.answers([question]))
            if answer is None:
                raise BadLedger(f"the bundle was not taken in: {self.why_ended()}; try again")
        if "taken" in answer:
            return Taken(**answer["taken"])
        raise refusal_of(answer)
