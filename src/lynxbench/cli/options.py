"""Options and arguments that several commands take, each defined once, and what is read from their words."""

from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.errors import BadInput

AS_JSON = typer.Option(False, "--json", help="Print one JSON document on standard output, nothing else.")
LEDGER = typer.Option(None, "--ledger", help="Folder or URL of the ledger, in place of $LYNXBENCH_LEDGER.")
RECORDING_LEDGER = typer.Option(None, "--ledger", help="Folder or URL of the ledger; none: record nowhere.")
OUT = typer.Option(Path("results"), help="Folder that receives one folder a run.")
RESUME = typer.Option(False, "--resume", help="Go on with the newest unfinished run of this contract.")
DECLARE = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand.")
FOLDERS = typer.Option([], "--from", help="Folder with results; may be given more than once.")
LIMIT = typer.Option(20, min=1, max=1_000_000, help="At most this many, newest first.")
ONE_PRECISION = typer.Option(None, help="Compare at this precision alone.")
DEVICE = typer.Option(None, "--device", help="Declared ceilings of a known device: h200.")
OWNERS = typer.Option(None, "--owners", help="A contract that names the owners.")
LOG_COLUMN = typer.Option(
    [], "--column", help="A column of the log under another name, such as input=tokens_in; may be given more than once."
)
PDF = typer.Option(True, "--pdf/--no-pdf", help="Also a PDF, where the extra `pdf` is installed.")
SERVER = typer.Option(None, "--server", help="Address of the server, in place of $LYNXBENCH_SERVER.")
TOKEN = typer.Option(
    None, "--token", help="A token; better left to $LYNXBENCH_TOKEN, which no process list shows.", show_default=False
)

CONTRACT_FILE = typer.Argument(help="A contract file, or the name of a bundled one.")
CONTRACT = typer.Argument(help="A contract: file, bundled name, name or id in the ledger, or its unique beginning.")
RESULT = typer.Argument(help="A result: path, id or its unique beginning, or name (last, last~1, NAME, NAME@a).")


def moment_of(text: str, option: str) -> datetime:
    """A time that an option gives (ISO 8601), in UTC where it says nothing else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{option} {text!r}: not a time; write 2026-11-15 or 2026-11-15T09:00:00+00:00") from None
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
