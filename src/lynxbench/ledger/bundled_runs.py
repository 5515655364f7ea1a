"""What a bundle brings: results with all that their figures can be computed again from, or a worked example."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lynxbench.errors import EvidenceInvalid, Refused
from lynxbench.evidence.documents import RESULT_FILE, parse_identified
from lynxbench.evidence.keys import KeyCard
from lynxbench.evidence.manifest import MANIFEST_FILE, parse_manifest
from lynxbench.evidence.run_folder import REGISTRATION_FILE
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.analysis_entries import check_analysis
from lynxbench.ledger.bundle_contents import is_other_run, runs_brought
from lynxbench.ledger.left_out_traces import ATTEMPTS, traces_of
from lynxbench.ledger.log import INVENTED_ENTRY
from lynxbench.ledger.run_owners import announced_otherwise
from lynxbench.model.canonical import short
from lynxbench.model.entries import Concluded, Entry, ResultRecorded, RunRegistered
from lynxbench.model.result import Result
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

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


def check_result_document(data: bytes, body: ResultRecorded, where: str) -> Result:
    """The result document, which is the one its entry speaks of, figure by figure; EvidenceInvalid otherwise."""
    from lynxbench.ledger.result_summary import summary_of

    result, identifier = parse_identified(data, where)
    if result.result_id != body.result_id or identifier != body.result_id:
        raise EvidenceInvalid(f"{where}: result_id does not match the content")
    if summary_of(result, nonce=body.nonce, attempts=body.attempts) != body:
        raise EvidenceInvalid(f"{where}: the entry of result {short(body.result_id)} says what the document does not")
    return result


@dataclass(frozen=True, slots=True)
class Brought:
    """What a bundle brings: entries whose signatures and proofs hold, and documents that are what their names say."""

    entries: Sequence[Entry]
    words: Mapping[str, Mapping[str, str]]
    """Of each result, the traces that somebody signed to have left out."""
    blobs: Mapping[str, bytes]
    where: str

    def document(self, sha256: str) -> bytes:
        """A document; EvidenceInvalid where it is not there."""
        if sha256 not in self.blobs:
            raise EvidenceInvalid(f"{self.where}: document {short(sha256)} is missing")
        return self.blobs[sha256]

    def missing(self, entry: Entry) -> set[str]:
        """Documents of an entry that are not here, each with a signed word on it; EvidenceInvalid without one."""
        body = entry.body
        said: Mapping[str, str] = {}
        if isinstance(body, ResultRecorded) and not entry.invented:
            said = self.words.get(body.result_id, said)
        gone: set[str] = set()
        for blob in entry.blobs:
            if blob.sha256 in said and blob.sha256 not in self.blobs:
                gone.add(blob.sha256)
            elif len(self.document(blob.sha256)) != blob.size_bytes:
                raise EvidenceInvalid(f"{self.where}: document {short(blob.sha256)} is missing")
        return gone


def refuse_incomplete(brought: Brought, results: Iterable[str], left_out: Iterable[str]) -> None:
    """EvidenceInvalid where a bundle lacks what it speaks of, unless it is a trace that was left out with a word."""
    where, entries = brought.where, brought.entries
    runs = runs_brought(entries)
    missing = {sha256 for entry in entries if not is_other_run(entry, runs) for sha256 in brought.missing(entry)}
    if missing != set(left_out):
        other = short(sorted(missing ^ set(left_out))[0])
        raise EvidenceInvalid(f"{where}: trace {other} is left out and not listed as such, or the other way round")
    stray = brought.blobs.keys() - {blob.sha256 for entry in entries for blob in entry.blobs}
    if stray:
        raise EvidenceInvalid(f"{where}: document {short(stray.pop())} belongs to no entry")
    recorded: set[str] = set()
    announced: dict[str, list[Entry]] = {}
    for entry in entries:
        if isinstance(entry.body, RunRegistered):
            announced.setdefault(entry.body.run_id, []).append(entry)
        elif isinstance(entry.body, ResultRecorded):
            recorded.add(entry.body.result_id)
            _check_recorded(brought, entry, entry.body)
            otherwise = (announced_otherwise(earlier, entry) for earlier in announced.get(entry.body.run_id, ()))
            if why := next(filter(None, otherwise), ""):
                raise EvidenceInvalid(f"{where}: run {entry.body.run_id} {why}")
    absent = set(results) - recorded
    if absent:
        raise EvidenceInvalid(f"{where}: result {short(absent.pop())} is listed and not there")
    for entry in entries:
        if isinstance(entry.body, Concluded):
            check_analysis(entry, recorded, brought.blobs, where)


def _check_recorded(brought: Brought, entry: Entry, body: ResultRecorded) -> None:
    where = brought.where
    document = next((blob for blob in entry.blobs if blob.name == RESULT_FILE), None)
    if document is None:
        raise EvidenceInvalid(f"{where}: result {short(body.result_id)} comes without its document")
    result = check_result_document(brought.document(document.sha256), body, f"{where}: {RESULT_FILE}")
    if result.invented and not entry.invented:
        raise Refused(f"{where}: {INVENTED_ENTRY}")
    if not entry.invented:
        _check_run(brought, entry, body, result)


def _check_run(brought: Brought, entry: Entry, body: ResultRecorded, result: Result) -> None:
    """EvidenceInvalid where a result comes without manifest, registration, samples or attempts, or with another's."""
    name, where = short(body.result_id), brought.where
    carried = {blob.name: blob.sha256 for blob in entry.blobs}
    if MANIFEST_FILE not in carried:
        raise EvidenceInvalid(f"{where}: result {name} comes without {MANIFEST_FILE}; export it again from its run")
    files = {file.path: file.sha256 for file in parse_manifest(brought.document(carried[MANIFEST_FILE])).files}
    samples = PurePosixPath(result.samples.file).name
    for path in (RESULT_FILE, REGISTRATION_FILE, samples):
        if path not in files:
            raise EvidenceInvalid(f"{where}: result {name} comes without {path}; export it again from its run")
    attempts = {path.split("/")[1] for path in files if path.startswith(f"{ATTEMPTS}/")}
    if not attempts:
        raise EvidenceInvalid(f"{where}: result {name} comes without its attempts; export it again from its run")
    if body.attempts < len(attempts):
        line = f"the entry of result {name} says {body.attempts} attempts, and its files are of {len(attempts)}"
        raise EvidenceInvalid(f"{where}: {line}")
    unsigned = next((path for path, sha256 in files.items() if sha256 not in carried.values()), None)
    if unsigned is not None:
        raise EvidenceInvalid(f"{where}: {unsigned} of result {name} is in its manifest and not in the bundle")
    named = (RESULT_FILE, REGISTRATION_FILE)
    if any(files[path] != carried.get(path) for path in named) or files[samples] != result.samples.sha256:
        raise EvidenceInvalid(f"{where}: the manifest of result {name} is that of other files")
    _check_registration(brought.document(files[REGISTRATION_FILE]), body, where)
    gone = {path: sha256 for path, sha256 in files.items() if sha256 not in brought.blobs}
    traces = traces_of(files, brought.document) if gone else {}
    needed = next((path for path in gone if path not in traces), None)
    if needed is not None:
        raise EvidenceInvalid(f"{where}: {needed} of result {name} is left out, and is no trace: its figures need it")


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
