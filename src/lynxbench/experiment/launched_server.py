"""A server that is started for one visit with the flags of a cell, and ended with it."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.definition import ServerCommand, spelled
from lynxbench.https import request
from lynxbench.model.fields import Scalar
from lynxbench.run.started_server import StartedServer

PYTHON = "python"
"""`{python}` in a command is the interpreter of the cell's environment."""


def command_of(server: ServerCommand, values: Mapping[str, Scalar], interpreter: str | None = None) -> list[str]:
    """The command with every `{name}` filled."""
    known = {name: spelled(value) for name, value in values.items()} | {PYTHON: interpreter or sys.executable}
    filled = []
    for part in server.command:
        try:
            filled.append(part.format_map(known))
        except (KeyError, IndexError, ValueError) as error:
            raise BadInput(f"server.command: {part!r} cannot be filled ({error}); give server.values") from None
    return [part for part in filled if part]


@contextmanager
def served(
    server: ServerCommand, command: list[str], environment: Mapping[str, str], log: Path
) -> Iterator[StartedServer]:
    """The server, ready to be asked; CannotRun with its last line where it does not come up. Its log's end is kept."""
    started = StartedServer(Path(command[0]).name, command, environment)
    try:
        started.await_ready(lambda: _answers(server.ready), server.ready_within_s)
        yield started
    finally:
        started.stop()
        write_text(log, started.tail())


def _answers(address: str) -> bool:
    try:
        request("GET", address, timeout_s=2.0)
    except (OSError, ValueError):
        return False
    return True  # it speaks: an error about a path it does not know is an answer too
