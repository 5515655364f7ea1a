"""The log itself: its state, checkpoints, every entry with its proof, contests."""

from __future__ import annotations

import json

from lynxbench.evidence.envelope import check_signatures
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.checkpoints import Signed, stored_checkpoints
from lynxbench.ledger.merkle import includes
from lynxbench.ledger.queries import voice_of
from lynxbench.model.canonical import short
from lynxbench.record.listing import say
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, code, join, said, tag
from lynxbench.report.sections.section_parts import fact, section, table
from lynxbench.server import ledger_views as reading
from lynxbench.server.ledger_views import Spoken
from lynxbench.server.pages.page_shell import Page, brief, empty, link_to, make_page
from lynxbench.server.server_state import Server

PER_PAGE = 50
SHOWN_CHECKPOINTS = 10
LONGEST = 40_000


def ledger_page(server: Server, before: int | None) -> Page:
    """The end of the log, newest first."""
    head = server.ledger.log.head()
    found = reading.newest_entries(server, PER_PAGE, before)
    older = found[-1].logged.seq if found and found[-1].logged.seq > 0 else None
    kinds = ", ".join(f"{many} {kind}" for kind, many in sorted(reading.known_kinds(server).items()))
    facts = tag(
        "dl",
        fact("Entries", str(head.size)),
        fact("Root", tag("code", head.root.hex(), class_="id break")),
        fact("Origin", tag("code", server.ledger.log.origin, class_="break")),
        class_="facts",
    )
    more = tag("a", "Older entries", href=f"/ledger?before={older}", rel="next") if older is not None else None
    return make_page(
        "Ledger",
        "Append-only. Whoever keeps a checkpoint can prove later that nothing was changed or taken away.",
        section("state", "State", facts, tag("p", kinds, class_="quiet")),
        _checkpoints(server),
        _contests(server),
        section(
            "log",
            "Log",
            entries_table(found) if found else empty("The log is empty."),
            tag("p", more) if more else None,
        ),
    )


def entries_table(found: list[Spoken]) -> Safe:
    """Entries with who signed them."""
    rows: list[list[Child]] = [
        [
            tag("a", f"#{one.logged.seq}", href=f"/ledger/{one.logged.seq}"),
            brief(one.logged.logged_at),
            said(one.voice.name),
            said(say(one.logged.entry)),
        ]
        for one in found
    ]
    return table("Entries, newest first", ("Entry", "Logged", "Signed by", "What"), rows)


def _checkpoints(server: Server) -> Safe:
    trust = server.trust
    rows: list[list[Child]] = []
    for one in stored_checkpoints(server.ledger.log, SHOWN_CHECKPOINTS):
        rows.append(
            [
                str(one.checkpoint.tree_size),
                words.moment_text(one.checkpoint.made_at),
                said(_signers(one, trust)),
                tag("code", one.checkpoint.root_hash, class_="id break"),
            ]
        )
    if not rows:
        body: Child = empty("None is stored: ", tag("code", "lynxbench results log --checkpoint FILE"))
    else:
        body = table("Signed states of the log", ("Entries", "When", "Signed by", "Root"), rows, (0,))
    return section("checkpoints", "Checkpoints", body)


def _signers(one: Signed, trust: TrustList) -> str:
    checked = check_signatures(
        one.envelope, trust, payload_type=one.envelope.payload_type, at=parse_time(one.checkpoint.made_at)
    )
    names = ", ".join(dict.fromkeys(signer.team for signer in checked.signers))
    return names or ", ".join(f"unknown key {short(signature.keyid)}" for signature in one.envelope.signatures)


def _contests(server: Server) -> Safe:
    rows: list[list[Child]] = []
    for one in reading.doubted(server, 20):
        body = one.logged.entry.body
        name = str(getattr(body, "result_id", ""))
        rows.append(
            [
                tag("a", f"#{one.logged.seq}", href=f"/ledger/{one.logged.seq}"),
                body.kind.value,
                link_to("results", name),
                said(one.voice.name),
                said(str(getattr(body, "reason", ""))),
            ]
        )
    body_: Child = tag("p", "Nobody contested or retracted a result.", class_="quiet")
    if rows:
        body_ = table("Contests and retractions", ("Entry", "Kind", "Result", "By", "Why"), rows)
    return section("contests", "Contests", body_)


def entry_page(server: Server, seq: int) -> Page:
    """One entry: what it says, who signed it, and the proof that it is in the log."""
    logged = server.ledger.log.read(seq)
    voice = voice_of(logged, server.trust)
    proof = server.ledger.log.prove(seq)
    holds = includes(proof.leaf, proof.seq, proof.head.size, proof.path, proof.head.root)
    body = logged.entry.body
    text = words.clean_lines(
        json.dumps(logged.entry.model_dump(mode="json", by_alias=True), ensure_ascii=False, indent=2)
    )
    links: list[Child] = []
    for kind, name in (("contracts", "contract_id"), ("executors", "executor_id"), ("results", "result_id")):
        value = getattr(body, name, None)
        if isinstance(value, str):
            links.append(fact(name.removesuffix("_id").capitalize(), link_to(kind, value)))
    header = join(
        [
            tag("p", f"Entry {seq} of {proof.head.size}", class_="brand"),
            tag("h1", said(say(logged.entry))),
            tag(
                "dl",
                fact("Signed by", said(voice.name)),
                fact("Made", words.moment_text(logged.entry.made_at)),
                fact("Logged", words.moment_text(logged.logged_at)),
                *links,
                class_="facts",
            ),
        ]
    )
    blobs: list[list[Child]] = [
        [said(blob.name), words.bytes_text(blob.size_bytes), tag("code", blob.sha256, class_="id break")]
        for blob in logged.entry.blobs
    ]
    steps: list[list[Child]] = [[str(i), code(step.hex())] for i, step in enumerate(proof.path)]
    verdict = "This entry is in the log." if holds else "This entry has no path to the log’s root."
    more = f"… and {len(text) - LONGEST} more characters" if len(text) > LONGEST else None
    return Page(
        f"Entry {seq}",
        header,
        join(
            [
                section(
                    "proof",
                    "Proof of inclusion",
                    tag("p", tag("strong", verdict, class_="tone-good" if holds else "tone-bad")),
                    tag(
                        "dl",
                        fact("Leaf", tag("code", proof.leaf.hex(), class_="id break")),
                        fact("Root", tag("code", proof.head.root.hex(), class_="id break")),
                        class_="facts",
                    ),
                    tag(
                        "details",
                        tag("summary", f"{len(steps)} steps to the root"),
                        table("Path", ("Step", "Hash"), steps),
                    )
                    if steps
                    else None,
                ),
                section(
                    "says",
                    "What it says",
                    tag("pre", tag("code", text[:LONGEST]), tabindex="0"),
                    tag("p", more) if more else None,
                ),
                section(
                    "documents", "Documents", table("Held by their content", ("Name", "Size", "SHA-256"), blobs, (1,))
                )
                if blobs
                else None,
            ]
        ),
    )
