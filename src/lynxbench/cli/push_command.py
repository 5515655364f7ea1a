"""`lynxbench push` and `pull`: results between this machine's ledger and a server."""

import os
import sys

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON, LEDGER, SERVER, TOKEN
from lynxbench.cli.terminal import tell
from lynxbench.errors import BadInput
from lynxbench.ledger.bundle import Imported
from lynxbench.ledger.names import is_name, looks_like_id
from lynxbench.model.canonical import short
from lynxbench.record.pushing import pull_result, push_results
from lynxbench.record.remote import remote_from

SHOWN = 5


def push(
    results: list[str] = typer.Argument(
        None, help="Results, experiments, tunings, fleet runs: ids or their beginnings."
    ),
    everything: bool = typer.Option(False, "--all", help="Every result of the ledger."),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Send results to a server, with everything that was said about them; again sends only what is new.

    What was interrupted goes on from where it stopped. The server takes what a key of your team signed.
    """
    if bool(results) == everything:
        raise BadInput("name the results to push, or give --all")
    seen = sys.stderr.isatty()

    def show_progress(sent: int, size: int) -> None:
        if seen:
            tell(f"{sent / 1e6:.1f} of {size / 1e6:.1f} MB", over=True)

    remote = remote_from(server, token, os.environ)
    pushed = push_results(results or [], ledger, remote, os.environ, everything=everything, progress=show_progress)
    if seen:
        tell("")
    names = ", ".join(short(name) for name in pushed.results[:SHOWN])
    more = f" and {len(pushed.results) - SHOWN} more" if len(pushed.results) > SHOWN else ""
    answer(
        as_json,
        lambda: {"server": remote.url, **pushed.document()},
        lambda: f"{names}{more}: {pushed.new} of {pushed.entries} entries are new at {remote.url}\n",
    )


def pull(
    result: str = typer.Argument(
        help="A result, experiment, tuning or fleet run on the server: id or its unique beginning."
    ),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Fetch a result with everything about it, or an analysis with all its results; verify and take in."""
    if not looks_like_id(result) and not is_name(result):
        raise BadInput(f"{result!r}: no id or name of a result")
    remote = remote_from(server, token, os.environ)
    pulled = pull_result(result, ledger, remote, os.environ)
    answer(
        as_json,
        lambda: {
            "server": remote.url,
            "results": list(pulled.results),
            "entries": pulled.entries,
            "new": pulled.new,
            "teams": list(pulled.teams),
        },
        lambda: imported_line(pulled),
    )


def imported_line(imported: Imported) -> str:
    """What came out of a bundle, for people."""
    names, teams = ", ".join(short(name) for name in imported.results), ", ".join(imported.teams)
    return f"{names}: verified, signed by {teams}; {imported.new} of {imported.entries} entries are new here\n"
