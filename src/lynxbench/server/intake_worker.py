"""The process that takes bundles in for a server: `python -m lynxbench.server.intake_worker`.

Checking every byte, signature and proof of a bundle takes as long as many views of a page, so it is not done by the
interpreter that answers them. It is told on its standard input which files to take and whose keys count, and answers
each with one line: what was added, or why nothing was.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from lynxbench.errors import EvidenceInvalid, LynxbenchError
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger
from lynxbench.server.ingest import take_in
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.worker_lines import answer_lines

LOW_PRIORITY = 5
"""After whoever reads pages, before what is recomputed."""
TOO_LARGE = "the bundle needs more memory than taking one in may take; split it (lynxbench results export RESULT)"


def main() -> None:
    """Take in every bundle that is asked for, until nobody asks any more."""
    answer_lines(_answer, LOW_PRIORITY, unseen=False)


def _answer(ledger: OpenLedger, asked: dict[str, Any], _folder: Path) -> dict[str, Any]:
    trust = TrustList.model_validate_json(asked["trust"])
    who = Principal(asked["name"], asked["team"], frozenset(map(AccessScope, asked["scopes"])), asked["via"])
    try:
        return {"taken": asdict(take_in(ledger, Path(asked["path"]), trust, who, asked["now_s"]))}
    except LynxbenchError as error:
        return {"refused": type(error).__name__, "line": str(error)}
    except MemoryError:
        return {"refused": EvidenceInvalid.__name__, "line": TOO_LARGE}


if __name__ == "__main__":
    main()
