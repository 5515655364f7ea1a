"""Decisions with the evidence they cite, and procurement packs: drawn here from their values, never as sent."""

import json
from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from lynxbench.errors import EvidenceInvalid, NotFound
from lynxbench.ledger.log import Logged
from lynxbench.ledger.result_standings import voice_of
from lynxbench.model.entries import DecisionTaken, EntryKind
from lynxbench.model.packs import Pack, PackedDecision
from lynxbench.model.standing import Standing
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Tone, code, link, refer, said
from lynxbench.report.documents.decision_document import TITLES, decision_blocks
from lynxbench.report.documents.ledger_documents import is_doubted, standings_table
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, list_page, make_page, older_link
from lynxbench.server.server_state import Server

SHOWN = 100
PACK_JSON = "pack.json"
MOST_PACK_BYTES = 64 << 20
MOST_TEXT = 20_000
_DECISION: TypeAdapter[PackedDecision] = TypeAdapter(PackedDecision)


def decisions_page(server: Server, before: int | None = None) -> Page:
    """All of them, newest first, so many at a time."""
    rows: list[tuple[Inline, ...]] = []
    listed = reading.entries_of_kind(server, [EntryKind.DECISION.value], SHOWN, before)
    bodies = [spoken.logged.entry.body for spoken in listed]
    every = dict.fromkeys(name for body in bodies if isinstance(body, DecisionTaken) for name in body.cites)
    known = reading.standings_of(server, list(every)) if every else {}
    for spoken, body in zip(listed, bodies, strict=True):
        seq = spoken.logged.seq
        assert isinstance(body, DecisionTaken)
        pack: Inline = "–"
        if _pack_blob(spoken.logged) is not None:
            pack = link("pack", f"/decisions/{seq}/pack.html", f"Pack of decision {seq}")
        rows.append(
            (
                link(f"#{seq}", f"/decisions/{seq}"),
                words.moment_text(spoken.logged.entry.made_at),
                said(spoken.voice.name),
                said(body.question),
                said(body.answer[:300]),
                _cited([known[name] for name in body.cites]),
                pack,
            )
        )
    head = ("Decision", "When", "By", "Question", "Answer", "Cites", "Pack")
    empty = ("No decision is in this ledger yet: ", code("lynxbench decide purchase … --record"))
    table = doc.Table(head, rows, "Decisions, newest first", (5,), empty=empty)
    older = older_link("/decisions", [spoken.logged.seq for spoken in listed], SHOWN)
    return list_page("Decisions", "What was decided, by whom, and the results it rests on.", table, older)


def decision_page(server: Server, seq: int) -> Page:
    """One decision: the sentence, what it rests on, and how each cited result stands today."""
    logged, body = _decision(server, seq)
    known = reading.standings_of(server, list(body.cites)) if body.cites else {}
    cited = standings_table({name: known[name] for name in body.cites}, "Results that are cited")
    pack = doc.Links("Elsewhere", [link("The procurement pack", f"/decisions/{seq}/pack.html")])
    report = doc.Report(
        f"Decision {seq}",
        (_document(body), doc.Section("evidence", "Evidence", (cited,))),
        title=said(body.answer),
        brand="Decision",
        facts=(
            ("Question", said(body.question)),
            ("Decided by", said(voice_of(logged, server.trust).name)),
            ("When", words.moment_text(logged.entry.made_at)),
            ("Cites", _cited([known[name] for name in body.cites])),
            ("Entry", link(f"#{seq}", f"/ledger/{seq}")),
            ("Contract", refer("contracts", body.contract_id)) if body.contract_id else None,
        ),
        links=pack if _pack_blob(logged) is not None else None,
    )
    return make_page(report)


def _cited(known: Sequence[Standing]) -> Inline:
    """How many results a decision rests on, and how many of them are in doubt today."""
    doubted = sum(is_doubted(standing.short) for standing in known)
    return (f"{len(known)}, ", Span(f"{doubted} in doubt today", Tone.WARN)) if doubted else str(len(known))


def pack_of(server: Server, seq: int) -> Pack:
    """The pack that a decision brought; NotFound where there is none."""
    logged, _ = _decision(server, seq)
    sha256 = _pack_blob(logged)
    if sha256 is None:
        raise NotFound(f"entry {seq} is a decision without a pack")
    data = server.ledger.blobs.get(sha256)
    if len(data) > MOST_PACK_BYTES:
        raise NotFound(f"the pack of entry {seq} is larger than {MOST_PACK_BYTES >> 20} MiB")
    try:
        return Pack.model_validate_json(data)
    except ValidationError as error:
        raise EvidenceInvalid(f"the pack of entry {seq} cannot be read: {error.error_count()} problems") from None


def _document(body: DecisionTaken) -> doc.Section | None:
    if not body.document:
        return None
    try:
        decision = _DECISION.validate_json(json.dumps(body.document))
    except ValidationError:
        text = json.dumps(body.document, ensure_ascii=False, indent=2)[:MOST_TEXT]
        inner = doc.Group("Its document", (doc.Listing(text),), folded=True)
        return doc.Section("document", "Document", (inner,), "Of a form that this version does not know.")
    return doc.Section("document", TITLES[decision.kind], decision_blocks(decision), words.clean(decision.sentence))


def _decision(server: Server, seq: int) -> tuple[Logged, DecisionTaken]:
    logged = server.ledger.log.read(seq)
    body = logged.entry.body
    if not isinstance(body, DecisionTaken):
        raise NotFound(f"entry {seq} is a {body.kind.value}, not a decision")
    return logged, body


def _pack_blob(logged: Logged) -> str | None:
    return next((blob.sha256 for blob in logged.entry.blobs if blob.name == PACK_JSON), None)
