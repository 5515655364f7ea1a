"""`lynxbench serve`: the shared page and its API, and who may come in."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import command_group
from lynxbench.cli.options import AS_JSON, LEDGER
from lynxbench.cli.terminal import tell
from lynxbench.errors import BadInput, BadLedger
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import read_card
from lynxbench.ledger.location import Location, locate
from lynxbench.model.canonical import short
from lynxbench.server.administration import COMMAND_LINE, Administration
from lynxbench.server.listening import listen
from lynxbench.server.provider_settings import read_provider
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings, dangers_of
from lynxbench.watch.json_log import make_log
from lynxbench.watch.notifying import COLLECTOR, MAIL, SMTP_VARIABLE, WEBHOOK
from lynxbench.watch.sealed_secrets import SecretSealer
from lynxbench.watch.store import Store, store_url

app = command_group("The shared page and its API, and who may come in.", no_args_is_help=False)
user_app = command_group("Who may sign in.")
token_app = command_group("Tokens for agents, push and pull.")
key_app = command_group("Keys whose submissions are taken.")
contact_app = command_group("Who is told of a regression.")
app.add_typer(user_app, name="user")
app.add_typer(token_app, name="token")
app.add_typer(key_app, name="key")
app.add_typer(contact_app, name="contact")

DATABASE = typer.Option(
    None, "--database", help="URL of the server's own tables; beside the ledger, or in its PostgreSQL, if left out."
)
SCOPES = typer.Option("read", "--scopes", help="Of read, submit, contest, administer, separated by commas.")


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    host: str = typer.Option("127.0.0.1", help="Address to listen on; others than this machine's own need a user."),
    port: int = typer.Option(8420, min=0, max=65535, help="Port to listen on; 0 takes a free one."),
    origin: str | None = typer.Option(None, help="The address people type, where a proxy stands before."),
    public_read: bool = typer.Option(False, "--public-read", help="Let everybody read without signing in."),
    behind_proxy: bool = typer.Option(False, "--behind-proxy", help="Believe what a proxy says in X-Forwarded-For."),
    proxies: int = typer.Option(1, min=1, max=16, help="With --behind-proxy: how many stand one after the other."),
    tls_cert: Path | None = typer.Option(None, help="Certificate chain, to speak https without a proxy."),
    tls_key: Path | None = typer.Option(None, help="Its private key."),
    requests_per_s: float = typer.Option(50.0, min=0, help="Sustained requests of one caller; 0: no limit."),
    largest_bundle_mb: int = typer.Option(256, min=1, max=4096, help="Largest bundle that is taken."),
    oidc: Path | None = typer.Option(
        None,
        "--oidc",
        envvar="LYNXBENCH_OIDC",
        help="File of the company's OpenID provider and its groups.",
    ),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    quiet: bool = typer.Option(False, "--quiet", help="Log warnings alone."),
) -> None:
    """Serve pages and API over the ledger. Listens to this machine alone unless told otherwise.

    Refuses (exit code 3) to be open to a network while nobody is registered who could let others in.
    """
    if context.invoked_subcommand is not None:
        return
    if (tls_cert is None) != (tls_key is None):
        raise BadInput("give --tls-cert and --tls-key together")
    location, store_at = _where(ledger, database)
    if location.database.startswith("sqlite:"):
        folder = Path(location.database.removeprefix("sqlite:///")).parent
    else:
        folder = Path(os.environ.get("LYNXBENCH_HOME") or Path.home() / ".local/share/lynxbench")
    settings = ServerSettings(
        host=host,
        port=port,
        origin=origin or (f"https://{host}:{port}" if tls_cert else None),
        public_read=public_read,
        proxies=proxies if behind_proxy else 0,
        reads_per_s=requests_per_s,
        largest_bundle_bytes=largest_bundle_mb << 20,
        upload_folder=folder / "uploads",
        smtp_url=os.environ.get(SMTP_VARIABLE),
        mail_from=os.environ.get("LYNXBENCH_MAIL_FROM", "lynxbench@localhost"),
        environment=dict(os.environ),
        provider=None if oidc is None else read_provider(oidc),
    )
    server = Server(settings, location, store_at, make_log("lynxbench.server", quiet=quiet))

    for danger in dangers_of(settings, tls=tls_cert is not None, is_root=os.geteuid() == 0):
        tell(f"lynxbench: WARNING: {danger}")

    def ready(bound: int) -> None:
        scheme = "https" if tls_cert else "http"
        shown = origin or f"{scheme}://{host}:{bound}"
        tell(f"lynxbench: {shown}  ledger {server.ledger.log.database.name}")

    listen(server, tls_cert, tls_key, ready)


def _where(ledger: str | None, database: str | None) -> tuple[Location, str]:
    location = locate(ledger, os.environ)
    if location is None:
        raise BadLedger("a server needs a ledger, and --ledger none was given")
    return location, store_url(database or os.environ.get("LYNXBENCH_SERVER_DATABASE"), location)


@contextmanager
def _administration(ledger: str | None, database: str | None) -> Iterator[Administration]:
    store = Store(_where(ledger, database)[1])
    try:
        keyring = Keyring(environment=os.environ)
        yield Administration(store, keyring.trust, SecretSealer(keyring.where))
    finally:
        store.close()


@user_app.command("add")
def user_add(
    name: str = typer.Argument(help="A name for signing in."),
    team: str = typer.Option(..., help="The team this person speaks for."),
    scopes: str = SCOPES,
    no_password: bool = typer.Option(False, "--no-password", help="Tokens alone: for agents."),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """Let somebody in; the password is asked for, or read from $LYNXBENCH_PASSWORD."""
    password = None if no_password else os.environ.get("LYNXBENCH_PASSWORD")
    if password is None and not no_password:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    with _administration(ledger, database) as administration:
        user = administration.add_user(COMMAND_LINE, name, team, scopes, password)
    scopes_given = sorted(user.scopes)
    answer(
        as_json,
        lambda: {"name": user.name, "team": user.team, "scopes": scopes_given},
        lambda: f"{user.name} of {user.team} may {', '.join(scopes_given)}\n",
    )


@user_app.command("list")
def user_list(ledger: str | None = LEDGER, database: str | None = DATABASE, as_json: bool = AS_JSON) -> None:
    """Who may come in."""
    with _administration(ledger, database) as administration:
        users = administration.access.users()
    rows = [
        {"name": user.name, "team": user.team, "scopes": sorted(user.scopes), "disabled_at": user.disabled_at}
        for user in users
    ]
    lines = [
        f"{user.name:<20} {user.team:<20} {', '.join(sorted(user.scopes))}"
        + (f"  disabled {user.disabled_at}\n" if user.disabled_at else "\n")
        for user in users
    ]
    answer(as_json, lambda: {"users": rows}, lambda: "".join(lines))


@user_app.command("disable")
def user_disable(
    name: str = typer.Argument(help="The user."),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """End a user's password, sessions and tokens."""
    with _administration(ledger, database) as administration:
        administration.disable_user(COMMAND_LINE, name)
    answer(as_json, lambda: {"name": name, "disabled": True}, lambda: f"{name} is disabled\n")


