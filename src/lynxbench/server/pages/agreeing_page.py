"""Signing a contract from its page. A team's own key signs it, which no server ever holds: the form takes what
`contract sign --out` wrote."""

from lynxbench.model.contract import Contract
from lynxbench.record.agreeing import AgreementReport, agreement_now, collect
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Tone, code, link, said, strong
from lynxbench.report.markup import tag
from lynxbench.server.pages.page_shell import Page, form, make_page, problem_note, text_area
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server

MOST_TEXT = 200_000
"""Characters of a signed entry with its contract; a longer contract is signed with `contract sign --server`."""
WHY = (
    "An agreement counts because a team’s own key signed the contract’s id. This server holds no team’s key, so that "
    "whoever runs it, or breaks into it, can agree in nobody’s name. A changed contract has another id."
)
LEAD = "A contract that names teams is agreed when each of them signed it, before the first sample was taken."


def hand_in(server: Server, who: Principal, data: bytes) -> str:
    """Take in the signature of the team that hands it in; the id of the contract under which it stands."""
    taken = collect(server.ledger, data, server.keys.trust(), of=who.team)
    server.ledger.seen.check(server.ledger.log)
    server.arrived()
    server.changed()  # whoever signed sees it at once
    return taken.contract_id


def report_of(server: Server, contract: Contract) -> AgreementReport:
    """Who has signed a contract by now, as this server's trust list has it."""
    return agreement_now(server.ledger, contract, server.trust)


def agreement_section(server: Server, contract: Contract) -> doc.Section | None:
    """Who signed, when, who is missing, and what the contract replaces; None where it names neither."""
    if not contract.teams and contract.amends is None:
        return None
    report = report_of(server, contract)
    signed = {signature.team: signature for signature in report.agreement.signatures}
    rows: list[tuple[Inline, ...]] = []
    for team in contract.teams:
        signature = signed.get(team)
        if signature is None:
            rows.append((said(team), Span("missing", Tone.WARN), "", ""))
        else:
            state = Span("signed; its key was revoked since", Tone.WARN) if signature.revoked else "signed"
            entry = link(f"#{signature.seq}", f"/ledger/{signature.seq}")
            rows.append((said(team), state, words.moment_text(signature.at), entry))
    blocks = (
        doc.Note(strong(said(report.words))),
        doc.Table(("Team", "State", "When", "Entry"), rows, "Signatures under this contract") if rows else None,
        doc.Points([said(step.line) for step in report.amends], "Amends") if report.amends else None,
        doc.Note(link("Hand in your team’s signature", "/agree")) if report.agreement.missing else None,
    )
    return doc.Section("agreement", "Agreement", blocks, LEAD if contract.teams else "")


def agree_page(viewer: Principal, text: str = "", problem: str = "") -> Page:
    """The command that signs, and the form that takes what it wrote."""
    steps = (
        doc.Note("Where your team’s key is; nothing but the signed entry leaves that machine."),
        doc.Listing("lynxbench contract sign CONTRACT --out signed.jsonl"),
    )
    blocks = (
        doc.Section("sign", "Sign it with your team’s key", steps),
        doc.Section("form", "Hand in the signed entry", (problem_note(problem), _form(viewer, text))),
        doc.Section("why", "Why the server does not sign it for you", (doc.Note(WHY),)),
    )
    return make_page(doc.Report("Agree to a contract", blocks, lead=LEAD), status=422 if problem else 200)


def _form(viewer: Principal, text: str) -> doc.Block:
    if viewer.via != "session" or not viewer.may(AccessScope.SUBMIT):
        hint = (
            "Sign in as somebody who may submit, or use ",
            code("lynxbench contract sign CONTRACT --server URL"),
            ".",
        )
        return doc.Note(hint)
    area = text_area("What it wrote", "entry", text, rows=6, maxlength=MOST_TEXT, spellcheck="false")
    file = tag("input", id="field-file", type="file", data_fills="field-entry")  # without a name: it is never sent
    chosen = tag("div", tag("label", "From the file (or paste its text)", for_="field-file"), file, class_="field")
    return form("/agree", chosen, area, tag("button", "Hand it in", class_="primary"), viewer=viewer)
