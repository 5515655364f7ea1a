"""Claims: what a performance claim states and fails to state, and the questions to send back."""

import json

from sqlalchemy import insert, select

from lynxbench.decide.claiming import lint_claim
from lynxbench.errors import BadInput
from lynxbench.model.claims import ClaimReport
from lynxbench.report import doc, words
from lynxbench.report.doc import Style, code, link, said, strong
from lynxbench.report.documents.decision_document import decision_blocks
from lynxbench.report.markup import tag
from lynxbench.server.pages.page_shell import Page, form, make_page, problem_note, text_area
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server
from lynxbench.watch.store import fresh_id, now_text
from lynxbench.watch.store_tables import claims

SHOWN = 100
MOST_TEXT = 100_000


def lint(text: str, source: str) -> ClaimReport:
    """As `lynxbench claim` reads it; BadInput for a text that is none."""
    if not text.strip():
        raise BadInput("the claim is empty")
    if len(text) > MOST_TEXT:
        raise BadInput(f"a claim has at most {MOST_TEXT} characters here")
    try:
        return lint_claim(text, source)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not a claim that can be read: {error}") from None


def keep_claim(server: Server, text: str, who: Principal) -> str:
    """Lint a claim and keep it for everybody; its name."""
    report = lint(text, f"kept by {who.name}")
    row = {"claim": fresh_id(), "at": now_text(), "by": who.label, "text": text, "report": report.model_dump_json()}
    server.store.change(insert(claims).values(row))
    server.changed()
    return str(row["claim"])


def claims_page(server: Server, viewer: Principal, text: str = "", problem: str = "") -> Page:
    """Those that were kept, and a form for another."""
    rows = []
    for row in server.store.rows(select(claims).order_by(claims.c.at.desc()).limit(SHOWN)):
        report = json.loads(row.report)
        rows.append(
            (
                link(said(row.text[:120]), f"/claims/{row.claim}"),
                strong(report["grade"]),
                said(", ".join(report["missing"]) or "nothing"),
                said(row.by),
                words.moment_text(row.at),
            )
        )
    head = ("Claim", "Grade", "Not stated", "Kept by", "When")
    listed = doc.Table(head, rows, "Claims, newest first", empty="No claim was kept yet.")
    blocks = (_form(viewer, text, problem), doc.Section("list", "Kept claims", (listed,)))
    lead = "A number without its context is a claim. What it fails to state decides what it is worth."
    return make_page(doc.Report("Claims", blocks, lead=lead))


def claim_page(server: Server, name: str) -> Page:
    """One kept claim, its grade, what is missing, and what to ask back; NotFound where there is none."""
    claim = server.store.one(select(claims).where(claims.c.claim == name), f"no claim {name[:40]!r}")
    report = ClaimReport.model_validate_json(claim.report)
    quote = doc.Embedded(tag("blockquote", claim.text[:4000]))
    return make_page(
        doc.Report(
            f"Claim of {claim.at[:10]}",
            (
                doc.Section("text", "As it was made", (quote,)),
                doc.Section("lint", "Under the lint", decision_blocks(report)),
            ),
            title=said(report.sentence),
            brand="Claim",
            facts=(
                ("Grade", strong(report.grade)),
                ("Kept by", said(claim.by)),
                ("When", words.moment_text(claim.at)),
            ),
        )
    )


def _form(viewer: Principal, text: str, problem: str) -> doc.Section:
    if viewer.via != "session" or not viewer.may(AccessScope.CONTEST):
        hint = ("Sign in to lint and keep a claim here, or use ", code("lynxbench claim FILE"), ".")
        return doc.Section("new", "Lint a claim", (doc.Note(hint, Style.QUIET),))
    label = "The claim, as text, YAML, or a row of a results table"
    area = text_area(label, "text", text, rows=5, maxlength=MOST_TEXT)
    inner = form("/claims", area, tag("button", "Lint and keep"), viewer=viewer, class_=None)
    return doc.Section("new", "Lint a claim", (problem_note(problem), inner))
