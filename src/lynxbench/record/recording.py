"""A run into the ledger: announced before its first sample, recorded when it ends, whatever it ends in.

A ledger that fails never costs a run: the folder holds everything, and can be recorded later.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from lynxbench.errors import BadResult, EvidenceInvalid, KeyNotReady, LynxbenchError, Refused
from lynxbench.evidence.documents import RESULT_FILE, read_result
from lynxbench.evidence.envelope import Envelope, parse_envelope
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.manifest import (
    ENVELOPE_FILE,
    MANIFEST_FILE,
    REGISTERED_FILE,
    RunManifest,
    differences,
    read_manifest,
    take_manifest,
)
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.evidence.statement import open_entry, seal_entry
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger.blobs import BlobStore
from lynxbench.ledger.location import Location, OpenLedger, locate, open_ledger
from lynxbench.ledger.log import INVENTED_ENTRY
from lynxbench.ledger.queries import entries_about, entries_of_contract, find_result, find_run
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import (
    Blob,
    ContractAgreed,
    Entry,
    EntryBody,
    EntryKind,
    ForeignImported,
    ResultRecorded,
    ResultRerun,
    RunAbandoned,
    RunRegistered,
)
from lynxbench.record.formats.foreign_results import ForeignTool, read_foreign
from lynxbench.record.remote import SERVER_VARIABLE, remote_from
from lynxbench.record.rerunning import Rerun

MAX_REASON = 4000
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 128

AnyOutcome = TypeVar("AnyOutcome")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A result in a ledger."""

    result_id: str
    seq: int
    new: bool
    """False where the ledger had it already."""


class LedgerRecorder:
    """Records one run; what goes wrong is kept as a line for people and never stops the run."""

    def __init__(self, location: Location, environment: Mapping[str, str]) -> None:
        self._location = location
        self._environment = environment
        self._keys = Keyring(environment=environment)
        self.recorded: Recorded | None = None
        self.problem: str | None = None
        self.news: str | None = None

    def choose_key(self) -> None:
        """Choose the key that will sign before anything is measured; KeyNotReady where that is not settled.

        What else may be wrong with keys or ledger costs no run, and is told at its end.
        """
        try:
            self.news = self._keys.signing_key(datetime.now(UTC)).news or self.news
        except KeyNotReady:
            raise
        except (LynxbenchError, OSError) as error:
            self.problem = self.problem or str(error)

    def register(self, run: RunFolder) -> None:
        """Announce the run before its first sample, also to the server where one is known; a resumed one is already."""
        try:
            chosen = self._keys.signing_key(datetime.now(UTC))
            self.news = chosen.news or self.news
            leave_announcement(run, chosen.key)
        except (LynxbenchError, OSError) as error:
            self.problem = self.problem or str(error)
        envelope = self.take(lambda ledger, key: ledger.log.read(register_run(ledger, run, key)).envelope)
        if envelope is not None and self._environment.get(SERVER_VARIABLE):
            self._announce(envelope)

    def abandon(self, run: RunFolder, reason: str) -> None:
        """Say that the run ended without a result, and why."""
        self.take(lambda ledger, key: abandon_run(ledger, run, reason, key))

    def record(self, folder: Path) -> None:
        """Record the finished run."""

        self.recorded = self.take(lambda ledger, key: record_folder(ledger, folder, key)) or self.recorded

    def append(self, body: EntryBody) -> int | None:
        """Say one more thing about the run, signed; its number, or None where the ledger could not take it."""
        return self.take(lambda ledger, key: ledger.log.append(seal(body, key)))

    def _announce(self, envelope: Envelope) -> None:
        """Have the server log the registration by its own clock; that it could not is told, and stops nothing."""
        try:
            remote_from(None, None, self._environment).register(envelope)
        except LynxbenchError as error:
            told = f"not announced before the run: {error}"
            self.news = told if self.news is None else f"{self.news}; {told}"

    def take(self, work: Callable[[OpenLedger, SigningKey], AnyOutcome]) -> AnyOutcome | None:
        """Do anything with the ledger in the same way; None where it could not be done."""
        try:
            chosen = self._keys.signing_key(datetime.now(UTC))
            self.news = chosen.news or self.news
            with open_ledger(self._location, self._environment, create=True) as ledger:
                outcome = work(ledger, chosen.key)
                ledger.seen.check(ledger.log)
        except LynxbenchError as error:
            self.problem = self.problem or str(error)
            return None
        return outcome


