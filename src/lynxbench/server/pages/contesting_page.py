"""Contesting a result from its page. A contest is signed by a team's own key, which no server ever holds: the form
checks what is said, and gives the very command that signs it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from lynxbench.errors import BadInput
from lynxbench.model.canonical import short
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.section_parts import section
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, field, hidden_csrf, link_to, make_page
from lynxbench.server.rights import Principal
from lynxbench.server.server_state import Server

MOST_REASON = 4000
MOST_CITED = 20
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class PreparedContest:
    """What somebody is about to say."""

    result_id: str
    reason: str
    cites: tuple[str, ...]


def parse_doubt(server: Server, result_id: str, reason: str, cites: str) -> PreparedContest:
    """A doubt that can be signed as it is; BadInput says what is wrong with it."""
    said_ = " ".join(reason.split())
    if not said_:
        raise BadInput("say why, in words that the other teams can check")
    if len(said_) > MOST_REASON:
        raise BadInput(f"the reason has more than {MOST_REASON} characters")
    if _CONTROL.search(said_):
        raise BadInput("the reason holds a control character")
    named = cites.replace(",", " ").split()
    if len(named) > MOST_CITED:
        raise BadInput(f"at most {MOST_CITED} results can be cited")
    return PreparedContest(
        result_id, said_, tuple(dict.fromkeys(reading.named(server, one, "result") for one in named))
    )


def commands(doubt: PreparedContest, url: str) -> tuple[str, ...]:
    """What its author runs: fetch what is doubted, sign, send. Quoted for a shell: the reason is anybody's text."""
    name = short(doubt.result_id)
    cited = "".join(f" --cites {short(one)}" for one in doubt.cites)
    pulled = [f"lynxbench pull --server {shlex.quote(url)} {short(one)}" for one in (doubt.result_id, *doubt.cites)]
    return (
        *pulled,
        f"lynxbench contest {name} --reason {shlex.quote(doubt.reason)}{cited}",
        f"lynxbench push --server {shlex.quote(url)} {name}",
    )


def contest_page(
    viewer: Principal,
    result_id: str,
    url: str,
    doubt: PreparedContest | None = None,
    reason: str = "",
    cites: str = "",
    problem: str = "",
) -> Page:
    """The form; and, once it was sent, the command that signs what it says."""
    return make_page(
        "Contest a result",
        [
            "Result ",
            link_to("results", result_id),
            ": say what is wrong with it, and it follows the result from then on.",
        ],
        _signing(doubt, url) if doubt is not None else None,
        _form(viewer, result_id, reason, cites, problem),
        _why(),
        status=422 if problem else 200,
    )


def _form(viewer: Principal, result_id: str, reason: str, cites: str, problem: str) -> Safe:
    wrong = tag("p", said(problem), class_="tone-bad", role="alert") if problem else None
    area = tag(
        "div",
        tag("label", "Why it cannot be accepted", for_="field-reason"),
        tag("textarea", reason, id="field-reason", name="reason", rows=5, maxlength=MOST_REASON, required=True),
        class_="field wide",
    )
    form = tag(
        "form",
        hidden_csrf(viewer),
        area,
        field("Results that show it (optional)", "cites", value=cites, placeholder="ids or their beginnings"),
        tag("button", "Prepare the contest", class_="primary"),
        method="post",
        action=f"/results/{result_id}/contest",
        class_="narrow",
    )
    return section("form", "What is wrong with it", wrong, form)


def _signing(doubt: PreparedContest, url: str) -> Safe:
    lines: Child = [tag("pre", tag("code", line), tabindex="0") for line in commands(doubt, url)]
    return section(
        "sign",
        "Sign it with your team’s key",
        tag("p", "Run this where your team’s key is. Nothing was recorded yet."),
        tag("div", lines, class_="prose"),
        tag("p", "The reason as it will stand: ", said(doubt.reason)),
    )


def _why() -> Safe:
    return section(
        "why",
        "Why the server does not sign it for you",
        tag(
            "p",
            "A contest is evidence like a result: it counts because a team’s own key signed it. This server holds no "
            "team’s key, so that whoever runs it, or breaks into it, can put words into nobody’s mouth. "
            "It takes the signed contest from a token with the scope contest.",
            class_="prose",
        ),
    )
