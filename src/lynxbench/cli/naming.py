"""How the commands find what a person names, and sign what a person says."""

from datetime import UTC, datetime
from pathlib import Path

from lynxbench.evidence.documents import read_result
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.names import find_id
from lynxbench.model.entries import EntryBody
from lynxbench.record.recording import seal


def named_result(ledger: OpenLedger, text: str) -> str:
    """The id of a result that a person named by path, id or beginning of an id."""
    path = Path(text)
    return read_result(path).result_id if path.exists() else find_id(ledger.log, text, "result")


def append_signed(ledger: OpenLedger, body: EntryBody) -> tuple[int, str]:
    """Sign a statement and append it; its number, and the team that signed."""
    envelope, team = signed_by_me(body)
    seq = ledger.log.append(envelope)
    ledger.seen.check(ledger.log)
    return seq, team


def signed_by_me(body: EntryBody) -> tuple[Envelope, str]:
    """A statement under this person's key, and the team that signed."""
    key = Keyring().signing_key(datetime.now(UTC)).key
    return seal(body, key), key.team
