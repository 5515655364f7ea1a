"""The log itself: its state, checkpoints, every entry with its proof, contests."""

import json
from collections.abc import Mapping

from lynxbench.evidence.envelope import check_signatures
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.checkpoints import Signed, stored_checkpoints
from lynxbench.ledger.merkle import includes
from lynxbench.ledger.result_standings import voice_of
from lynxbench.model.canonical import short
from lynxbench.model.entries import EntryKind
from lynxbench.report import doc, words
from lynxbench.report.doc import Fact, Span, Style, Tone, code, link, refer, said, strong
from lynxbench.report.documents.ledger_documents import entries_table, say, witness_lines
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, make_page
from lynxbench.server.server_state import Server
from lynxbench.server.witnessing import book_of, witnesses_of

PER_PAGE = 50
SHOWN_CHECKPOINTS = 10
SHOWN_CONTESTS = 20
LONGEST = 40_000
_NAMED = (("contracts", "contract_id"), ("executors", "executor_id"), ("results", "result_id"))


def ledger_page(server: Server, before: int | None) -> Page:
    """The end of the log, newest first."""
    head = server.ledger.log.head()
    newest = reading.newest_entries(server, PER_PAGE, before)
    older = (head.size if before is None else min(before, head.size)) - PER_PAGE
    kinds = reading.known_kinds(server)
    counted = ", ".join(f"{many} {kind}" for kind, many in sorted(kinds.items()))
    splits = book_of(server).splits()
    state: tuple[Fact | None, ...] = (
        ("Entries", str(head.size)),
        ("Root", Span(head.root.hex(), Style.ID)),
        ("Origin", Span(server.ledger.log.origin, Style.ID)),
        ("Witnesses", *map(said, witness_lines(witnesses_of(server)))),
        ("Split views", *(Span(split.words, Tone.BAD) for split in splits)) if splits else None,
    )
    blocks = (
        doc.Section("state", "State", (doc.Facts(state), doc.Note(counted, Style.QUIET), _newer(kinds))),
        _checkpoints(server),
        _contests(server),
        doc.Section(
            "log",
            "Log",
            (
                entries_table(newest, "Entries, newest first"),
                doc.Note(link("Older entries", f"/ledger?before={older}")) if older > 0 else None,
            ),
        ),
    )
    lead = "Append-only. Whoever keeps a checkpoint can prove later that nothing was changed or taken away."
    return make_page(doc.Report("Ledger", blocks, lead=lead))


def _newer(kinds: Mapping[str, int]) -> doc.Note | None:
    """What the list leaves out: entries of kinds that this version does not know."""
    newer = {kind: many for kind, many in sorted(kinds.items()) if kind not in set(EntryKind)}
    if not newer:
        return None
    many, listed = words.count(sum(newer.values()), "entry", "entries"), ", ".join(f"{n} {k}" for k, n in newer.items())
    return doc.Note(
        said(f"Not in the list: {many} of kinds that a newer lynxbench knows ({listed}): kept, in no verdict here")
    )


def _checkpoints(server: Server) -> doc.Section:
    rows = [
        (
            str(signed.checkpoint.tree_size),
            words.moment_text(signed.checkpoint.made_at),
            said(_signers(signed, server.trust)),
            Span(signed.checkpoint.root_hash, Style.ID),
        )
        for signed in stored_checkpoints(server.ledger.log, SHOWN_CHECKPOINTS)
    ]
    empty = ("None is stored: ", code("lynxbench results log --checkpoint FILE"))
    head = ("Entries", "When", "Signed by", "Root")
    return doc.Section(
        "checkpoints", "Checkpoints", (doc.Table(head, rows, "Signed states of the log", (0,), empty=empty),)
    )


def _signers(signed: Signed, trust: TrustList) -> str:
    checked = check_signatures(
        signed.envelope, trust, payload_type=signed.envelope.payload_type, at=parse_time(signed.checkpoint.made_at)
    )
    names = ", ".join(dict.fromkeys(signer.team for signer in checked.signers))
    return names or ", ".join(f"unknown key {short(signature.keyid)}" for signature in signed.envelope.signatures)


def _contests(server: Server) -> doc.Section:
    rows = []
    for spoken, word in reading.doubted(server, SHOWN_CONTESTS):
        body, seq = spoken.logged.entry.body, spoken.logged.seq
        rows.append(
            (
                link(f"#{seq}", f"/ledger/{seq}"),
                word,
                refer("results", str(getattr(body, "result_id", ""))),
                said(spoken.voice.name),
                said(str(getattr(body, "reason", ""))),
            )
        )
    head, empty = ("Entry", "Comes to", "Result", "By", "Why"), "Nobody contested or retracted a result."
    return doc.Section("contests", "Contests", (doc.Table(head, rows, "Contests and retractions", empty=empty),))


def entry_page(server: Server, seq: int) -> Page:
    """One entry: what it says, who signed it, and the proof that it is in the log."""
    logged = server.ledger.log.read(seq)
    entry, proof = logged.entry, server.ledger.log.prove(seq)
    holds = includes(proof.leaf, proof.seq, proof.head.size, proof.path, proof.head.root)
    text = json.dumps(entry.model_dump(mode="json", by_alias=True), ensure_ascii=False, indent=2)
    named: list[Fact] = [
        (field.removesuffix("_id").capitalize(), refer(kind, value))
        for kind, field in _NAMED
        if isinstance(value := getattr(entry.body, field, None), str)
    ]
    verdict = Span("This entry has no path to the log’s root.", Tone.BAD)
    if holds:
        verdict = Span("This entry is in the log.", Tone.GOOD)
    steps = [(str(index), code(step.hex())) for index, step in enumerate(proof.path)]
    ends: tuple[Fact, ...] = (
        ("Leaf", Span(proof.leaf.hex(), Style.ID)),
        ("Root", Span(proof.head.root.hex(), Style.ID)),
    )
    path = doc.Group(f"{len(steps)} steps to the root", (doc.Table(("Step", "Hash"), steps, "Path"),), folded=True)
    blobs = [(said(blob.name), words.bytes_text(blob.size_bytes), Span(blob.sha256, Style.ID)) for blob in entry.blobs]
    documents = doc.Table(("Name", "Size", "SHA-256"), blobs, "Held by their content", (1,))
    more = f"… and {len(text) - LONGEST} more characters" if len(text) > LONGEST else ""
    return make_page(
        doc.Report(
            f"Entry {seq}",
            (
                doc.Section(
                    "proof",
                    "Proof of inclusion",
                    (doc.Note(strong(verdict)), doc.Facts(ends), path if steps else None),
                ),
                doc.Section("says", "What it says", (doc.Listing(text[:LONGEST]), doc.Note(more) if more else None)),
                doc.Section("documents", "Documents", (documents,)) if blobs else None,
            ),
            title=said(say(entry)),
            brand=f"Entry {seq} of {proof.head.size}",
            facts=(
                ("Signed by", said(voice_of(logged, server.trust).name)),
                ("Made", words.moment_text(entry.made_at)),
                ("Logged", words.moment_text(logged.logged_at)),
                *named,
            ),
        )
    )
