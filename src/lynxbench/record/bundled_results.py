"""Results out of a bundle, without a ledger: read by whoever has the file, laid out as runs left them, recomputed.

A stranger trusts nobody in it yet. Signatures are then held against the keys that the bundle itself names: its bytes
are one signer's, and who that is stays a claim. Figures need no belief; they are computed again from the samples.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_document
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.envelope import Envelope, check_signatures
from lynxbench.evidence.keys import KeyCard
from lynxbench.evidence.statement import open_entry, parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.archive import looks_like_archive, read_archive
from lynxbench.ledger.bundle import KEYS, MAX_LISTING_BYTES, Bundle, Keys, read_bundle
from lynxbench.ledger.left_out_traces import words_by_result
from lynxbench.ledger.log import Logged
from lynxbench.ledger.result_standings import standings_among
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, ResultRecorded
from lynxbench.model.standing import Standing, Voice, VoicedEntry
from lynxbench.model.verification import Check, CheckOutcome, VerificationReport, cannot, fails, holds
from lynxbench.plain_files import open_plain
from lynxbench.record.recalling import Recalled, lay_out_files
from lynxbench.record.sample_copies import check_among
from lynxbench.record.signature_check import check_envelope
from lynxbench.record.verifying import verify_folder
from lynxbench.run.run_outcome import SAMPLES_FILE

_EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""A claimed key is believed at no time, so it is held against signatures of any."""


@dataclass(frozen=True, slots=True)
class ReadBundle:
    """A bundle whose bytes fit together, with the reader's trust and that widened by the keys which it names."""

    bundle: Bundle
    trust: TrustList
    claimed: TrustList


def is_bundle(path: Path) -> bool:
    """Whether a path is a file that may be a bundle; documents are JSON."""
    return path.is_file() and path.suffix != ".json" and looks_like_archive(path)


def read_stranger_bundle(path: Path, trust: TrustList) -> ReadBundle:
    """Read a bundle of anybody's; EvidenceInvalid where its bytes, proofs or signatures do not fit together."""
    claimed = claimed_trust(path, trust)
    return ReadBundle(read_bundle(path, claimed), trust, claimed)


def claimed_trust(path: Path, trust: TrustList) -> TrustList:
    """A trust list with the keys that a bundle names for itself: they show whose bytes these are said to be."""
    for card in _cards(path):
        if trust.find(card.keyid) is None:
            trust = trust.adding(card, _EVER)
    return trust


def verify_bundled(read: ReadBundle, results: Iterable[str]) -> tuple[VerificationReport, ...]:
    """Each of these results computed again from what the bundle holds of it, with who signed and what was said."""
    reports = []
    copies = _copies_among(read)
    for result_id in results:
        with laid_out(read.bundle, result_id) as (folder, left_out):
            beside = (*_signature_lines(read, result_id, folder), *_said(read, result_id), *copies[result_id])
            reports.append(verify_folder(folder, beside, left_out))
    return tuple(reports)


def _copies_among(read: ReadBundle) -> dict[str, tuple[Check, ...]]:
    """Results of the bundle that rest on the same samples, by their ids; when its log took them in it does not say."""
    first: dict[str, Logged] = {}
    for number, envelope in enumerate(read.bundle.envelopes):
        entry = open_entry(envelope)
        if isinstance(entry.body, ResultRecorded):
            logged = Logged(number, read.bundle.checkpoint.made_at, envelope, entry)
            first.setdefault(entry.body.result_id, logged)
    here = read.bundle.blobs

    def is_whole(logged: Logged) -> bool:
        return all(blob.sha256 in here for blob in logged.entry.blobs if blob.name == SAMPLES_FILE)

    brought = [logged for logged in first.values() if is_whole(logged)]
    return dict.fromkeys(first, ()) | check_among(brought, here.__getitem__, read.claimed)