def recorder_at(ledger: str | None, environment: Mapping[str, str]) -> LedgerRecorder | None:
    """Who records a run in the ledger that is meant, with the key that will sign; None where none is wanted."""
    location = locate(ledger, environment)
    if location is None:
        return None
    recorder = LedgerRecorder(location, environment)
    recorder.choose_key()
    return recorder


def register_run(ledger: OpenLedger, run: RunFolder, key: SigningKey) -> int:
    """Append the contract, where the ledger does not know it, and the announcement of the run."""
    registration = run.registration
    earlier = find_run(ledger.log, registration.run_id, EntryKind.REGISTRATION)
    if earlier:
        return earlier[0].seq
    data = (run.path / REGISTRATION_FILE).read_bytes()
    ledger.blobs.put(data)
    agreed = _contract_entry(ledger, run, key)
    envelope = seal(_announcement(run), key, (blob_of(REGISTRATION_FILE, data),))
    return ledger.log.append_all([*agreed, envelope])[-1]


def leave_announcement(run: RunFolder, key: SigningKey) -> None:
    """Sign the announcement beside the run as well: where no ledger takes it, it shows later whose run it is."""
    file = run.path / REGISTERED_FILE
    if not file.exists():
        write_text(file, seal(_announcement(run), key).to_bytes().decode("utf-8"))


def _announcement(run: RunFolder) -> RunRegistered:
    registration = run.registration
    return RunRegistered(
        run_id=registration.run_id,
        nonce=registration.nonce,
        contract_id=registration.contract_id,
        executor_id=registration.executor.executor_id,
        processes_planned=len(registration.plan),
    )


