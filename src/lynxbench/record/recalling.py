"""A result out of the ledger again: by path, id or unique beginning, with its files laid out as the run left them."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lynxbench.errors import BadInput, BadLedger, EvidenceInvalid
from lynxbench.evidence.documents import RESULT_FILE, parse_sealed, read_result
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.manifest import ENVELOPE_FILE, MANIFEST_FILE, parse_manifest
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.archive import is_archive
from lynxbench.ledger.bundled_runs import check_result_document
from lynxbench.ledger.key_log import logged_trust, read_key_log
from lynxbench.ledger.left_out_traces import traces_of, words_by_result
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.ledger.log import Logged
from lynxbench.ledger.merkle import includes
from lynxbench.ledger.names import find_id, is_name, looks_like_id
from lynxbench.ledger.queries import entries_about, find_result, find_run
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.run_owners import announced_otherwise
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, EntryKind, ResultRecorded, ResultVerified
from lynxbench.model.result import Result
from lynxbench.model.standing import Announcement, Standing
from lynxbench.model.verification import Check, cannot, fails, holds


@dataclass(frozen=True, slots=True)
class Recalled:
    """A result that a person named, with its folder, and its standing where a ledger knows it."""

    result: Result
    folder: Path
    standing: Standing | None


@contextmanager
def recalled(named: str, ledger_name: str | None, environment: Mapping[str, str]) -> Iterator[Recalled]:
    """A result by path, id or name; one from the ledger is laid out in a folder that lives as long."""
    path = Path(named)
    if path.exists():
        if path.is_file() and is_archive(path):
            raise BadInput(f"{path}: a bundle; take it in (lynxbench results import), then name its result by its id")
        folder = path if path.is_dir() else path.parent
        result = read_result(path)
        yield Recalled(result, folder, standing_if_known(result.result_id, ledger_name, environment))
        return
    if not looks_like_id(named) and not (is_name(named) and _has_ledger(ledger_name, environment)):
        raise BadInput(f"{named}: no such file or folder, and no id or name of a result")
    trust = Keyring(environment=environment).trust
    with opened(ledger_name, environment) as ledger, tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        result_id = find_id(ledger.log, named, "result")
        folder = Path(temporary) / short(result_id)
        lay_out(ledger, result_id, folder)
        yield Recalled(read_result(folder), folder, standings(ledger.log, [result_id], trust)[result_id])


def _has_ledger(ledger_name: str | None, environment: Mapping[str, str]) -> bool:
    """Whether there is a ledger that could know a name."""
    try:
        with opened(ledger_name, environment):
            return True
    except BadLedger:
        return False


def standing_if_known(result_id: str, ledger_name: str | None, environment: Mapping[str, str]) -> Standing | None:
    """The standing of a result, where the ledger is there and has it."""
    try:
        with opened(ledger_name, environment) as ledger:
            if find_result(ledger.log, result_id) is None:
                return None
            return standings(ledger.log, [result_id], Keyring(environment=environment).trust)[result_id]
    except BadLedger:
        return None


def result_document(ledger: OpenLedger, result_id: str) -> Result:
    """The result document of an id, read strictly and held against its entry."""
    return document_of(ledger, _recorded(ledger, result_id))


def document_of(ledger: OpenLedger, recorded: Logged) -> Result:
    """The result document of an entry that was read already, held against it."""
    data = ledger.blobs.get(_sha256_of(recorded, RESULT_FILE))
    body = recorded.entry.body
    assert isinstance(body, ResultRecorded)
    return check_result_document(data, body, f"result {short(body.result_id)}")


def sealed_document(ledger: OpenLedger, recorded: Logged) -> Result:
    """The same, without computing the id and the figures again: for views over many results.

    The bytes are those that the signed entry names, since the store hashes what it reads, and they were held against it
    when it was recorded. `verify` computes all of it again.
    """
    body = recorded.entry.body
    assert isinstance(body, ResultRecorded)
    where = f"result {short(body.result_id)}"
    result = parse_sealed(ledger.blobs.get(_sha256_of(recorded, RESULT_FILE)), where)
    if result.result_id != body.result_id:
        raise EvidenceInvalid(f"{where}: its entry names the document of {short(result.result_id)}")
    return result


def lay_out(ledger: OpenLedger, result_id: str, folder: Path) -> dict[str, str]:
    """Write the files of a result into a new folder, each at the place that the run's manifest gives it.

    Returns the traces that a bundle came without, by path, with who left them out.
    """
    recorded = _recorded(ledger, result_id)
    told = entries_about(ledger.log, [result_id], [EntryKind.LEFT_OUT])
    words = words_by_result((logged.entry, logged.envelope) for logged in told).get(result_id, {})
    missing = {sha256: said for sha256, said in words.items() if not ledger.blobs.has(sha256)}
    return lay_out_files(recorded.entry, recorded.envelope, ledger.blobs.get, folder, missing)


def lay_out_files(
    entry: Entry, envelope: Envelope, document: Callable[[str], bytes], folder: Path, missing: Mapping[str, str]
) -> dict[str, str]:
    """The same, wherever the documents come from; an entry without a manifest has its result document alone."""
    named = {blob.name: blob.sha256 for blob in entry.blobs}
    if RESULT_FILE not in named:
        raise EvidenceInvalid(f"the entry of this result names no {RESULT_FILE}")
    paths = {RESULT_FILE: named[RESULT_FILE]}
    try:
        folder.mkdir(parents=True)
        (folder / ENVELOPE_FILE).write_bytes(envelope.to_bytes())
        if MANIFEST_FILE in named:
            data = document(named[MANIFEST_FILE])
            (folder / MANIFEST_FILE).write_bytes(data)
            paths |= {file.path: file.sha256 for file in parse_manifest(data).files}
        traces = traces_of(paths, document) if missing else {}
        left_out = {path: missing[sha256] for path, sha256 in traces.items() if sha256 in missing}
        for path, sha256 in paths.items():  # below the folder alone: the manifest's own rule
            if path in left_out:
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(document(sha256))
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror or error}") from error
    return left_out


def ledger_checks(
    ledger: OpenLedger, result_id: str, trust: TrustList, standing: Standing | None = None
) -> tuple[Check, ...]:
    """What the ledger adds to verifying a result: signatures, inclusion, registration in advance, its standing."""
    recorded = find_result(ledger.log, result_id)
    if recorded is None:
        return (cannot("log inclusion", f"{ledger.log.database.name} does not hold this result"),)
    body = recorded.entry.body
    assert isinstance(body, ResultRecorded)
    # Verifications count towards the reader's thresholds beside the result's own signers.
    verified = [
        logged
        for logged in entries_about(ledger.log, [body.result_id])
        if isinstance(logged.entry.body, ResultVerified) and logged.entry.body.verifies
    ]
    checks = check_entry(ledger, recorded, trust, verified)
    if standing is None:
        standing = standings(ledger.log, [result_id], trust)[result_id]
    announced = standing.announced or Announcement.NEVER
    say = holds if announced is Announcement.IN_ADVANCE else cannot
    checks.append(say("registration", announced.value))
    registrations = find_run(ledger.log, body.run_id, EntryKind.REGISTRATION)
    earlier = (logged.entry for logged in registrations if logged.seq < recorded.seq)  # anybody can write one after it
    otherwise = (announced_otherwise(entry, recorded.entry) for entry in earlier)
    checks += [fails("registration", f"the run {why}") for why in otherwise if why]
    if standing.chosen_from:
        runs = f"{standing.chosen_from} runs of this contract and team have a result here"
        checks.append(cannot("registered runs", runs))
    checks += [cannot("standing", f"contested by {voice.by}: {voice.text}") for voice in standing.contested]
    checks += [fails("standing", f"retracted by {voice.by}: {voice.text}") for voice in standing.retracted]
    return tuple(checks)


def check_entry(
    ledger: OpenLedger, logged: Logged, trust: TrustList, beside: Sequence[Logged] | None = None
) -> list[Check]:
    """That an entry is in the log, and who signed it; with others `beside` it, whether that is enough signers."""
    proof = ledger.log.prove(logged.seq)
    place = f"entry {logged.seq} of {proof.head.size}"
    proven = includes(proof.leaf, proof.seq, proof.head.size, proof.path, proof.head.root)
    inside = holds("log inclusion", place) if proven else fails("log inclusion", f"{place} has no path to the root")
    among = {signed.keyid for entry in (logged, *(beside or ())) for signed in entry.envelope.signatures}
    trusted = logged_trust(ledger.log, trust, among)
    try:
        checked = trusted.check(logged)
    except EvidenceInvalid as error:
        return [inside, fails("signatures", str(error))]
    if not checked.signers:
        return [inside, fails("signatures", "; ".join(checked.ignored))]
    names = f"by {', '.join(dict.fromkeys(signer.team for signer in checked.signers))}"
    missing: tuple[str, ...] = ()
    if beside is not None:
        more = [s for other in beside for s in trusted.check(other).signers]
        missing = trust.shortfalls([*checked.signers, *more])
    signed = fails("signatures", "; ".join((names, *missing))) if missing else holds("signatures", names)
    otherwise = read_key_log(ledger.log, trust).disagreements(trust, {signer.keyid for signer in checked.signers})
    return [inside, signed, *(cannot("key log", line) for line in otherwise)]


def _recorded(ledger: OpenLedger, result_id: str) -> Logged:
    recorded = find_result(ledger.log, result_id)
    if recorded is None:
        raise BadInput(f"{short(result_id)}: no such result in {ledger.log.database.name}")
    return recorded


def _sha256_of(recorded: Logged, name: str) -> str:
    blob = next((blob for blob in recorded.entry.blobs if blob.name == name), None)
    if blob is None:
        raise EvidenceInvalid(f"entry {recorded.seq} names no {name}")
    return blob.sha256
