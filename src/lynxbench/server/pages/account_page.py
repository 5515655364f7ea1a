"""Signing in, and what a person may change about their own account."""

from collections.abc import Collection
from urllib.parse import quote

from lynxbench.report import doc, words
from lynxbench.report.doc import Fact, Inline, quiet, said
from lynxbench.report.markup import tag
from lynxbench.server.access import LEAST_PASSWORD, MOST_LABEL, MOST_PASSWORD, Token
from lynxbench.server.pages import page_shell as shell
from lynxbench.server.provider import Provider
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server


def sign_in_page(form_secret: str, target: str, problem: str = "", *, provider: Provider | None = None) -> shell.Page:
    """Name and password, and beside it the company's own sign-in where there is one."""
    fields = shell.form(
        "/signin",
        shell.hidden_field("csrf", form_secret),
        shell.hidden_field("next", target),
        shell.text_field(
            "Name", "name", autocomplete="username", required=True, autocapitalize="none", spellcheck="false"
        ),
        shell.text_field("Password", "password", type="password", autocomplete="current-password", required=True),
        tag("button", "Sign in", class_="primary"),
        method="post",
        class_="narrow",
    )
    who = doc.Section("signin", "Who are you?", (shell.problem_note(problem), fields))
    lead = "Everything here is read and written under a name."
    sections = [who] if provider is None else [_provider_section(provider, target), who]
    return shell.make_page(doc.Report("Sign in", sections, lead=lead), status=403 if problem else 200)


def _provider_section(provider: Provider, target: str) -> doc.Section:
    begin = doc.link(f"Sign in with {provider.settings.name}", f"/signin/oidc?next={quote(target, safe='')}")
    return doc.Section("provider", "With your company’s account", (doc.Links("Sign in", [begin]),))


def sign_in_failed_page(provider: Provider, line: str, status: int) -> shell.Page:
    """Why the company's sign-in came to nothing, and what can be done."""
    again = doc.link("Begin again", "/signin/oidc")
    ways = doc.Links("Go on", [again, doc.link("Sign in with a password", "/signin")])
    why = doc.Section("why", "Why", (shell.problem_note(f"{line[:1].upper()}{line[1:]}."), ways))
    lead = f"Nobody was signed in with {provider.settings.name}."
    return shell.make_page(doc.Report("Not signed in", (why,), lead=said(lead)), status=status)


def signed_out_page(provider: Provider) -> shell.Page:
    """Out of this server; the provider's own session is the provider's to end."""
    name, place = provider.settings.name, provider.leave_at()
    line = f"You are signed out here. Whoever uses this browser is still signed in with {name}, until they leave there."
    ways = [doc.link("Sign in again", "/signin")]
    ways += [doc.link(f"Leave {name} as well", place)] if place else []
    left = doc.Section("left", "What goes on", (doc.Note(said(line)), doc.Links("Go on", ways)))
    return shell.make_page(doc.Report("Signed out", (left,)))


def account_page(server: Server, viewer: Principal, made: str = "", problem: str = "") -> shell.Page:
    """Tokens of one's own, and the password."""
    facts: tuple[Fact, ...] = (
        ("Name", said(viewer.name)),
        ("Team", said(viewer.team)),
        ("May", scopes_in_words(viewer.scopes)),
    )
    issuer = server.provider_accounts.issuer_of(viewer.name)
    facts += (("Vouched for by", said(issuer)),) if issuer else ()
    blocks: list[doc.Block] = [doc.Section("me", "You", (doc.Facts(facts), shell.problem_note(problem)))]
    if viewer.via == "session":
        if made:
            once = doc.Note("It is shown this once. Keep it where secrets are kept.")
            blocks.insert(0, doc.Section("made", "Your new token", (once, doc.Listing(made))))
        held = tokens_table(server.access.tokens(viewer.name), viewer, "/account/tokens/revoke")
        blocks += [doc.Section("tokens", "Tokens", (held,)), _new_token(viewer)]
        blocks += [_password(viewer)] if server.access.user(viewer.name).has_password else []
    return shell.make_page(doc.Report("Account", blocks))


def tokens_table(held: list[Token], viewer: Principal, action: str) -> doc.Table:
    """Tokens without their text, each with a button that ends it."""
    rows: list[tuple[Inline, ...]] = []
    for token in held:
        state: Inline = quiet(f"revoked {words.moment_text(token.revoked_at or '')}")
        if token.revoked_at is None:
            state = shell.row_form(viewer, action, "Revoke", f"Revoke token {token.label}", token_id=token.token_id)
        made, ends = words.moment_text(token.made_at), words.moment_text(token.expires_at or "") or "never"
        rows.append((said(token.label), said(token.user), scopes_in_words(token.scopes), made, ends, state))
    return doc.Table(("Label", "User", "May", "Made", "Ends", "State"), rows, empty="None.")


def scopes_in_words(scopes: Collection[AccessScope]) -> str:
    """What somebody may do, in the usual order."""
    return ", ".join(scope.value for scope in AccessScope if scope in scopes)


def _new_token(viewer: Principal) -> doc.Section:
    fields = shell.form(
        "/account/tokens",
        shell.text_field("Label", "label", required=True, maxlength=MOST_LABEL, placeholder="what it is for"),
        shell.text_field("Days until it ends", "days", type="number", min=1, max=3650, value=90, required=True),
        shell.scope_boxes("It may", viewer.scopes),
        tag("button", "Make a token"),
        viewer=viewer,
    )
    lead = "For agents, push and pull: it may do no more than you."
    return doc.Section("new-token", "A new token", (fields,), lead)


def _password(viewer: Principal) -> doc.Section:
    fields = shell.form(
        "/account/password",
        tag("input", type="hidden", name="username", autocomplete="username", value=viewer.name),
        shell.text_field("Password now", "old", type="password", autocomplete="current-password", required=True),
        shell.text_field(
            f"New password, at least {LEAST_PASSWORD} characters",
            "new",
            type="password",
            autocomplete="new-password",
            required=True,
            minlength=LEAST_PASSWORD,
            maxlength=MOST_PASSWORD,
        ),
        tag("button", "Change the password"),
        viewer=viewer,
    )
    return doc.Section("password", "Password", (fields,), "Every session of yours ends with it.")
