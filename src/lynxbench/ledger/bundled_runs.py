"""What a bundle brings: results with all that their figures can be computed again from, or a worked example."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from lynxbench.errors import EvidenceInvalid, Refused
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.keys import KeyCard
from lynxbench.evidence.manifest import MANIFEST_FILE, parse_manifest
from lynxbench.evidence.run_folder import REGISTRATION_FILE
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.log import INVENTED_ENTRY
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, ResultRecorded
from lynxbench.model.result import Result
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

ATTEMPTS = "attempts"
_BOUND = ("run_id", "nonce", "contract_id")
"""What ties a registration to the result of its run."""


def is_example(entries: Sequence[Entry], where: str, *, asked: bool) -> bool:
    """Whether a bundle is a worked example; one that nobody asked for, or that is one in part, is refused."""
    invented = {entry.invented for entry in entries}
    if True in invented and not asked:
        raise Refused(f"{where}: {INVENTED_ENTRY}")
    if len(invented) > 1:
        raise EvidenceInvalid(f"{where}: says of some entries that they are invented, and of others not")
    return True in invented


def trust_in(cards: Sequence[KeyCard]) -> TrustList:
    """Whoever signed an example is nobody: its own keys show that its bytes are whole, and no more."""
    trust = TrustList()
    for card in cards:
        trust = trust.adding(card, parse_time(card.made_at))
    return trust


def check_run(entry: Entry, body: ResultRecorded, result: Result, blobs: Mapping[str, bytes], where: str) -> None:
    """EvidenceInvalid where a result comes without manifest, registration, samples or attempts, or with another's."""
    name = short(body.result_id)
    carried = {blob.name: blob.sha256 for blob in entry.blobs}
    if MANIFEST_FILE not in carried:
        raise EvidenceInvalid(f"{where}: result {name} comes without {MANIFEST_FILE}; export it again from its run")
    files = {file.path: file.sha256 for file in parse_manifest(blobs[carried[MANIFEST_FILE]]).files}
    samples = PurePosixPath(result.samples.file).name
    for path in (RESULT_FILE, REGISTRATION_FILE, samples):
        if path not in files:
            raise EvidenceInvalid(f"{where}: result {name} comes without {path}; export it again from its run")
    if not any(path.startswith(f"{ATTEMPTS}/") for path in files):
        raise EvidenceInvalid(f"{where}: result {name} comes without its attempts; export it again from its run")
    left_out = next((path for path, sha256 in files.items() if sha256 not in carried.values()), None)
    if left_out is not None:
        raise EvidenceInvalid(f"{where}: {left_out} of result {name} is in its manifest and not in the bundle")
    if files[RESULT_FILE] != carried[RESULT_FILE] or files[samples] != result.samples.sha256:
        raise EvidenceInvalid(f"{where}: the manifest of result {name} is that of other files")
    _check_registration(blobs[files[REGISTRATION_FILE]], body, where)


def _check_registration(data: bytes, body: ResultRecorded, where: str) -> None:
    try:
        registration = parse_strict_json(data.decode("utf-8"))
    except (UnicodeDecodeError, NotStrictJson) as error:
        raise EvidenceInvalid(f"{where}: {REGISTRATION_FILE}: {error}") from None
    stated = registration if isinstance(registration, dict) else {}
    other = next((key for key in _BOUND if stated.get(key) != getattr(body, key)), None)
    if other is not None:
        line = f"{where}: {REGISTRATION_FILE} of result {short(body.result_id)} has another {other}: not of this run"
        raise EvidenceInvalid(line)
