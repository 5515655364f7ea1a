"""The signed entry beside a result, where there is one: who signed it, and that it speaks of these very files."""

from pathlib import Path

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.envelope import MAX_ENVELOPE_BYTES, check_signatures, parse_envelope
from lynxbench.evidence.manifest import ENVELOPE_FILE, MANIFEST_FILE, parse_manifest
from lynxbench.evidence.sample_file import hash_file
from lynxbench.evidence.statement import open_entry, parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.model.canonical import short
from lynxbench.model.entries import ACTS, Entry, ResultRecorded
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.model.verification import Check, cannot, fails, holds


def check_envelope(result: Path, trust: TrustList) -> tuple[Check, ...]:
    """Lines on the envelope in a result's folder, under a trust list."""
    folder = result if result.is_dir() else result.parent
    file = folder / ENVELOPE_FILE
    if file.is_symlink() or not file.is_file():
        return (cannot("signature", f"{ENVELOPE_FILE} is not here; the ledger keeps it"),)
    try:
        with file.open("rb") as stream:
            envelope = parse_envelope(stream.read(MAX_ENVELOPE_BYTES + 1))
        entry = open_entry(envelope)
        at, role = parse_time(entry.made_at), ACTS.get(entry.body.kind)
        checked = check_signatures(envelope, trust, at=at, role=role)
    except EvidenceInvalid as error:
        return (fails("signature", str(error)),)
    checks = []
    for signer in checked.signers:
        since = f"; since revoked: {signer.revoked.reason}" if signer.revoked else ""
        checks.append(
            holds("signature", f"{signer.team} ({', '.join(signer.roles)}), key {short(signer.keyid)}{since}")
        )
    checks += [cannot("signature", why) for why in checked.ignored]
    if not checked.signers:
        checks.append(fails("signature", "no trusted key signed this"))
    short_of = trust.shortfalls(checked.signers)
    checks += [cannot("threshold", f"only {line}; a witness may have signed in the ledger") for line in short_of]
    checks.append(_signed_files(entry, folder))
    if not isinstance(entry.body, ResultRecorded):
        return (*checks, fails("signed entry", f"is about a {entry.body.kind.value}, not a result"))
    return (*checks, _same_result(entry.body, folder))


def _signed_files(entry: Entry, folder: Path) -> Check:
    """The manifest is the signed one, and it names every file that was signed; that they are so is its own check."""
    stated = {blob.name: blob.sha256 for blob in entry.blobs}
    file = folder / MANIFEST_FILE
    if file.is_symlink() or not file.is_file() or MANIFEST_FILE not in stated:
        return cannot("signed files", f"{MANIFEST_FILE} is not here, or was not signed")
    digest = hash_file(file)
    if digest != stated[MANIFEST_FILE]:
        return fails("signed files", f"{MANIFEST_FILE}: signed {stated[MANIFEST_FILE][:12]}…, found {digest[:12]}…")
    listed = {listed.sha256 for listed in parse_manifest(file.read_bytes()).files}
    strange = [name for name, digest in stated.items() if name != MANIFEST_FILE and digest not in listed]
    if strange:
        return fails("signed files", f"{strange[0]} was signed and is not in {MANIFEST_FILE}")
    return holds("signed files", f"{len(stated)} by {MANIFEST_FILE}")


def _same_result(body: ResultRecorded, folder: Path) -> Check:
    try:
        document = parse_strict_json((folder / RESULT_FILE).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, NotStrictJson) as error:
        return fails("signed result", f"{RESULT_FILE}: {error}")
    stated = document.get("result_id") if isinstance(document, dict) else None
    if stated == body.result_id:
        return holds("signed result", f"the entry names {short(body.result_id)}")
    return fails("signed result", f"the entry names {short(body.result_id)}, the document {str(stated)[:12]}")
