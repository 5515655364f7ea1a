"""Decisions into the ledger, and the procurement pack: one signed bundle, pages for people, JSON for machines."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter, ValidationError

from lynxbench import __version__
from lynxbench.decide.deciding import compare_cited, read_folder, under_its_contract
from lynxbench.decide.decision_gate import claims_too_much, hold_back, is_held_back
from lynxbench.decide.following import straying
from lynxbench.decide.pack_words import limitations_of, methodology_for
from lynxbench.errors import BadFile, BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.documents import RESULT_FILE, parse_result
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import open_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger.bundle import Bundle, export_bundle, read_bundle
from lynxbench.ledger.location import OpenLedger, locate, open_ledger, opened
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import find_result
from lynxbench.ledger.result_standings import standings, standings_among, voice_of
from lynxbench.model.canonical import short
from lynxbench.model.claims import ClaimReport
from lynxbench.model.decisions import PurchaseDecision
from lynxbench.model.document import first_problem
from lynxbench.model.entries import Blob, ChangeDeclared, DecisionTaken
from lynxbench.model.packs import Pack, PackedDecision
from lynxbench.model.standing import Standing, VoicedEntry
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.model.verification import VerificationReport
from lynxbench.reading import read_text
from lynxbench.record.bundled_results import ReadBundle, claimed_trust, verify_bundled
from lynxbench.record.owning import refuse_strangers
from lynxbench.record.recalling import result_document
from lynxbench.record.recording import record_folder, seal
from lynxbench.report.documents.pack_document import compose_pack
from lynxbench.report.render_html import render_html

if TYPE_CHECKING:
    from lynxbench.report.documents.decision_document import Decision

PACK_JSON, PACK_HTML, PACK_PDF = "pack.json", "pack.html", "pack.pdf"
NO_PDF = 'no PDF: install the extra `pdf` (pip install "lynxbench[pdf]"); the HTML prints the same pages'
LARGEST_DECISION_BYTES = 16 << 20
_DECISION: TypeAdapter[PackedDecision] = TypeAdapter(PackedDecision)


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision in a ledger, and the follow-up that it declared."""

    seq: int
    team: str
    change_id: str | None

    @property
    def line(self) -> str:
        """For people."""
        line = f"recorded by {self.team} as entry {self.seq}"
        if self.change_id is not None:
            line += (
                f"; follow-up {short(self.change_id)}: lynxbench change measure {short(self.change_id)} BEFORE AFTER"
            )
        return line

    def document(self) -> dict[str, JsonValue]:
        """For machines."""
        return {"seq": self.seq, "team": self.team, "change_id": self.change_id}


@dataclass(frozen=True, slots=True)
class MadePack:
    """What was written where."""

    bundle: Path
    html: Path
    json: Path
    pdf: Path | None
    pdf_wanted: bool
    results: int
    entries: int
    team: str
    held_back: tuple[str, ...] = ()
    """Decisions that lack the agreement they ask for, in words."""

    def lines(self) -> list[str]:
        """For people."""
        pdf = [f"pdf     {self.pdf}"] if self.pdf is not None else [NO_PDF] if self.pdf_wanted else []
        return [
            f"pack    {self.bundle}  ({self.results} results, {self.entries} signed entries, by {self.team})",
            f"html    {self.html}",
            f"json    {self.json}",
            *pdf,
            *self.held_back,
            f"verify  lynxbench verify {self.bundle}",
        ]

    def document(self) -> dict[str, JsonValue]:
        """For machines."""
        return {
            "pack": str(self.bundle),
            "html": str(self.html),
            "json": str(self.json),
            "pdf": None if self.pdf is None else str(self.pdf),
            "results": self.results,
            "entries": self.entries,
            "team": self.team,
            **({"held_back": list(self.held_back)} if self.held_back else {}),
        }


@dataclass(frozen=True, slots=True)
class VerifiedPack:
    """A pack whose every byte, signature and proof holds."""

    pack: Pack
    teams: tuple[str, ...]
    entries: int
    origin: str
    reports: tuple[VerificationReport, ...]
    """Each result that it rests on, computed again."""


def record_decision(decision: Decision, ledger: str | None) -> RecordedDecision:
    """Append a signed decision, and for a purchase with a follow-up the change that `change measure` closes."""
    if isinstance(decision, ClaimReport):
        raise BadInput("a linted claim is no decision; nothing is recorded")
    key = Keyring().signing_key(datetime.now(UTC)).key
    with opened(ledger, os.environ, create=True) as open_:
        done = append_decision(open_, decision, key)
        open_.seen.check(open_.log)
    return done


def append_decision(
    ledger: OpenLedger,
    decision: PackedDecision,
    key: SigningKey,
    blobs: tuple[Blob, ...] = (),
    *,
    invented: bool = False,
) -> RecordedDecision:
    """The same into an open ledger, with documents where a pack brings them."""
    follow_up = decision.follow_up if isinstance(decision, PurchaseDecision) else None
    envelopes = [seal(_entry(decision), key, blobs, invented=invented)]
    change: ChangeDeclared | None = None
    if follow_up is not None:
        change = ChangeDeclared(
            contract_id=follow_up.contract_id,
            layer=follow_up.layer,
            owner=follow_up.remeasured_by,
            what=follow_up.what,
            expected=follow_up.expected,
        )
        envelopes.append(seal(change, key, invented=invented))
    numbers = ledger.log.append_all(envelopes)
    return RecordedDecision(numbers[0], key.team, None if change is None else change.change_id)


