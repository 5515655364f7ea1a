"""`lynxbench push` and `pull`: results between this machine's ledger and a server."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON, LEDGER, SERVER, TOKEN
from lynxbench.cli.terminal import tell
from lynxbench.errors import BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.bundle import Imported
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.ledger.names import is_name, looks_like_id
from lynxbench.model.canonical import short
from lynxbench.record.gossiping import exchange_checkpoints
from lynxbench.record.pushing import pull_result, push_results
from lynxbench.record.remote import Remote, remote_from
from lynxbench.record.sample_copies import copied_lines

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
    told = _exchange(ledger, remote)
    names = ", ".join(short(name) for name in pushed.results[:SHOWN])
    more = f" and {len(pushed.results) - SHOWN} more" if len(pushed.results) > SHOWN else ""
    answer(
        as_json,
        lambda: {"server": remote.url, **pushed.document(), "checkpoints": told.document},
        lambda: f"{names}{more}: {pushed.new} of {pushed.entries} entries are new at {remote.url}\n{told.text}",
    )
    told.end()


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
    with opened(ledger, os.environ) as open_:
        tell_copies(open_, pulled.results)
    told = _exchange(ledger, remote)
    answer(
        as_json,
        lambda: {
            "server": remote.url,
            "results": list(pulled.results),
            "entries": pulled.entries,
            "new": pulled.new,
            "teams": list(pulled.teams),
            "checkpoints": told.document,
        },
        lambda: imported_line(pulled) + told.text,
    )
    told.end()


def imported_line(imported: Imported) -> str:
    """What came out of a bundle, for people."""
    names, teams = ", ".join(short(name) for name in imported.results), ", ".join(imported.teams)
    counted = f"{imported.new} of {imported.entries} entries are new here"
    return f"{names}: verified, signed by {teams}; {counted}\n{left_out_line(imported.left_out)}"


def tell_copies(ledger: OpenLedger, results: Sequence[str]) -> None:
    """A line for each result that was taken in whose samples another run of the ledger has as well."""
    for line in copied_lines(ledger, results, Keyring().trust):
        tell(f"lynxbench: {line}")


def left_out_line(traces: int) -> str:
    """What a bundle without traces cannot be used for; nothing where they all came."""
    if not traces:
        return ""
    return f"  {traces} traces were left out: figures can be verified, where the time went cannot\n"


@dataclass(frozen=True, slots=True)
class _Told:
    """What came of exchanging checkpoints, said after what the command was for."""

    document: dict[str, object]
    text: str
    problem: EvidenceInvalid | None = None

    def end(self) -> None:
        """End as evidence that does not verify ends, where a log was found to lie."""
        if self.problem is not None:
            raise self.problem


def _exchange(ledger: str | None, remote: Remote) -> _Told:
    """Checkpoints both ways; a server that exchanges none changes nothing about the results."""
    try:
        gossip = exchange_checkpoints(ledger, remote, os.environ)
    except EvidenceInvalid as error:
        return _Told({"problem": str(error)}, "", error)
    except (BadInput, Refused) as error:
        return _Told({"not_done": [str(error)]}, f"checkpoints were not exchanged: {error}\n")
    lines = [f"witnessed: {sighting.words}\n" for sighting in gossip.witnessed_by]
    lines += [f"SPLIT VIEW: {words}; the server was told\n" for words in gossip.split_views]
    return _Told(asdict(gossip), "".join(lines))