@contextmanager
def recalled_bundle(path: Path, trust: TrustList) -> Iterator[Recalled]:
    """The one result of a bundle, laid out in a folder that lives as long."""
    read = read_stranger_bundle(path, trust)
    names = read.bundle.manifest.results
    if len(names) != 1:
        listed = ", ".join(map(short, names))
        raise BadInput(f"{path}: holds {len(names)} results ({listed}); lynxbench results import it, and name one")
    with laid_out(read.bundle, names[0]) as (folder, _):
        yield Recalled(read_result(folder), folder, _standing(read.bundle, trust, names[0]))


@contextmanager
def laid_out(bundle: Bundle, result_id: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """The files of one result of a bundle in a folder that lives as long, and the traces that were left out."""
    entry, envelope = _recorded(bundle, result_id)

    def document(sha256: str) -> bytes:
        if sha256 not in bundle.blobs:
            raise EvidenceInvalid(f"result {short(result_id)}: document {short(sha256)} is not in the bundle")
        return bundle.blobs[sha256]

    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        folder = Path(temporary) / short(result_id)
        words = words_by_result((open_entry(envelope), envelope) for envelope in bundle.envelopes).get(result_id, {})
        missing = {sha256: said for sha256, said in words.items() if sha256 not in bundle.blobs}
        yield folder, lay_out_files(entry, envelope, document, folder, missing)


def _cards(path: Path) -> tuple[KeyCard, ...]:
    try:
        with open_plain(path) as stream:
            data = next((data for name, data in read_archive(stream, str(path)) if name == KEYS), None)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give a bundle of `results export`") from error
    if data is None:
        raise EvidenceInvalid(f"{path}: member {KEYS!r} is missing")
    return parse_document(data, KEYS, MAX_LISTING_BYTES, Keys).cards


def _recorded(bundle: Bundle, result_id: str) -> tuple[Entry, Envelope]:
    for envelope in bundle.envelopes:
        entry = open_entry(envelope)
        if isinstance(entry.body, ResultRecorded) and entry.body.result_id == result_id:
            return entry, envelope
    raise EvidenceInvalid(f"result {short(result_id)} is not in the bundle")


def _signature_lines(read: ReadBundle, result_id: str, folder: Path) -> list[Check]:
    """As of any folder; a signer whom the reader does not trust is a claim, not a fault of the figures."""
    entry, envelope = _recorded(read.bundle, result_id)
    if check_signatures(envelope, read.trust, at=parse_time(entry.made_at)).signers:
        return [*check_envelope(folder, read.trust)]
    return [
        cannot("signature", f"{check.why}, says the bundle; that key is not in your trust list: lynxbench key trust")
        if check.name == "signature" and check.outcome is CheckOutcome.HOLDS
        else check
        for check in check_envelope(folder, read.claimed)
    ]


def _said(read: ReadBundle, result_id: str) -> list[Check]:
    """Where the entry stands in the log that it came from, and what was said about the result there."""
    # Under the keys that the bundle names: whoever recorded it can be seen to have taken it back.
    state, standing = read.bundle.checkpoint, _standing(read.bundle, read.claimed, result_id)
    return [
        holds("log inclusion", f"in {state.origin} of {state.tree_size} entries, by the bundle's own checkpoint"),
        *(cannot("standing", f"contested by {voice.by}: {voice.text}") for voice in standing.contested),
        *(fails("standing", f"retracted by {voice.by}: {voice.text}") for voice in standing.retracted),
    ]


def _standing(bundle: Bundle, trust: TrustList, result_id: str) -> Standing:
    voiced = []
    for number, envelope in enumerate(bundle.envelopes):
        entry = open_entry(envelope)
        signers = check_signatures(envelope, trust, at=parse_time(entry.made_at)).signers
        voice = Voice(
            teams=tuple(dict.fromkeys(signer.team for signer in signers)),
            keys=tuple(signature.keyid for signature in envelope.signatures),
            revoked=tuple(signer.team for signer in signers if signer.revoked is not None),
        )
        voiced.append(VoicedEntry(number, entry, voice, bundle.checkpoint.made_at))
    return standings_among([result_id], voiced, bundle.blobs.__getitem__)[result_id]