def make_pack(
    files: Sequence[Path],
    folders: Sequence[Path],
    output: Path,
    title: str,
    ledger: str | None,
    environment: Mapping[str, str],
    pdf: bool = True,
) -> MadePack:
    """Read decisions, gather what they cite, and write the bundle with its pages beside it."""
    decisions = [read_decision(file) for file in files]
    keyring = Keyring(environment=environment)
    key = keyring.signing_key(datetime.now(UTC)).key
    with _ledger_of(decisions, folders, ledger, environment, key) as open_:
        return pack_into(open_, decisions, output, title, key, keyring.trust, pdf=pdf)


def pack_into(
    ledger: OpenLedger,
    decisions: Sequence[PackedDecision],
    output: Path,
    title: str,
    key: SigningKey,
    trust: TrustList,
    invented: str = "",
    pdf: bool = True,
) -> MadePack:
    """The pack of decisions whose results an open ledger holds."""
    cites = list(dict.fromkeys(name for decision in decisions for name in decision.cites))
    results = [result_document(ledger, name) for name in cites]
    known = standings(ledger.log, cites, trust)
    for decision in decisions:
        if words := straying(decision, results):
            raise Refused(f"the {decision.kind} decision does not follow from its results: {words}; decide again")
    decisions = [hold_back(decision, results, known) for decision in decisions]  # whatever their files say
    now = datetime.now(UTC)
    pack = Pack(
        title=title or f"{decisions[0].contract_name}: {decisions[0].kind}",
        made_at=now.isoformat(timespec="seconds"),
        lynxbench_version=__version__,
        decided_by=key.team,
        decisions=tuple(decisions),
        comparison=compare_cited(under_its_contract(decisions[0], results), known, ledger, trust),
        results=tuple(results),
        standings=tuple(known[name] for name in cites),
        methodology=methodology_for(decisions),
        limitations=limitations_of(decisions, results),
        invented=invented,
    )
    page = render_html(compose_pack(pack))
    pages = {PACK_JSON: pack.model_dump_json(indent=1, by_alias=True).encode(), PACK_HTML: page.encode()}
    printed = render_pdf(page) if pdf else None
    if printed is not None:
        pages[PACK_PDF] = printed
    blobs = []
    for name, data in pages.items():
        digest = ledger.blobs.put(data)
        blobs.append(Blob(name=name, sha256=digest, size_bytes=len(data)))
    for place, decision in enumerate(decisions):
        append_decision(ledger, decision, key, tuple(blobs) if place == 0 else (), invented=bool(invented))
    done = export_bundle(ledger, cites, output, key, trust, now)
    written = {name: output.with_suffix(Path(name).suffix) for name in pages}
    for name, path in written.items():
        _write(path, pages[name])
    return MadePack(
        bundle=output,
        html=written[PACK_HTML],
        json=written[PACK_JSON],
        pdf=written.get(PACK_PDF),
        pdf_wanted=pdf,
        results=len(done.results),
        entries=done.entries,
        team=key.team,
        held_back=tuple(decision.sentence for decision in decisions if is_held_back(decision)),
    )


def verify_pack(path: Path, environment: Mapping[str, str]) -> VerifiedPack:
    """Check a pack by itself: signatures, proofs, documents; its pages speak of the results inside; these anew."""
    trust = Keyring(environment=environment).trust
    bundle = read_bundle(path, trust, example=True)
    read = ReadBundle(bundle, trust, claimed_trust(path, trust) if bundle.example else trust)
    pack = pack_in(bundle)
    if pack is None:
        raise EvidenceInvalid(f"{path}: a bundle of results without a decision; not a procurement pack")
    if bool(pack.invented) != bundle.example:
        raise EvidenceInvalid(f"{path}: its pages and its signed entries do not agree on whether it is invented")
    held = {result.result_id for result in pack.results}
    missing = set(pack.cites) - held
    if missing or not held <= set(bundle.manifest.results):
        name = short((missing or held - set(bundle.manifest.results)).pop())
        raise EvidenceInvalid(f"{path}: the pack speaks of result {name}, which the bundle does not hold")
    documents = _result_documents(bundle)
    for result in pack.results:
        inside = documents.get(result.result_id)
        if inside is None or parse_result(inside, str(path)) != result:
            raise EvidenceInvalid(f"{path}: result {short(result.result_id)} in the pack is not the one in the bundle")
    known = _standings_in(bundle, pack, trust)
    for decision in pack.decisions:
        if pack.lynxbench_version == __version__ and (words := straying(decision, pack.results)):
            raise EvidenceInvalid(f"{path}: its {decision.kind} decision does not follow from its results: {words}")
        if claims_too_much(decision, pack.results, known):
            line = f"decides {decision.kind} under a contract that was not agreed before the run"
            raise EvidenceInvalid(f"{path}: the pack {line}; such a decision is held back")
    reports = verify_bundled(read, [result.result_id for result in pack.results])
    return VerifiedPack(pack, bundle.teams, len(bundle.envelopes), bundle.checkpoint.origin, reports)


