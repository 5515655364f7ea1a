"""Entries as a newer version writes them: of kinds that this one does not know."""

from types import SimpleNamespace

import pytest

from lynxbench.evidence.envelope import STATEMENT_TYPE, Envelope, sign
from lynxbench.evidence.statement import IN_TOTO_STATEMENT, newer_columns
from lynxbench.ledger import log as log_module
from lynxbench.ledger import merkle
from lynxbench.ledger.index_rows import IndexRows
from lynxbench.ledger.location import OpenLedger
from lynxbench.model.canonical import canonical_bytes
from recording_teams import Team


def newer(
    team: Team, result_id: str, kind: str = "endorsement", predicate_type: str | None = None, *, warmth: float = 0.5
) -> Envelope:
    """An entry as a version that knows that kind signs it."""
    body = {"kind": kind, "result_id": result_id, "warmth": warmth}
    statement = {
        "_type": IN_TOTO_STATEMENT,
        "subject": [{"digest": {"sha256": result_id}, "name": "result_id"}],
        "predicateType": predicate_type or f"urn:lynxbench:entry:{kind}:1",
        "predicate": {"schema_version": 1, "made_at": "2026-01-01T00:00:00.000+00:00", "body": body, "blobs": []},
    }
    return sign(STATEMENT_TYPE, canonical_bytes(statement), [team.key])  # type: ignore[arg-type]


def append_as_newer(ledger: OpenLedger, envelope: Envelope, monkeypatch: pytest.MonkeyPatch) -> int:
    """What that version does with its entry, on the same tables."""
    columns = newer_columns(envelope)

    def incoming(given: Envelope) -> tuple[dict[str, object], SimpleNamespace]:
        data = given.to_bytes()
        return {"leaf": merkle.leaf_hash(data), "envelope": data, **columns}, SimpleNamespace(invented=False)

    def rows(seq: int, _: object) -> IndexRows:
        return IndexRows([{"id": columns["result_id"], "seq": seq, "what": "endorsed"}])

    with monkeypatch.context() as patched:
        patched.setattr(log_module, "_incoming", incoming)
        patched.setattr(log_module, "index_rows", rows)
        return ledger.log.append(envelope)
