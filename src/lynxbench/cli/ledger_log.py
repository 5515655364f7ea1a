"""What `results log` carries between the ledger, the keys and the checkpoint files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lynxbench.errors import BadInput, BadLedger
from lynxbench.evidence.documents import write_text
from lynxbench.evidence.envelope import Envelope, check_signatures, parse_envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.checkpoints import (
    MAX_CHECKPOINT_BYTES,
    Signed,
    cosign,
    prove_against,
    prove_stored,
    sign_checkpoint,
    stored_checkpoints,
    verify_checkpoint,
)
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.ledger.log import TreeHead
from lynxbench.record import listing

SHOWN_CHECKPOINTS = 5


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What is to be done."""

    verify: bool
    checkpoint: Path | None
    cosign: Path | None
    against: Path | None
    accept: bool


@dataclass(frozen=True, slots=True)
class LogState:
    """What was found."""

    name: str
    origin: str
    head: TreeHead
    checkpoints: tuple[Signed, ...]
    verified: str | None


def work_on_log(asked: str | None, environment: Mapping[str, str], request: LogRequest) -> LogState:
    """Open, prove, sign, as asked."""
    location = locate(asked, environment)
    if location is None:
        raise BadLedger("this needs a ledger, and --ledger none was given")
    keyring, now = Keyring(environment=environment), datetime.now(UTC)
    said: list[str] = []
    with open_ledger(location, environment, unseen=request.accept) as ledger:
        if request.accept:
            ledger.seen.accept(ledger.log)
        if request.against is not None:
            signed = verify_checkpoint(_read(request.against), keyring.trust)
            prove_against(ledger.log, signed.checkpoint)
            said.append(f"begins with the {signed.checkpoint.tree_size} entries of {request.against}")
        if request.verify:
            said.append(_recompute(ledger))
        if request.cosign is not None:
            made = cosign(ledger.log, _read(request.cosign), keyring.signing_key(now).key, now)
            write_text(request.cosign, made.envelope.to_bytes().decode("utf-8"))
            said.append(f"{request.cosign} co-signed")
        if request.checkpoint is not None:
            made = sign_checkpoint(ledger.log, keyring.signing_key(now).key, now)
            write_text(request.checkpoint, made.envelope.to_bytes().decode("utf-8"))
        shown = tuple(_with_signers(one, keyring) for one in stored_checkpoints(ledger.log, SHOWN_CHECKPOINTS))
        head = ledger.log.head()
        return LogState(ledger.log.database.name, ledger.log.origin, head, shown, "; ".join(said) or None)


def log_document(state: LogState) -> dict[str, object]:
    """For programs."""
    return listing.log_document(state.name, state.origin, state.head, state.checkpoints, state.verified)


def _recompute(ledger: OpenLedger) -> str:
    head = ledger.log.recompute()
    checked = prove_stored(ledger.log)
    return f"{head.size} entries and {checked} checkpoints recomputed: all as recorded"


def _with_signers(one: Signed, keyring: Keyring) -> Signed:
    found = check_signatures(one.envelope, keyring.trust, payload_type=one.envelope.payload_type)
    return Signed(one.checkpoint, one.envelope, found.signers)


def _read(path: Path) -> Envelope:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_CHECKPOINT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give a file of `results log --checkpoint`") from error
    return parse_envelope(data.rstrip(b"\n"))
