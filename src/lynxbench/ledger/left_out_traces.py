"""Traces that a bundle leaves out: which files may be, and the signed word without which nothing may be missing.

A profiler's trace says where the time went and gives no figure: without it everything but the attribution can be
computed again. The word is an entry of the exporter's log, so it travels with the result from ledger to ledger.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.manifest import MANIFEST_FILE, parse_manifest
from lynxbench.evidence.statement import seal_entry
from lynxbench.ledger.blobs import BlobStore
from lynxbench.ledger.log import Logged
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, ResultRecorded, TracesLeftOut
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

ATTEMPTS, REPORT = "attempts", "report.json"
"""Where a process of a run says what its trace is called: attempts/NAME/report.json."""


def traces_of(files: Mapping[str, str], document: Callable[[str], bytes]) -> dict[str, str]:
    """Path → SHA-256 of the traces in a run's manifest, each named by the report of the process that left it."""
    traces: dict[str, str] = {}
    for path, sha256 in files.items():
        folder, _, name = path.rpartition("/")
        if name == REPORT and folder.startswith(f"{ATTEMPTS}/"):
            trace = f"{folder}/{_named_trace(document(sha256))}"
            if trace in files and trace != path:
                traces[trace] = files[trace]
    return traces


def words_by_result(entries: Iterable[tuple[Entry, Envelope]]) -> dict[str, dict[str, str]]:
    """Of each result: SHA-256 of a trace → who left it out of a bundle and when, as these entries have it."""
    words: dict[str, dict[str, str]] = {}
    for entry, envelope in entries:
        if isinstance(entry.body, TracesLeftOut):
            keys = ", ".join(short(signature.keyid) for signature in envelope.signatures)
            said = f"left out of a bundle on {entry.made_at[:10]} by key {keys}"
            words.setdefault(entry.body.result_id, {}).update(dict.fromkeys(entry.body.traces, said))
    return words


def tell_of_traces(about: Iterable[Logged], store: BlobStore, key: SigningKey, now: datetime) -> list[Envelope]:
    """The exporter's signed words on the traces that these results have here, where they are not said yet."""
    about = list(about)
    mine = [logged for logged in about if key.keyid in {signed.keyid for signed in logged.envelope.signatures}]
    own = words_by_result((logged.entry, logged.envelope) for logged in mine)
    words = []
    for logged in about:
        body = logged.entry.body
        if isinstance(body, ResultRecorded) and not logged.entry.invented:
            here = {sha256 for sha256 in _traces(logged.entry, store) if store.has(sha256)}
            traces = tuple(sorted(here - own.get(body.result_id, {}).keys()))
            if traces:
                said = TracesLeftOut(result_id=body.result_id, traces=traces)
                words.append(seal_entry(Entry(made_at=now.isoformat(timespec="milliseconds"), body=said), [key]))
    return words


def left_out_of(brought: Iterable[Logged], about: Iterable[Logged], store: BlobStore, *, asked: bool) -> set[str]:
    """Documents that a bundle does without: traces with a word on them, where it is asked for or they are not here."""
    words = words_by_result((logged.entry, logged.envelope) for logged in about)
    left_out, needed = set[str](), set[str]()
    for logged in brought:
        body = logged.entry.body
        said = set[str]()
        if isinstance(body, ResultRecorded) and body.result_id in words:
            said = words[body.result_id].keys() & _traces(logged.entry, store)
        for sha256 in (blob.sha256 for blob in logged.entry.blobs):
            (left_out if sha256 in said and (asked or not store.has(sha256)) else needed).add(sha256)
    return left_out - needed


def _traces(entry: Entry, store: BlobStore) -> set[str]:
    """The traces of a result; one whose bytes are those of another file too, as an empty one's, is not left out."""
    listed = next((blob.sha256 for blob in entry.blobs if blob.name == MANIFEST_FILE), None)
    files = {} if listed is None else {file.path: file.sha256 for file in parse_manifest(store.get(listed)).files}
    traces = traces_of(files, store.get)
    return set(traces.values()) - {sha256 for path, sha256 in files.items() if path not in traces}


def _named_trace(report: bytes) -> str:
    """The name in a process's report; of one that cannot be read, none."""
    try:
        stated = parse_strict_json(report.decode("utf-8"))
    except (UnicodeDecodeError, NotStrictJson):
        return ""
    trace = stated.get("trace") if isinstance(stated, dict) else None
    return trace if isinstance(trace, str) else ""