def pack_in(bundle: Bundle) -> Pack | None:
    """The newest pack document that a decision in a bundle carries."""
    pack: Pack | None = None
    for envelope in bundle.envelopes:
        entry = open_entry(envelope)
        blob = next((candidate for candidate in entry.blobs if candidate.name == PACK_JSON), None)
        if isinstance(entry.body, DecisionTaken) and blob is not None:
            try:
                pack = Pack.model_validate_json(bundle.blobs[blob.sha256])
            except ValidationError as error:
                raise EvidenceInvalid(f"{PACK_JSON}: {first_problem(error)}") from None
    return pack


def read_decision(file: Path) -> PackedDecision:
    """A decision as `decide … --json` wrote it."""
    noun = "a file that `lynxbench decide … --json` wrote"
    text = read_text(file, noun, missing=f"no such file; give {noun}", largest_bytes=LARGEST_DECISION_BYTES)
    try:
        body = parse_strict_json(text)
        if isinstance(body, dict):
            body.pop("recorded", None)
        return _DECISION.validate_json(json.dumps(body))
    except NotStrictJson as error:
        raise BadFile(f"{error}; give {noun}", file=str(file), line=error.line) from None
    except ValidationError as error:
        raise BadFile(f"{first_problem(error)}; give {noun}", file=str(file)) from None


def render_pdf(html: str) -> bytes | None:
    """The pages as PDF where the extra `pdf` is installed; None otherwise."""
    try:
        import weasyprint
    except (ImportError, OSError):  # OSError: the package is there, its system libraries are not
        return None
    return bytes(weasyprint.HTML(string=html).write_pdf() or b"")


def _entry(decision: PackedDecision) -> DecisionTaken:
    return DecisionTaken(
        question=f"{decision.kind}: {decision.contract_name}",
        contract_id=decision.contract_id,
        answer=decision.sentence,
        cites=decision.cites,
        document=json.loads(decision.model_dump_json()),  # through text, so that what is not finite is null
    )


@contextmanager
def _ledger_of(
    decisions: Sequence[PackedDecision],
    folders: Sequence[Path],
    ledger: str | None,
    environment: Mapping[str, str],
    key: SigningKey,
) -> Iterator[OpenLedger]:
    """The ledger that holds every cited result; run folders are recorded in a ledger made for this pack alone."""
    cites = {name for decision in decisions for name in decision.cites}
    if not folders:
        with opened(ledger, environment) as open_:
            missing = [name for name in cites if find_result(open_.log, name) is None]
            if missing:
                raise BadInput(
                    f"result {short(missing[0])} is not in {open_.log.database.name}; give its folder with --from"
                )
            yield open_
        return
    with tempfile.TemporaryDirectory(prefix="lynxbench-pack-") as temporary:
        location = locate(temporary, environment)
        assert location is not None
        with open_ledger(location, environment, create=True) as open_:
            runs = _run_folders(folders)
            refuse_strangers(open_, runs, Keyring(environment=environment))
            held = {record_folder(open_, run, key).result_id for run in runs}
            missing = sorted(cites - held)
            if missing:
                raise BadInput(
                    f"result {short(missing[0])} is cited and in none of the folders; name its run with --from"
                )
            yield open_


def _run_folders(folders: Sequence[Path]) -> list[Path]:
    runs = []
    for folder in folders:
        read_folder(folder)  # says what is wrong with it
        runs += [file.parent for file in sorted(folder.rglob(RESULT_FILE))] if folder.is_dir() else [folder.parent]
    return runs


def _result_documents(bundle: Bundle) -> dict[str, bytes]:
    from lynxbench.model.entries import ResultRecorded

    documents = {}
    for envelope in bundle.envelopes:
        entry = open_entry(envelope)
        if isinstance(entry.body, ResultRecorded):
            blob = next(candidate for candidate in entry.blobs if candidate.name == RESULT_FILE)
            documents[entry.body.result_id] = bundle.blobs[blob.sha256]
    return documents


def _standings_in(bundle: Bundle, pack: Pack, trust: TrustList) -> dict[str, Standing]:
    """How the results of a pack stand by the entries that came with them, in the order of the log they came from."""
    entries = []
    for seq, envelope in enumerate(bundle.envelopes):
        entry = open_entry(envelope)
        logged = Logged(seq, entry.made_at, envelope, entry)
        entries.append(VoicedEntry(seq, entry, voice_of(logged, trust), bundle.checkpoint.made_at))
    return standings_among((result.result_id for result in pack.results), entries, bundle.blobs.__getitem__)


def _write(path: Path, data: bytes) -> None:
    if path.suffix == ".pdf":
        try:
            path.write_bytes(data)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}") from None
        return
    write_text(path, data.decode("utf-8"))