@token_app.command("add")
def token_add(
    user: str = typer.Argument(help="Whose token."),
    label: str = typer.Option("command line", help="What it is for."),
    scopes: str = SCOPES,
    days: float | None = typer.Option(90.0, min=0.001, help="Days until it ends."),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """Make a token and print it, this once."""
    with _administration(ledger, database) as administration:
        text = administration.make_token(COMMAND_LINE, user, label, scopes, days).text
    answer(as_json, lambda: {"user": user, "token": text}, lambda: f"{text}\n")


@token_app.command("revoke")
def token_revoke(
    token_id: str = typer.Argument(help="The sixteen digits after lynx_."),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """End a token."""
    with _administration(ledger, database) as administration:
        administration.revoke_token(COMMAND_LINE, token_id)
    answer(as_json, lambda: {"token_id": token_id, "revoked": True}, lambda: f"{token_id} is revoked\n")


@key_app.command("add")
def key_add(
    card: Path = typer.Argument(help="Card of a team's key, from `lynxbench key export`."),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """Register a team's public key: what it signs is taken from now on."""
    key = read_card(card)
    with _administration(ledger, database) as administration:
        administration.add_team(COMMAND_LINE, key.team)
        administration.register_key(COMMAND_LINE, card.read_bytes())
    answer(
        as_json,
        lambda: {"keyid": key.keyid, "team": key.team},
        lambda: f"key {short(key.keyid)} of {key.team} is registered\n",
    )


@contact_app.command("add")
def contact_add(
    owner: str = typer.Argument(help="An owner as contracts name them; * is everybody else."),
    webhook: str | None = typer.Option(None, help="Address that is posted to."),
    mail: str | None = typer.Option(None, help="Address that is written to."),
    otlp: str | None = typer.Option(None, help="OpenTelemetry collector that gets a log record."),
    ledger: str | None = LEDGER,
    database: str | None = DATABASE,
    as_json: bool = AS_JSON,
) -> None:
    """Tell the owner of a layer of regressions; $LYNXBENCH_WEBHOOK_SECRET signs what is posted."""
    given = {WEBHOOK: webhook, MAIL: mail, COLLECTOR: otlp}
    named = [(channel, address) for channel, address in given.items() if address is not None]
    if len(named) != 1:
        raise BadInput("give one of --webhook, --mail and --otlp")
    channel, address = named[0]
    secret = os.environ.get("LYNXBENCH_WEBHOOK_SECRET") if channel == WEBHOOK else None
    with _administration(ledger, database) as administration:
        contact = administration.set_contact(COMMAND_LINE, owner, channel, address, secret)
    answer(
        as_json,
        lambda: {"owner": contact.owner, "channel": contact.channel},
        lambda: f"{contact.owner} is told by {contact.channel}\n",
    )
