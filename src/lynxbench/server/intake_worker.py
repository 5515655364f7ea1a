"""The process that takes bundles in for a server: `python -m lynxbench.server.intake_worker`.

Checking every byte, signature and proof of a bundle takes as long as many views of a page, so it is not done by the
interpreter that answers them. It is told on its standard input which files to take and whose keys count, and answers
each with one line: what was added, or why nothing was.
"""

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from lynxbench.errors import EvidenceInvalid, LynxbenchError
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger
from lynxbench.server.ingest import OfferedBundle, Outcome, take_in_all
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.worker_lines import answer_lines

LOW_PRIORITY = 5
"""After whoever reads pages, before what is recomputed."""
TOO_LARGE = "the bundle needs more memory than taking one in may take; split it (lynxbench results export RESULT)"


def main() -> None:
    """Take in every bundle that is asked for, until nobody asks any more."""
    answer_lines(_answer, LOW_PRIORITY, unseen=False)


def _answer(ledger: OpenLedger, asked: dict[str, Any], _folder: Path) -> dict[str, Any]:
    trust = _trust(asked["trust"])
    offers = [OfferedBundle(Path(told["path"]), _principal(told)) for told in asked["offers"]]
    try:
        outcomes = take_in_all(ledger, offers, trust, asked["now_s"])
    except MemoryError:
        if len(offers) > 1:
            parts = [{**asked, "offers": [told]} for told in asked["offers"]]
            return {"outcomes": [said for part in parts for said in _answer(ledger, part, _folder)["outcomes"]]}
        outcomes = [EvidenceInvalid(TOO_LARGE)]
    return {"outcomes": [_said(outcome) for outcome in outcomes]}


def _principal(told: dict[str, Any]) -> Principal:
    return Principal(told["name"], told["team"], frozenset(map(AccessScope, told["scopes"])), told["via"])


def _said(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, LynxbenchError):
        return {"refused": type(outcome).__name__, "line": str(outcome)}
    return {"taken": asdict(outcome)}


@lru_cache(maxsize=1)
def _trust(text: str) -> TrustList:
    """Whose keys count hardly ever changes from one question to the next."""
    return TrustList.model_validate_json(text)


if __name__ == "__main__":
    main()
