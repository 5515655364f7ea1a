"""Teams, users, keys, tokens, contacts and the audit log, for administrators."""

from __future__ import annotations

from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.section_parts import section, table
from lynxbench.server.access import LEAST_PASSWORD
from lynxbench.server.pages.account_page import tokens_table
from lynxbench.server.pages.page_shell import Page, choice, field, hidden_csrf, make_page
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server

SHOWN_AUDIT = 200


def admin_page(server: Server, viewer: Principal, problem: str = "") -> Page:
    """Everything an administrator looks after."""
    wrong = tag("p", said(problem), class_="tone-bad", role="alert") if problem else None
    return make_page(
        "Administration",
        tag("a", "Audit log", href="/admin/audit"),
        wrong,
        _users(server, viewer),
        _keys(server, viewer),
        section("tokens", "Tokens", tokens_table(server.access.tokens(), viewer, "/admin/tokens/revoke")),
        _contacts(server, viewer),
        _schedules(server, viewer),
        status=422 if problem else 200,
    )


def audit_page(server: Server, before: int | None) -> Page:
    """Who did what."""
    found = server.audit.list(before, SHOWN_AUDIT)
    rows: list[list[Child]] = [
        [
            str(one.number),
            words.moment_text(one.at),
            said(one.who),
            said(one.action),
            said(one.subject),
            tag("span", one.outcome, class_="tone-good" if one.outcome == "ok" else "tone-warn"),
            said(one.remote),
            said(one.detail[:300]),
        ]
        for one in found
    ]
    head = ("Number", "When", "Who", "Did", "To", "Outcome", "From", "Detail")
    body: Child = table("Newest first", head, rows) if rows else tag("p", "Nothing yet.", class_="quiet")
    older = (
        tag("p", tag("a", "Older", href=f"/admin/audit?before={found[-1].number}"))
        if len(found) == SHOWN_AUDIT
        else None
    )
    return make_page("Audit log", "Appended, never changed.", section("audit", "Lines", body, older))


def _form(viewer: Principal, action: str, *children: Child) -> Safe:
    return tag("form", hidden_csrf(viewer), *children, method="post", action=action, class_="narrow")


def _users(server: Server, viewer: Principal) -> Safe:
    rows: list[list[Child]] = []
    for one in server.access.users():
        end: Child = f"disabled {words.moment_text(one.disabled_at or '')}"
        if one.disabled_at is None:
            end = tag(
                "form",
                hidden_csrf(viewer),
                tag("input", type="hidden", name="user", value=one.name),
                tag("button", "Disable", aria_label=f"Disable {one.name}"),
                method="post",
                action="/admin/users/disable",
            )
        scopes = ", ".join(scope.value for scope in AccessScope if scope in one.scopes)
        rows.append([said(one.name), said(one.team), scopes, words.moment_text(one.made_at), end])
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", name="scope", value=scope.value, checked=scope is AccessScope.READ),
            f" {scope.value}",
        )
        for scope in AccessScope
    ]
    new = _form(
        viewer,
        "/admin/users",
        field("Name", "name", required=True, autocomplete="username"),
        field("Team", "team", required=True, autocomplete="off"),
        field("First password", "password", type="password", autocomplete="new-password", minlength=LEAST_PASSWORD),
        tag("fieldset", tag("legend", "May"), boxes),
        tag("button", "Add a user"),
    )
    return section(
        "users",
        "Users",
        table("Users", ("Name", "Team", "May", "Made", "State"), rows),
        tag("div", tag("h3", "Another one"), new, class_="prose"),
    )


def _keys(server: Server, viewer: Principal) -> Safe:
    rows: list[list[Child]] = []
    for one in server.keys.list():
        name = one.card.keyid[:12]
        end: Child = said(f"revoked {words.moment_text(one.revoked_at or '')}: {one.reason}")
        if one.revoked_at is None:
            end = tag(
                "form",
                hidden_csrf(viewer),
                tag("input", type="hidden", name="keyid", value=one.card.keyid),
                tag("input", name="reason", required=True, aria_label=f"Why key {name} is revoked", placeholder="why"),
                tag("button", "Revoke", aria_label=f"Revoke key {name}"),
                method="post",
                action="/admin/keys/revoke",
            )
        rows.append(
            [
                tag("code", one.card.keyid[:12]),
                said(one.card.team),
                ", ".join(role.value for role in one.card.roles),
                said(one.registered_by),
                end,
            ]
        )
    new = _form(
        viewer,
        "/admin/keys",
        tag(
            "div",
            tag("label", "Card of a team’s key, from lynxbench key export", for_="field-card"),
            tag("textarea", "", id="field-card", name="card", rows=4, required=True, spellcheck="false"),
            class_="field wide",
        ),
        tag("button", "Register the key"),
    )
    body: Child = tag("p", "No team has registered a key: nothing can be submitted yet.", class_="quiet")
    if rows:
        body = table("Registered keys", ("Key", "Team", "Roles", "By", "State"), rows)
    return section("keys", "Keys", body, tag("div", tag("h3", "Another one"), new, class_="prose"))


def _contacts(server: Server, viewer: Principal) -> Safe:
    rows: list[list[Child]] = [
        [said(one.owner), one.channel, said(one.address), words.moment_text(one.made_at)]
        for one in server.contacts.list()
    ]
    new = _form(
        viewer,
        "/admin/contacts",
        field("Owner, as contracts name them; * is everybody else", "owner", required=True),
        choice("By", "channel", [("webhook", "webhook"), ("mail", "mail")]),
        field("Address", "address", required=True, placeholder="https://… or name@example.org"),
        field("Secret that signs a webhook", "secret", autocomplete="off", spellcheck="false"),
        tag("button", "Tell this owner"),
    )
    body: Child = tag("p", "Nobody is told of regressions yet.", class_="quiet")
    if rows:
        body = table("Who is told", ("Owner", "By", "Address", "Since"), rows)
    return section("contacts", "Contacts", body, tag("div", tag("h3", "Another one"), new, class_="prose"))


def _schedules(server: Server, viewer: Principal) -> Safe | None:
    found = server.scheduler.schedules()
    if not found:
        return None
    rows: list[list[Child]] = [
        [
            said(one.name),
            tag("code", one.timetable),
            tag(
                "form",
                hidden_csrf(viewer),
                tag("input", type="hidden", name="schedule", value=one.name),
                tag("input", type="hidden", name="paused", value="" if one.paused_at else "yes"),
                tag(
                    "button",
                    "Go on" if one.paused_at else "Pause",
                    aria_label=f"{'Go on with' if one.paused_at else 'Pause'} {one.name}",
                ),
                method="post",
                action="/admin/schedules/pause",
            ),
        ]
        for one in found
    ]
    return section("schedules", "Schedules", table("Schedules", ("Schedule", "Timetable", "State"), rows))
