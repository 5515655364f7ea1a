"""Whose a run is: only what a key of one's own announced or signed is recorded in one's own name.

Somebody else's folder can be computed again, and is kept as what it is: a foreign result, of which nobody here says
that it was measured.
"""

from collections.abc import Sequence
from pathlib import Path

from lynxbench.errors import BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.documents import RESULT_FILE, read_result
from lynxbench.evidence.envelope import MAX_ENVELOPE_BYTES, Envelope, check_signatures, parse_envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.manifest import ENVELOPE_FILE, REGISTERED_FILE
from lynxbench.evidence.run_folder import Registration, RunFolder
from lynxbench.evidence.statement import open_entry, parse_time
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import INVENTED_ENTRY
from lynxbench.ledger.queries import entries_about, find_result, find_run
from lynxbench.model.canonical import short
from lynxbench.model.entries import EntryKind, ForeignImported, ResultRecorded, RunRegistered
from lynxbench.model.result import Result
from lynxbench.model.verification import EvidenceVerdict
from lynxbench.plain_files import read_plain
from lynxbench.record.recording import Recorded, blob_of, seal
from lynxbench.record.verifying import verify_folder

TOOL = "lynxbench"
NOT_SHOWN = ("who measured it", "a registration before the first sample")
"""What the folder of somebody else's run leaves open, whatever is in it."""


def refuse_strangers(ledger: OpenLedger, folders: Sequence[Path], keyring: Keyring) -> None:
    """Refused where one of several runs is not shown to be one's own."""
    for folder in folders:
        if not is_own(ledger, folder, keyring):
            raise Refused(
                f"{folder}: no key of yours announced or signed this run; ask its team for a bundle (results export), "
                f"or, if you measured it yourself, record it first: lynxbench results import {folder} --own"
            )


def is_own(ledger: OpenLedger, folder: Path, keyring: Keyring) -> bool:
    """Whether a key that is kept here announced a run, or it was recorded before; EvidenceInvalid at a false signature.

    A run whose entry is signed by another team that is trusted is recorded with that entry, in that team's name.
    """
    folder = folder if folder.is_dir() else folder.parent
    result = read_result(folder)
    if result.invented:
        raise Refused(f"{folder}: {INVENTED_ENTRY}")
    if find_result(ledger.log, result.result_id) is not None:
        return True
    signed = _kept(folder / ENVELOPE_FILE)
    if signed is not None:
        body = open_entry(signed).body
        if isinstance(body, ResultRecorded) and body.result_id == result.result_id and _signers(signed, keyring):
            return True
        raise EvidenceInvalid(f"{folder / ENVELOPE_FILE}: signed by no key that you trust, or for another result")
    registration = RunFolder.open(folder).registration
    announced = [logged.envelope for logged in find_run(ledger.log, result.run_id, EntryKind.REGISTRATION)]
    beside = _kept(folder / REGISTERED_FILE)
    mine = {keyring.keys.card(name).keyid for name in keyring.keys.names()}
    return any(
        _announces(envelope, registration) and _signers(envelope, keyring) & mine
        for envelope in (*announced, *([] if beside is None else [beside]))
    )


def record_stranger(ledger: OpenLedger, folder: Path, key: SigningKey) -> tuple[Recorded, ForeignImported]:
    """Append the result of somebody else's run as a foreign one, once its figures were computed again from it."""
    folder = folder if folder.is_dir() else folder.parent
    result = read_result(folder)
    if not (folder / result.samples.file).is_file():
        raise BadInput(f"{folder}: {result.samples.file} is not here; without samples nothing can be computed again")
    verdict = verify_folder(folder).verdict
    if verdict is not EvidenceVerdict.HOLDS:
        raise EvidenceInvalid(f"{folder}: {verdict.value} when it is computed again (lynxbench verify {folder})")
    body = _as_foreign(result)
    data = read_plain(folder / RESULT_FILE)
    blob = blob_of(RESULT_FILE, data)
    for known in entries_about(ledger.log, [blob.sha256], [EntryKind.FOREIGN]):
        if known.entry.body == body:
            return Recorded(blob.sha256, known.seq, new=False), body
    ledger.blobs.put(data)
    return Recorded(blob.sha256, ledger.log.append(seal(body, key, (blob,))), new=True), body


def _as_foreign(result: Result) -> ForeignImported:
    figures = {
        f"throughput at {precision.precision.value}": precision.throughput
        for precision in result.per_precision
        if precision.throughput is not None
    }
    return ForeignImported(
        tool=TOOL,
        figures=figures,
        stated={
            "contract": f"{result.contract.name} ({short(result.contract_id)})",
            "result": result.result_id,
            "run": result.run_id,
            "measured": result.started_at,
            "validity": result.validity.verdict.value,
        },
        missing=NOT_SHOWN,
    )


def _announces(envelope: Envelope, registration: Registration) -> bool:
    body = open_entry(envelope).body
    announced = (registration.run_id, registration.nonce, registration.contract_id)
    return isinstance(body, RunRegistered) and (body.run_id, body.nonce, body.contract_id) == announced


def _signers(envelope: Envelope, keyring: Keyring) -> set[str]:
    made_at = parse_time(open_entry(envelope).made_at)
    return {signer.keyid for signer in check_signatures(envelope, keyring.trust, at=made_at).signers}


def _kept(file: Path) -> Envelope | None:
    return parse_envelope(read_plain(file, MAX_ENVELOPE_BYTES)) if file.is_file() and not file.is_symlink() else None
