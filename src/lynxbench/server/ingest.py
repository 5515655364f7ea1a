"""A submission into the ledger: signed by a key that its team registered, checked whole, all of it or nothing."""

import io
import zipfile
from pathlib import Path
from threading import Lock

from lynxbench.errors import EvidenceInvalid, Refused
from lynxbench.evidence.envelope import Envelope, check_signatures
from lynxbench.evidence.identities import with_tokens
from lynxbench.evidence.statement import open_entry, parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.bundle import Bundle, keep_blobs, read_bundle
from lynxbench.ledger.key_log import NEWEST, logged_trust
from lynxbench.ledger.location import OpenLedger
from lynxbench.model.canonical import short
from lynxbench.model.entries import ACTS, EntryKind, ResultRecorded
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.uploads import Taken

DOUBTS = frozenset({EntryKind.CONTEST, EntryKind.RETRACTION, EntryKind.VERIFICATION, EntryKind.RERUN})
"""What is said about somebody's result: asks for the scope `contest`."""
OWN = frozenset({EntryKind.REGISTRATION, EntryKind.RESULT, EntryKind.ABANDONED})
"""What a team says about its own runs: signed by that team, and pushed by it."""
AHEAD_S = 600.0
"""A signer's clock may run ahead by so much: a date far in the future would outlive the revocation of its key."""

_one_at_a_time = Lock()


def take_in(ledger: OpenLedger, path: Path, trust: TrustList, who: Principal, now_s: float) -> Taken:
    """Check a bundle and append what is new in it."""
    bundle = read_bundle(path, trust)
    if who.team not in bundle.submitters:
        by = ", ".join(bundle.submitters) or "nobody known here"
        raise Refused(f"the bundle was made by {by}; a submission is signed by a key of its own team, {who.team}")
    with _one_at_a_time:
        known = ledger.log.known(bundle.envelopes)
        fresh = [envelope for envelope in bundle.envelopes if envelope not in known]
        signers = {signature.keyid for envelope in fresh for signature in envelope.signatures}
        trust = logged_trust(ledger.log, with_tokens(trust, bundle.envelopes), signers).at(NEWEST)
        for envelope in fresh:
            _refuse(envelope, trust, who, now_s)
        _refuse_inflating(bundle)
        ledger.seen.check_bundle(bundle.checkpoint)
        keep_blobs(ledger.blobs, bundle.blobs)
        numbers = ledger.log.append_all(bundle.envelopes)
        ledger.seen.check(ledger.log)
    bodies = [open_entry(envelope).body for envelope in fresh]
    results = [body.result_id for body in bodies if isinstance(body, ResultRecorded)]
    return Taken(list(bundle.manifest.results), len(numbers), len(fresh), results)


def _refuse(envelope: Envelope, trust: TrustList, who: Principal, now_s: float) -> None:
    entry = open_entry(envelope)
    kind = entry.body.kind
    made = parse_time(entry.made_at)
    if made.timestamp() > now_s + AHEAD_S:
        raise EvidenceInvalid(f"an entry ({kind}) says it was made at {entry.made_at}, which is still to come")
    if kind in DOUBTS and not who.may(AccessScope.CONTEST):
        raise Refused(f"the bundle holds a new {kind}, and {who.label} may not {AccessScope.CONTEST.value}")
    # a key that was revoked by now signs nothing new, whatever date the entry bears
    signers = check_signatures(envelope, trust, role=ACTS.get(kind)).signers
    if not signers:
        raise EvidenceInvalid(f"a new {kind} is signed by no key that is registered and still valid")
    if kind in OWN and who.team not in {signer.team for signer in signers}:
        by = ", ".join(dict.fromkeys(signer.team for signer in signers))
        raise Refused(f"a new {kind} is signed by {by}; {who.team} submits what it signed itself")


def _refuse_inflating(bundle: Bundle) -> None:
    """Documents are read when somebody looks at a page: none may unfold to more than what was sent."""
    for name, data in bundle.blobs.items():
        if data[:4] != b"PK\x03\x04":
            continue
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                unfolded = sum(member.file_size for member in archive.infolist())
                packed = any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise EvidenceInvalid(f"document {short(name)} is a damaged archive ({error})") from None
        if packed or unfolded > len(data):
            raise EvidenceInvalid(f"document {short(name)} unfolds to {unfolded} bytes from {len(data)}; not taken")
