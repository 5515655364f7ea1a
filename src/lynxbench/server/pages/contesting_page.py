"""Contesting a result from its page. A contest is signed by a team's own key, which no server ever holds: the form
checks what is said, and gives the very command that signs it."""

import re
import shlex
from dataclasses import dataclass

from lynxbench.errors import BadInput
from lynxbench.model.canonical import short
from lynxbench.report import doc
from lynxbench.report.doc import refer, said
from lynxbench.report.markup import tag
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, form, make_page, problem_note, text_area, text_field
from lynxbench.server.pages.pickers import offered_results
from lynxbench.server.rights import Principal
from lynxbench.server.server_state import Server

MOST_REASON = 4000
MOST_CITED = 20
WHY = (
    "A contest is evidence like a result: it counts because a team’s own key signed it. This server holds no "
    "team’s key, so that whoever runs it, or breaks into it, can put words into nobody’s mouth. "
    "It takes the signed contest from a token with the scope contest."
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class PreparedContest:
    """What somebody is about to say."""

    result_id: str
    reason: str
    cites: tuple[str, ...]


def parse_doubt(server: Server, result_id: str, reason: str, cites: str) -> PreparedContest:
    """A doubt that can be signed as it is; BadInput says what is wrong with it."""
    words_given = " ".join(reason.split())
    if not words_given:
        raise BadInput("say why, in words that the other teams can check")
    if len(words_given) > MOST_REASON:
        raise BadInput(f"the reason has more than {MOST_REASON} characters")
    if _CONTROL.search(words_given):
        raise BadInput("the reason holds a control character")
    named = cites.replace(",", " ").split()
    if len(named) > MOST_CITED:
        raise BadInput(f"at most {MOST_CITED} results can be cited")
    return PreparedContest(
        result_id, words_given, tuple(dict.fromkeys(reading.named(server, name, "result") for name in named))
    )


def commands(doubt: PreparedContest, url: str) -> tuple[str, ...]:
    """What its author runs: fetch what is doubted, sign, send. Quoted for a shell: the reason is anybody's text."""
    name = short(doubt.result_id)
    cited = "".join(f" --cites {short(name)}" for name in doubt.cites)
    pulled = [f"lynxbench pull --server {shlex.quote(url)} {short(name)}" for name in (doubt.result_id, *doubt.cites)]
    return (
        *pulled,
        f"lynxbench contest {name} --reason {shlex.quote(doubt.reason)}{cited}",
        f"lynxbench push --server {shlex.quote(url)} {name}",
    )


def contest_page(
    server: Server,
    viewer: Principal,
    result_id: str,
    url: str,
    doubt: PreparedContest | None = None,
    reason: str = "",
    cites: str = "",
    problem: str = "",
) -> Page:
    """The form; and, once it was sent, the command that signs what it says."""
    area = text_area("Why it cannot be accepted", "reason", reason, rows=5, maxlength=MOST_REASON)
    shows_it = text_field(
        "Results that show it (optional)", "cites", offered_results(server), value=cites, placeholder="names or ids"
    )
    button = tag("button", "Prepare the contest", class_="primary")
    fields = form(f"/results/{result_id}/contest", area, shows_it, button, viewer=viewer)
    blocks = (
        _signing(doubt, url) if doubt is not None else None,
        doc.Section("form", "What is wrong with it", (problem_note(problem), fields)),
        doc.Section("why", "Why the server does not sign it for you", (doc.Note(WHY),)),
    )
    result = refer("results", result_id)
    lead = ("Result ", result, ": say what is wrong with it, and it follows the result from then on.")
    return make_page(doc.Report("Contest a result", blocks, lead=lead), status=422 if problem else 200)


def _signing(doubt: PreparedContest, url: str) -> doc.Section:
    blocks: tuple[doc.Block, ...] = (
        doc.Note("Run this where your team’s key is. Nothing was recorded yet."),
        *(doc.Listing(line) for line in commands(doubt, url)),
        doc.Note(("The reason as it will stand: ", said(doubt.reason))),
    )
    return doc.Section("sign", "Sign it with your team’s key", blocks)
