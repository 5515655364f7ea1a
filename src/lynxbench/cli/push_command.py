"""`lynxbench push` and `pull`: results between this machine's ledger and a server."""

from __future__ import annotations

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadInput

SERVER = typer.Option(None, "--server", help="Address of the server, in place of $LYNXBENCH_SERVER.")
TOKEN = typer.Option(
    None, "--token", help="A token; better left to $LYNXBENCH_TOKEN, which no process list shows.", show_default=False
)


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
    import os
    import sys

    from lynxbench.cli.naming import print_document
    from lynxbench.model.canonical import short
    from lynxbench.record.pushing import push_results
    from lynxbench.record.remote import remote_from

    if bool(results) == everything:
        raise BadInput("name the results to push, or give --all")

    def told(sent: int, size: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{sent / 1e6:.1f} of {size / 1e6:.1f} MB", end="", file=sys.stderr, flush=True)

    remote = remote_from(server, token, os.environ)
    done = push_results(results or [], ledger, remote, os.environ, everything=everything, progress=told)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if as_json:
        print_document({"server": remote.url, **done.document()})
        return
    names = ", ".join(short(one) for one in done.results[:5])
    more = f" and {len(done.results) - 5} more" if len(done.results) > 5 else ""
    print(f"{names}{more}: {done.new} of {done.entries} entries are new at {remote.url}")


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
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.ledger.names import looks_like_id
    from lynxbench.model.canonical import short
    from lynxbench.record.pushing import pull_result
    from lynxbench.record.remote import remote_from

    if not looks_like_id(result):
        raise BadInput(f"{result!r}: no id of a result")
    remote = remote_from(server, token, os.environ)
    done = pull_result(result, ledger, remote, os.environ)
    if as_json:
        print_document(
            {
                "server": remote.url,
                "results": list(done.results),
                "entries": done.entries,
                "new": done.new,
                "teams": list(done.teams),
            }
        )
        return
    names = ", ".join(short(one) for one in done.results)
    print(f"{names}: verified, signed by {', '.join(done.teams)}; {done.new} of {done.entries} entries are new here")
