"""Claims: what a performance claim states and fails to state, and the questions to send back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import insert, select

from lynxbench.decide.claiming import lint_claim
from lynxbench.errors import BadInput, NotFound
from lynxbench.model.claims import ClaimReport
from lynxbench.report import words
from lynxbench.report.decision_blocks import blocks_of
from lynxbench.report.markup import Child, Safe, join, said, tag
from lynxbench.report.pack import render_block
from lynxbench.report.sections.section_parts import fact, section, table
from lynxbench.server.pages.page_shell import Page, empty, hidden_csrf, make_page
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server
from lynxbench.watch.store import fresh_id, now_text
from lynxbench.watch.store_tables import claims

SHOWN = 100
MOST_TEXT = 100_000


@dataclass(frozen=True, slots=True)
class KeptClaim:
    """A claim that somebody kept here, with what the lint says."""

    claim: str
    at: str
    by: str
    text: str
    report: ClaimReport


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


def kept_claim(server: Server, name: str) -> KeptClaim:
    """One kept claim; NotFound where there is none."""
    row = server.store.row(select(claims).where(claims.c.claim == name))
    if row is None:
        raise NotFound(f"no claim {name[:40]!r}")
    return KeptClaim(row.claim, row.at, row.by, row.text, ClaimReport.model_validate_json(row.report))


def claims_page(server: Server, viewer: Principal, text: str = "", problem: str = "") -> Page:
    """Those that were kept, and a form for another."""
    rows: list[list[Child]] = []
    for row in server.store.rows(select(claims).order_by(claims.c.at.desc()).limit(SHOWN)):
        report = json.loads(row.report)
        rows.append(
            [
                tag("a", said(" ".join(row.text.split())[:120]), href=f"/claims/{row.claim}"),
                tag("strong", report["grade"]),
                said(", ".join(report["missing"]) or "nothing"),
                said(row.by),
                words.moment_text(row.at),
            ]
        )
    head = ("Claim", "Grade", "Not stated", "Kept by", "When")
    listed: Child = table("Claims, newest first", head, rows) if rows else empty("No claim was kept yet.")
    return make_page(
        "Claims",
        "A number without its context is a claim. What it fails to state decides what it is worth.",
        _form(viewer, text, problem),
        section("list", "Kept claims", listed),
    )


def claim_page(kept: KeptClaim) -> Page:
    """One claim, its grade, what is missing, and what to ask back."""
    report = kept.report
    header = join(
        [
            tag("p", "Claim", class_="brand"),
            tag("h1", said(report.sentence)),
            tag(
                "dl",
                fact("Grade", tag("strong", report.grade)),
                fact("Kept by", said(kept.by)),
                fact("When", words.moment_text(kept.at)),
                class_="facts",
            ),
        ]
    )
    said_ = section("text", "As it was made", tag("blockquote", said(kept.text[:4000])))
    blocks = section("lint", "Under the lint", [render_block(block) for block in blocks_of(report)])
    return Page(f"Claim of {kept.at[:10]}", header, join([said_, blocks]))


def _form(viewer: Principal, text: str, problem: str) -> Safe:
    if viewer.via != "session" or not viewer.may(AccessScope.CONTEST):
        command = tag("code", "lynxbench claim FILE")
        return section(
            "new",
            "Lint a claim",
            tag("p", "Sign in to lint and keep a claim here, or use ", command, ".", class_="quiet"),
        )
    return section(
        "new",
        "Lint a claim",
        tag("p", said(problem), class_="tone-bad", role="alert") if problem else None,
        tag(
            "form",
            hidden_csrf(viewer),
            tag(
                "div",
                tag("label", "The claim, as text, YAML, or a row of a results table", for_="field-text"),
                tag("textarea", text, id="field-text", name="text", rows=5, required=True, maxlength=MOST_TEXT),
                class_="field wide",
            ),
            tag("button", "Lint and keep"),
            method="post",
            action="/claims",
        ),
    )
