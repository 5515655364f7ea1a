"""Entries about several results at once: found, read strictly, and held against the analysis that they bring."""

import hashlib
from collections.abc import Mapping, Set

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_document
from lynxbench.model.analyses import FILES, FORMS, AnalysisDocument, conclude
from lynxbench.model.canonical import short
from lynxbench.model.entries import Concluded, Entry, EntryBody

MOST_ANALYSIS_BYTES = 64 << 20


def cited_by(body: EntryBody) -> Set[str]:
    """The results that an analysis is made from; of any other entry, none."""
    return set(body.cites) if isinstance(body, Concluded) else set()


def parse_analysis(data: bytes, body: Concluded, where: str) -> AnalysisDocument:
    """The analysis of an entry: canonical, and saying what the entry says; EvidenceInvalid otherwise."""
    document = parse_document(data, where, MOST_ANALYSIS_BYTES, FORMS[body.kind])
    assert isinstance(document, AnalysisDocument)
    # the id is of the bytes: a field that a later version adds must not change what an older one signed
    if hashlib.sha256(data).hexdigest() != body.analysis_id:
        raise EvidenceInvalid(f"{where}: another analysis than the one that the entry is of")
    if conclude(document, body.cites, body.without_result).model_copy(update={"analysis_id": body.analysis_id}) != body:
        raise EvidenceInvalid(f"{where}: the entry says what its analysis does not")
    return document


def check_analysis(entry: Entry, recorded: Set[str], blobs: Mapping[str, bytes], where: str) -> None:
    """That an analysis came whole: its own documents, and every result that it is made from."""
    body = entry.body
    assert isinstance(body, Concluded)
    label = f"{where}: {body.kind.value} {short(body.analysis_id)}"
    named = {blob.name: blob.sha256 for blob in entry.blobs}
    wanted = FILES[body.kind]
    if set(named) != set(wanted) or named[wanted[0]] != body.analysis_id:
        raise EvidenceInvalid(f"{label} must bring {', '.join(wanted)}, the first of them its analysis")
    missing = sorted(set(body.cites) - recorded)
    if missing:
        raise EvidenceInvalid(f"{label} comes without result {short(missing[0])}, which it is made from")
    parse_analysis(blobs[body.analysis_id], body, label)