def abandon_run(ledger: OpenLedger, run: RunFolder, reason: str, key: SigningKey) -> int:
    """Append that a run ended without a result."""
    registration = run.registration
    body = RunAbandoned(
        run_id=registration.run_id,
        nonce=registration.nonce,
        contract_id=registration.contract_id,
        attempts=_attempts(run.path),
        reason=reason[:MAX_REASON] or "no reason given",
    )
    return ledger.log.append(seal(body, key))


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a run, or its result document."""
    return path.is_dir() or path.name == RESULT_FILE


def record_folder(ledger: OpenLedger, folder: Path, key: SigningKey) -> Recorded:
    """Append the result of a finished run, its documents first. Recording it again changes nothing."""
    folder = folder if folder.is_dir() else folder.parent
    result = read_result(folder)
    if result.invented:
        raise Refused(f"{folder}: {INVENTED_ENTRY}")
    known = find_result(ledger.log, result.result_id)
    if known is not None:
        return Recorded(result.result_id, known.seq, new=False)
    run = RunFolder.open(folder)
    if (result.run_id, result.contract_id) != (run.registration.run_id, run.registration.contract_id):
        raise BadResult(f"{folder}: {RESULT_FILE} and {REGISTRATION_FILE} are of two different runs")
    blobs = keep_files(ledger.blobs, folder)
    body = summary_of(result, nonce=run.registration.nonce, attempts=_attempts(folder))
    envelope = _sealed_before(folder, body, blobs) or seal(body, key, blobs)
    seq = ledger.log.append_all([*_contract_entry(ledger, run, key), envelope])[-1]
    write_text(folder / ENVELOPE_FILE, envelope.to_bytes().decode("utf-8"))
    return Recorded(result.result_id, seq, new=True)


def record_rerun(recorder: LedgerRecorder | None, result_id: str, rerun_id: str, judged: Rerun) -> int | None:
    """Append what a rerun says about a result, once the rerun itself is recorded."""
    if recorder is None or recorder.recorded is None:
        return None
    body = ResultRerun(
        result_id=result_id,
        rerun_id=rerun_id,
        verdict=judged.verdict,
        effects=dict(judged.effects),
        differing=judged.differing,
    )
    return recorder.append(body)


def record_foreign(
    ledger: OpenLedger, path: Path, tool: ForeignTool, key: SigningKey
) -> tuple[Recorded, ForeignImported]:
    """Append a result of another tool, its file first. The same file again changes nothing."""
    body = read_foreign(path, tool)
    data = path.read_bytes()
    blob = blob_of(_flat(path.name, 0), data)
    for known in entries_about(ledger.log, [blob.sha256], [EntryKind.FOREIGN]):
        if known.entry.body == body:
            return Recorded(blob.sha256, known.seq, new=False), body
    ledger.blobs.put(data)
    return Recorded(blob.sha256, ledger.log.append(seal(body, key, (blob,))), new=True), body


def keep_files(store: BlobStore, folder: Path) -> tuple[Blob, ...]:
    """Keep every file of a finished run by its content; refuse a folder that changed since it was sealed."""
    manifest = read_manifest(folder) or take_manifest(folder)
    changed = differences(folder, manifest)
    if changed:
        path, before, now = folder / changed[0].path, changed[0].stated, changed[0].actual
        raise EvidenceInvalid(f"{path}: {before} when the run ended, {now} now; not recorded")
    blobs = [Blob(name=MANIFEST_FILE, sha256=store.put(manifest.to_bytes()), size_bytes=len(manifest.to_bytes()))]
    for file, name in zip(manifest.files, _names(manifest), strict=True):
        if not store.has(file.sha256) and store.put((folder / file.path).read_bytes()) != file.sha256:
            raise EvidenceInvalid(f"{folder / file.path}: changed while it was being recorded")
        blobs.append(Blob(name=name, sha256=file.sha256, size_bytes=file.size_bytes))
    return tuple(blobs)


def seal(body: EntryBody, key: SigningKey, blobs: tuple[Blob, ...] = (), *, invented: bool = False) -> Envelope:
    """Sign a statement made now; an `invented` one says so."""
    made_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return seal_entry(Entry(made_at=made_at, body=body, blobs=blobs, invented=invented), [key])


def _contract_entry(ledger: OpenLedger, run: RunFolder, key: SigningKey) -> list[Envelope]:
    contract = run.registration.contract
    if entries_of_contract(ledger.log, contract.contract_id, [EntryKind.CONTRACT]):
        return []
    return [seal(ContractAgreed(contract_id=contract.contract_id, contract=contract), key)]


def _sealed_before(folder: Path, body: ResultRecorded, blobs: tuple[Blob, ...]) -> Envelope | None:
    """The entry that was signed for this folder already, in another ledger perhaps: one result, one entry."""
    file = folder / ENVELOPE_FILE
    if file.is_symlink() or not file.is_file():
        return None
    envelope = parse_envelope(file.read_bytes())
    entry = open_entry(envelope)
    if entry.body != body or entry.blobs != blobs:
        raise EvidenceInvalid(f"{file}: signed for other files than these; it is not the entry of this result")
    return envelope


def _names(manifest: RunManifest) -> list[str]:
    """Flat names for the entry, each once; where a file belongs is said by the manifest."""
    taken = {MANIFEST_FILE}
    names = []
    for number, file in enumerate(manifest.files):
        name = _flat(file.path, number)
        if name in taken:
            name = f"{number}.{name}"[:_MAX_NAME]
        taken.add(name)
        names.append(name)
    return names


def _flat(path: str, number: int) -> str:
    name = _ODD.sub("_", path.replace("/", "."))[-_MAX_NAME:]
    return name if name[:1].isalnum() else f"{number}.{name}"[:_MAX_NAME]


def blob_of(name: str, data: bytes) -> Blob:
    """What an entry says of a file that it brings."""
    return Blob(name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def _attempts(folder: Path) -> int:
    return sum(path.is_dir() for path in (folder / "attempts").glob("*"))
