"""Signing in, and what a person may change about their own account."""

from __future__ import annotations

from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.section_parts import fact, section, table
from lynxbench.server.access import LEAST_PASSWORD, MOST_LABEL, MOST_PASSWORD, Token
from lynxbench.server.pages.page_shell import Page, field, hidden_csrf, make_page
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server


def sign_in_page(form_secret: str, target: str, problem: str = "") -> Page:
    """Name and password."""
    form = tag(
        "form",
        tag("input", type="hidden", name="csrf", value=form_secret),
        tag("input", type="hidden", name="next", value=target),
        field("Name", "name", autocomplete="username", required=True, autocapitalize="none", spellcheck="false"),
        field("Password", "password", type="password", autocomplete="current-password", required=True),
        tag("button", "Sign in", class_="primary"),
        method="post",
        action="/signin",
        class_="narrow",
    )
    wrong = tag("p", problem, class_="tone-bad", role="alert") if problem else None
    return make_page(
        "Sign in",
        "Everything here is read and written under a name.",
        section("signin", "Who are you?", wrong, form),
        status=403 if problem else 200,
    )


def account_page(server: Server, viewer: Principal, made: str = "", problem: str = "") -> Page:
    """Tokens of one's own, and the password."""
    facts = tag(
        "dl",
        fact("Name", said(viewer.name)),
        fact("Team", said(viewer.team)),
        fact("May", ", ".join(scope.value for scope in AccessScope if scope in viewer.scopes)),
        class_="facts",
    )
    shown = None
    if made:
        shown = section(
            "made",
            "Your new token",
            tag("p", "It is shown this once. Keep it where secrets are kept."),
            tag("pre", tag("code", made), tabindex="0"),
        )
    wrong = tag("p", said(problem), class_="tone-bad", role="alert") if problem else None
    mine = section("me", "You", facts, wrong)
    if viewer.via != "session":
        return make_page("Account", "", mine)
    return make_page("Account", "", shown, mine, _tokens(server, viewer), _new_token(viewer), _password(viewer))


def _tokens(server: Server, viewer: Principal) -> Safe:
    held = server.access.tokens(viewer.name)
    body: Child = tag("p", "None.", class_="quiet")
    if held:
        body = tokens_table(held, viewer, "/account/tokens/revoke")
    return section("tokens", "Tokens", body)


def tokens_table(held: list[Token], viewer: Principal, action: str) -> Safe:
    """Tokens without their text, each with a button that ends it."""
    rows: list[list[Child]] = []
    for one in held:
        end: Child = tag("span", f"revoked {words.moment_text(one.revoked_at or '')}", class_="quiet")
        if one.revoked_at is None:
            end = tag(
                "form",
                hidden_csrf(viewer),
                tag("input", type="hidden", name="token_id", value=one.token_id),
                tag("button", "Revoke", aria_label=f"Revoke token {one.label}"),
                method="post",
                action=action,
            )
        rows.append(
            [
                said(one.label),
                said(one.user),
                ", ".join(scope.value for scope in AccessScope if scope in one.scopes),
                words.moment_text(one.made_at),
                words.moment_text(one.expires_at) if one.expires_at else "never",
                end,
            ]
        )
    return table("Tokens", ("Label", "User", "May", "Made", "Ends", "State"), rows)


def _new_token(viewer: Principal) -> Safe:
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", name="scope", value=scope.value, checked=scope is AccessScope.READ),
            f" {scope.value}",
        )
        for scope in AccessScope
        if scope in viewer.scopes
    ]
    form = tag(
        "form",
        hidden_csrf(viewer),
        field("Label", "label", required=True, maxlength=MOST_LABEL, placeholder="what it is for"),
        field("Days until it ends", "days", type="number", min=1, max=3650, value=90, required=True),
        tag("fieldset", tag("legend", "It may"), boxes),
        tag("button", "Make a token"),
        method="post",
        action="/account/tokens",
        class_="narrow",
    )
    return section("new-token", "A new token", form, lead="For agents, push and pull: it may do no more than you.")


def _password(viewer: Principal) -> Safe:
    form = tag(
        "form",
        hidden_csrf(viewer),
        tag("input", type="hidden", name="username", autocomplete="username", value=viewer.name),
        field("Password now", "old", type="password", autocomplete="current-password", required=True),
        field(
            f"New password, at least {LEAST_PASSWORD} characters",
            "new",
            type="password",
            autocomplete="new-password",
            required=True,
            minlength=LEAST_PASSWORD,
            maxlength=MOST_PASSWORD,
        ),
        tag("button", "Change the password"),
        method="post",
        action="/account/password",
        class_="narrow",
    )
    return section("password", "Password", form, lead="Every session of yours ends with it.")
