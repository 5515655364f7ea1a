"""Teams, users, keys, tokens, contacts and the audit log, for administrators."""

from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Tone, code, link, said
from lynxbench.report.markup import Child, tag
from lynxbench.server.access import LEAST_PASSWORD
from lynxbench.server.pages import page_shell as shell
from lynxbench.server.pages.account_page import scopes_in_words, tokens_table
from lynxbench.server.rights import Principal
from lynxbench.server.server_state import Server

SHOWN_AUDIT = 200


def admin_page(server: Server, viewer: Principal, problem: str = "") -> shell.Page:
    """Everything an administrator looks after."""
    tokens = tokens_table(server.access.tokens(), viewer, "/admin/tokens/revoke")
    blocks = (
        shell.problem_note(problem),
        _users(server, viewer),
        _keys(server, viewer),
        doc.Section("tokens", "Tokens", (tokens,)),
        _contacts(server, viewer),
        _schedules(server, viewer),
    )
    report = doc.Report("Administration", blocks, lead=link("Audit log", "/admin/audit"))
    return shell.make_page(report, status=422 if problem else 200)


def audit_page(server: Server, before: int | None) -> shell.Page:
    """Who did what."""
    lines = server.audit.list(before, SHOWN_AUDIT)
    rows = [
        (
            str(line.number),
            words.moment_text(line.at),
            said(line.who),
            said(line.action),
            said(line.subject),
            Span(line.outcome, Tone.GOOD if line.outcome == "ok" else Tone.WARN),
            said(line.remote),
            said(line.detail[:300]),
        )
        for line in lines
    ]
    head = ("Number", "When", "Who", "Did", "To", "Outcome", "From", "Detail")
    older = doc.Note(link("Older", f"/admin/audit?before={lines[-1].number}")) if len(lines) == SHOWN_AUDIT else None
    table = doc.Table(head, rows, "Newest first", empty="Nothing yet.")
    return shell.make_page(
        doc.Report("Audit log", (doc.Section("audit", "Lines", (table, older)),), lead="Appended, never changed.")
    )


def _another(viewer: Principal, action: str, *children: Child) -> doc.Block:
    return doc.Group("Another one", (shell.form(action, *children, viewer=viewer),))


def _users(server: Server, viewer: Principal) -> doc.Section:
    rows: list[tuple[Inline, ...]] = []
    for user in server.access.users():
        state: Inline = f"disabled {words.moment_text(user.disabled_at or '')}"
        if user.disabled_at is None:
            state = shell.row_form(viewer, "/admin/users/disable", "Disable", f"Disable {user.name}", user=user.name)
        made = words.moment_text(user.made_at)
        rows.append((said(user.name), said(user.team), scopes_in_words(user.scopes), made, state))
    new = _another(
        viewer,
        "/admin/users",
        shell.text_field("Name", "name", required=True, autocomplete="username"),
        shell.text_field("Team", "team", required=True, autocomplete="off"),
        shell.text_field(
            "First password", "password", type="password", autocomplete="new-password", minlength=LEAST_PASSWORD
        ),
        shell.scope_boxes("May"),
        tag("button", "Add a user"),
    )
    return doc.Section("users", "Users", (doc.Table(("Name", "Team", "May", "Made", "State"), rows), new))


def _keys(server: Server, viewer: Principal) -> doc.Section:
    rows: list[tuple[Inline, ...]] = []
    for key in server.keys.list():
        name = key.card.keyid[:12]
        state: Inline = said(f"revoked {words.moment_text(key.revoked_at or '')}: {key.reason}")
        if key.revoked_at is None:
            label = f"Why key {name} is revoked"
            why = tag("input", name="reason", required=True, aria_label=label, placeholder="why")
            state = shell.row_form(
                viewer, "/admin/keys/revoke", "Revoke", f"Revoke key {name}", why, keyid=key.card.keyid
            )
        roles = ", ".join(role.value for role in key.card.roles)
        rows.append((code(name), said(key.card.team), roles, said(key.registered_by), state))
    card = shell.text_area("Card of a team’s key, from lynxbench key export", "card", rows=4, spellcheck="false")
    empty = "No team has registered a key: nothing can be submitted yet."
    table = doc.Table(("Key", "Team", "Roles", "By", "State"), rows, "Registered keys", empty=empty)
    return doc.Section(
        "keys", "Keys", (table, _another(viewer, "/admin/keys", card, tag("button", "Register the key")))
    )


def _contacts(server: Server, viewer: Principal) -> doc.Section:
    rows = [
        (said(contact.owner), contact.channel, said(contact.address), words.moment_text(contact.made_at))
        for contact in server.contacts.list()
    ]
    new = _another(
        viewer,
        "/admin/contacts",
        shell.text_field("Owner, as contracts name them; * is everybody else", "owner", required=True),
        shell.choice("By", "channel", [("webhook", "webhook"), ("mail", "mail"), ("otlp", "OpenTelemetry")]),
        shell.text_field("Address", "address", required=True, placeholder="https://… or name@example.org"),
        shell.text_field("Secret that signs a webhook", "secret", autocomplete="off", spellcheck="false"),
        tag("button", "Tell this owner"),
    )
    empty = "Nobody is told of regressions yet."
    table = doc.Table(("Owner", "By", "Address", "Since"), rows, "Who is told", empty=empty)
    return doc.Section("contacts", "Contacts", (table, new))


def _schedules(server: Server, viewer: Principal) -> doc.Section | None:
    rows: list[tuple[Inline, ...]] = []
    for schedule in server.scheduler.schedules():
        word, label = ("Go on", "Go on with") if schedule.paused_at else ("Pause", "Pause")
        fields = {"schedule": schedule.name, "paused": "" if schedule.paused_at else "yes"}
        state = shell.row_form(viewer, "/admin/schedules/pause", word, f"{label} {schedule.name}", **fields)
        rows.append((said(schedule.name), code(schedule.timetable), state))
    table = doc.Table(("Schedule", "Timetable", "State"), rows)
    return doc.Section("schedules", "Schedules", (table,)) if rows else None
