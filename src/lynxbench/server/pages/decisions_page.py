"""Decisions with the evidence they cite, and procurement packs: drawn here from their values, never as sent."""

from __future__ import annotations

import json

from pydantic import TypeAdapter, ValidationError

from lynxbench.errors import EvidenceInvalid, NotFound
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import standings, voice_of
from lynxbench.model.entries import DecisionTaken, EntryKind
from lynxbench.model.packs import Pack, PackedDecision
from lynxbench.report import words
from lynxbench.report.decision_blocks import blocks_of, title_of
from lynxbench.report.markup import Child, join, said, tag
from lynxbench.report.pack import render_block
from lynxbench.report.sections.section_parts import fact, section, table
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, empty, link_to, make_page
from lynxbench.server.server_state import Server

SHOWN = 100
PACK_JSON = "pack.json"
MOST_PACK_BYTES = 64 << 20
_DECISION: TypeAdapter[PackedDecision] = TypeAdapter(PackedDecision)


def decisions_page(server: Server) -> Page:
    """All of them, newest first."""
    found = reading.entries_of_kind(server, [EntryKind.DECISION.value], SHOWN)
    rows: list[list[Child]] = []
    for one in found:
        body = one.logged.entry.body
        assert isinstance(body, DecisionTaken)
        rows.append(
            [
                tag("a", f"#{one.logged.seq}", href=f"/decisions/{one.logged.seq}"),
                words.moment_text(one.logged.entry.made_at),
                said(one.voice.name),
                said(body.question),
                said(body.answer[:300]),
                str(len(body.cites)),
                tag(
                    "a",
                    "pack",
                    href=f"/decisions/{one.logged.seq}/pack.html",
                    aria_label=f"Pack of decision {one.logged.seq}",
                )
                if _pack_blob(one.logged) is not None
                else "–",
            ]
        )
    lead = "What was decided, by whom, and the results it rests on."
    head = ("Decision", "When", "By", "Question", "Answer", "Cites", "Pack")
    body_: Child = empty("No decision is in this ledger yet: ", tag("code", "lynxbench decide purchase … --record"))
    if rows:
        body_ = table("Decisions, newest first", head, rows, (5,))
    return make_page("Decisions", lead, section("list", "List", body_))


def decision_page(server: Server, seq: int) -> Page:
    """One decision: the sentence, what it rests on, and how each cited result stands today."""
    logged, body = _decision(server, seq)
    voice = voice_of(logged, server.trust)
    known = standings(server.ledger.log, list(body.cites), server.trust) if body.cites else {}
    rows: list[list[Child]] = [
        [link_to("results", name), said(known[name].short), said("; ".join(known[name].words))] for name in body.cites
    ]
    header = join(
        [
            tag("p", "Decision", class_="brand"),
            tag("h1", said(body.answer)),
            tag(
                "dl",
                fact("Question", said(body.question)),
                fact("Decided by", said(voice.name)),
                fact("When", words.moment_text(logged.entry.made_at)),
                fact("Entry", tag("a", f"#{seq}", href=f"/ledger/{seq}")),
                fact("Contract", link_to("contracts", body.contract_id)) if body.contract_id else None,
                class_="facts",
            ),
            tag(
                "nav",
                tag("a", "The procurement pack", href=f"/decisions/{seq}/pack.html"),
                aria_label="Elsewhere",
                class_="tabs",
            )
            if _pack_blob(logged) is not None
            else None,
        ]
    )
    cited: Child = table("Results that are cited", ("Result", "Standing", "In words"), rows) if rows else None
    return Page(
        f"Decision {seq}",
        header,
        join(
            [
                _blocks(body),
                section("evidence", "Evidence", cited or empty("It cites no result.")),
            ]
        ),
    )


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


def _blocks(body: DecisionTaken) -> Child:
    if not body.document:
        return None
    try:
        decision = _DECISION.validate_json(json.dumps(body.document))
    except ValidationError:
        text = words.clean_lines(json.dumps(body.document, ensure_ascii=False, indent=2))
        shown = tag("details", tag("summary", "Its document"), tag("pre", tag("code", text[:20_000]), tabindex="0"))
        return section("document", "Document", shown, lead="Of a form that this version does not know.")
    blocks = [render_block(block) for block in blocks_of(decision)]
    return section("document", title_of(decision), blocks, lead=words.clean(decision.sentence))


def _decision(server: Server, seq: int) -> tuple[Logged, DecisionTaken]:
    logged = server.ledger.log.read(seq)
    body = logged.entry.body
    if not isinstance(body, DecisionTaken):
        raise NotFound(f"entry {seq} is a {body.kind.value}, not a decision")
    return logged, body


def _pack_blob(logged: Logged) -> str | None:
    return next((blob.sha256 for blob in logged.entry.blobs if blob.name == PACK_JSON), None)
