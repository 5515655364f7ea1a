"""A server that is started for one visit with the flags of a cell, and ended with it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lynxbench.errors import BadInput, CannotRun
from lynxbench.experiment.definition import ServerCommand, spelled
from lynxbench.https import request
from lynxbench.load.fresh_process import end_group, last_words
from lynxbench.model.fields import Scalar

POLL_S = 0.1
GRACE_S = 5.0
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
) -> Iterator[subprocess.Popen[bytes]]:
    """The server, ready to be asked; CannotRun with its last words where it does not come up."""
    with log.open("wb") as stream:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise CannotRun(f"server {command[0]}: {error.strerror or error}") from None
        try:
            _wait(server, child, log)
            yield child
        finally:
            end_group(child, grace_s=GRACE_S)


def _wait(server: ServerCommand, child: subprocess.Popen[bytes], log: Path) -> None:
    began = time.monotonic()
    while time.monotonic() - began < server.ready_within_s:
        if child.poll() is not None:
            raise CannotRun(f"the server ended with code {child.returncode}: {last_words(log)}")
        if _answers(server.ready):
            return
        time.sleep(POLL_S)
    raise CannotRun(
        f"the server did not answer at {server.ready} within {server.ready_within_s:g} s: {last_words(log)}"
    )


def _answers(address: str) -> bool:
    try:
        request("GET", address, timeout_s=2.0)
    except (OSError, ValueError):
        return False
    return True  # it speaks: an error about a path it does not know is an answer too
