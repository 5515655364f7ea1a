"""`lynxbench results log`: state, checkpoints, witnesses and proofs of the log."""

import os
from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, tell
from lynxbench.cli.options import AS_JSON, LEDGER
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import BadInput
from lynxbench.evidence.envelope import check_signatures, parse_envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger import checkpoints
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.ledger.log_audit import logged_backwards, recompute
from lynxbench.ledger.log_witnesses import (
    cosign_from,
    current_note,
    keep_cosignatures,
    prove_note,
    sightings,
    witness_request,
)
from lynxbench.ledger.queries import newer_kinds
from lynxbench.ledger.signed_notes import LOG_KEY, parse_note, verifier_key
from lynxbench.ledger.witness_book import WitnessBook
from lynxbench.plain_files import read_plain
from lynxbench.record.listing import log_document
from lynxbench.report.documents.ledger_documents import compose_log

SHOWN_CHECKPOINTS = 5
ENVELOPE_SUFFIX = ".json"


def log(
    verify: bool = typer.Option(
        False, "--verify", help="Make tree, times and every row of the index again from the entries, and compare."
    ),
    checkpoint: Path | None = typer.Option(
        None,
        help="Sign the ledger's state and write it to this file: a signed note (C2SP) that any witness reads, or an "
        "envelope where the name ends in .json.",
    ),
    since: int | None = typer.Option(
        None, min=0, help="With --checkpoint: put the proof in front that the log continues its first entries, so many."
    ),
    cosigned: Path | None = typer.Option(
        None, "--cosign", help="Prove this ledger against a checkpoint file and sign it as well."
    ),
    witnessed: Path | None = typer.Option(
        None, help="Keep what witnesses of other teams co-signed in a checkpoint file."
    ),
    against: Path | None = typer.Option(None, help="Prove this ledger against a checkpoint file."),
    accept: bool = typer.Option(False, "--accept", help="Trust the ledger as it is now, whatever was seen before."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """State, checkpoints and proofs of the log. Exit code 5 when entries were changed, taken away or forked."""
    if since is not None and (checkpoint is None or checkpoint.suffix == ENVELOPE_SUFFIX):
        raise BadInput("--since is for a --checkpoint that is a signed note, whose name does not end in .json")
    keyring, now = Keyring(), datetime.now(UTC)
    book = WitnessBook(keyring.where)
    proven: list[str] = []
    with opened(ledger, os.environ, unseen=accept) as open_:
        if accept:
            open_.seen.accept(open_.log)
        if against is not None:
            proven.append(f"begins with the {_prove(open_, against, keyring)} entries of {against}")
        if verify:
            proven.append(_recompute(open_, keyring))
        if cosigned is not None:
            _cosign(open_, cosigned, keyring, book, now)
            proven.append(f"{cosigned} co-signed")
        if witnessed is not None:
            news = keep_cosignatures(open_.log, parse_note(read_checkpoint(witnessed)), keyring.trust, now)
            proven += [sighting.words for sighting in news] or [f"{witnessed} has no news of a trusted outside witness"]
        if checkpoint is not None:
            _sign(open_, checkpoint, since, keyring, now)
        stored = checkpoints.stored_checkpoints(open_.log, SHOWN_CHECKPOINTS)
        shown = tuple(_with_signers(signed, keyring) for signed in stored)
        seen, origin = sightings(open_.log, keyring.trust), open_.log.origin
        splits = tuple(split for split in book.splits() if split.origin == origin)
        state = (open_.log.database.name, origin, open_.log.head(), shown, seen, splits, "; ".join(proven) or None)
    answer(as_json, lambda: log_document(*state), lambda: terminal_text(compose_log(*state)))


def _recompute(ledger: OpenLedger, keyring: Keyring) -> str:
    head = recompute(ledger.log)
    checked = checkpoints.prove_stored(ledger.log, keyring.trust)
    done = f"{head.size} entries and {checked} checkpoints recomputed: all as recorded, every row of the index too"
    newer = newer_kinds(ledger.log)
    if newer:
        count, kinds = sum(newer.values()), ", ".join(newer)
        done += (
            f" but for {count} of kinds that a newer lynxbench knows ({kinds}): kept, in no verdict; update lynxbench"
        )
    return "; ".join((done, *logged_backwards(ledger.log)))


def _prove(ledger: OpenLedger, file: Path, keyring: Keyring) -> int:
    """Prove the ledger against a checkpoint that somebody trusted signed, in either form; its size."""
    data = read_checkpoint(file)
    if checkpoints.is_note(data):
        note = parse_note(data)
        prove_note(ledger.log, note, keyring.trust)
        return note.head.size
    signed = checkpoints.verify_checkpoint(parse_envelope(data.rstrip(b"\n")), keyring.trust)
    checkpoints.prove_against(ledger.log, signed.checkpoint)
    return signed.checkpoint.tree_size


def _cosign(ledger: OpenLedger, file: Path, keyring: Keyring, book: WitnessBook, now: datetime) -> None:
    data, key = read_checkpoint(file), keyring.signing_key(now).key
    if checkpoints.is_note(data):
        _write(file, cosign_from(ledger.log, parse_note(data), book, keyring.trust, key, now).to_text())
    else:
        both = checkpoints.cosign(ledger.log, parse_envelope(data.rstrip(b"\n")), key, now)
        _write(file, both.envelope.to_bytes().decode("utf-8"))


def _sign(ledger: OpenLedger, file: Path, since: int | None, keyring: Keyring, now: datetime) -> None:
    key = keyring.signing_key(now).key
    if file.suffix == ENVELOPE_SUFFIX:
        _write(file, checkpoints.sign_checkpoint(ledger.log, key, now).envelope.to_bytes().decode("utf-8"))
        return
    if since is None:
        _write(file, current_note(ledger.log, key, now).to_text())
    else:
        _write(file, witness_request(ledger.log, key, since, now).to_text())
    tell(f"the log's key, for other programs: {verifier_key(ledger.log.origin, LOG_KEY, key.card.public)}")


def _with_signers(signed: checkpoints.Signed, keyring: Keyring) -> checkpoints.Signed:
    checked = check_signatures(signed.envelope, keyring.trust, payload_type=signed.envelope.payload_type)
    return checkpoints.Signed(signed.checkpoint, signed.envelope, checked.signers)


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from error


def read_checkpoint(path: Path) -> bytes:
    """What a checkpoint's file holds, up to what one may."""
    try:
        return read_plain(path, checkpoints.MAX_CHECKPOINT_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give a file of `results log --checkpoint`") from error
