"""`lynxbench results log`: state, checkpoints and proofs of the log."""

import os
from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON, LEDGER
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import BadInput
from lynxbench.evidence.envelope import Envelope, check_signatures, parse_envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger import checkpoints
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.plain_files import read_plain
from lynxbench.record.listing import log_document
from lynxbench.report.documents.ledger_documents import compose_log

SHOWN_CHECKPOINTS = 5


def log(
    verify: bool = typer.Option(
        False, "--verify", help="Make tree, times and every row of the index again from the entries, and compare."
    ),
    checkpoint: Path | None = typer.Option(None, help="Sign the ledger's state and write it to this file."),
    cosigned: Path | None = typer.Option(
        None, "--cosign", help="Prove this ledger against a checkpoint file and sign it as well."
    ),
    against: Path | None = typer.Option(None, help="Prove this ledger against a checkpoint file."),
    accept: bool = typer.Option(False, "--accept", help="Trust the ledger as it is now, whatever was seen before."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """State, checkpoints and proofs of the log. Exit code 5 when entries were changed, taken away or forked."""
    keyring, now = Keyring(), datetime.now(UTC)
    proven: list[str] = []
    with opened(ledger, os.environ, unseen=accept) as open_:
        if accept:
            open_.seen.accept(open_.log)
        if against is not None:
            signed = checkpoints.verify_checkpoint(_read(against), keyring.trust)
            checkpoints.prove_against(open_.log, signed.checkpoint)
            proven.append(f"begins with the {signed.checkpoint.tree_size} entries of {against}")
        if verify:
            proven.append(_recompute(open_, keyring))
        if cosigned is not None:
            signed = checkpoints.cosign(open_.log, _read(cosigned), keyring.signing_key(now).key, now)
            _write(cosigned, signed)
            proven.append(f"{cosigned} co-signed")
        if checkpoint is not None:
            _write(checkpoint, checkpoints.sign_checkpoint(open_.log, keyring.signing_key(now).key, now))
        stored = checkpoints.stored_checkpoints(open_.log, SHOWN_CHECKPOINTS)
        shown = tuple(_with_signers(signed, keyring) for signed in stored)
        state = (open_.log.database.name, open_.log.origin, open_.log.head(), shown, "; ".join(proven) or None)
    answer(as_json, lambda: log_document(*state), lambda: terminal_text(compose_log(*state)))


def _recompute(ledger: OpenLedger, keyring: Keyring) -> str:
    head = ledger.log.recompute()
    checked = checkpoints.prove_stored(ledger.log, keyring.trust)
    return f"{head.size} entries and {checked} checkpoints recomputed: all as recorded, every row of the index too"


def _with_signers(signed: checkpoints.Signed, keyring: Keyring) -> checkpoints.Signed:
    checked = check_signatures(signed.envelope, keyring.trust, payload_type=signed.envelope.payload_type)
    return checkpoints.Signed(signed.checkpoint, signed.envelope, checked.signers)


def _write(path: Path, signed: checkpoints.Signed) -> None:
    write_text(path, signed.envelope.to_bytes().decode("utf-8"))


def _read(path: Path) -> Envelope:
    try:
        data = read_plain(path, checkpoints.MAX_CHECKPOINT_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give a file of `results log --checkpoint`") from error
    return parse_envelope(data.rstrip(b"\n"))
