"""Results out of a bundle, without a ledger: laid out as their runs left them, and computed again."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.statement import open_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.bundle import Bundle
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, ResultRecorded
from lynxbench.model.verification import VerificationReport
from lynxbench.record.recalling import lay_out_files
from lynxbench.record.signature_check import check_envelope
from lynxbench.record.verifying import verify_folder


def verify_bundled(bundle: Bundle, results: Iterable[str], trust: TrustList) -> tuple[VerificationReport, ...]:
    """Each of these results computed again from what the bundle holds of it."""
    reports = []
    for result_id in results:
        with laid_out(bundle, result_id) as folder:
            reports.append(verify_folder(folder, check_envelope(folder, trust)))
    return tuple(reports)


@contextmanager
def laid_out(bundle: Bundle, result_id: str) -> Iterator[Path]:
    """The files of one result of a bundle in a folder that lives as long."""
    entry, envelope = _recorded(bundle, result_id)

    def document(sha256: str) -> bytes:
        if sha256 not in bundle.blobs:
            raise EvidenceInvalid(f"result {short(result_id)}: document {short(sha256)} is not in the bundle")
        return bundle.blobs[sha256]

    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        folder = Path(temporary) / short(result_id)
        lay_out_files(entry, envelope, document, folder)
        yield folder


def _recorded(bundle: Bundle, result_id: str) -> tuple[Entry, Envelope]:
    for envelope in bundle.envelopes:
        entry = open_entry(envelope)
        if isinstance(entry.body, ResultRecorded) and entry.body.result_id == result_id:
            return entry, envelope
    raise EvidenceInvalid(f"result {short(result_id)} is not in the bundle")
