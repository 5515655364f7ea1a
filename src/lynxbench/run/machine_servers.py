"""The servers of this machine, by its own file: a contract may name one of them, and never a program.

Documents travel between teams; `servers.yaml` lies in the folder of this person's keys and travels nowhere. It says
what is executed under a name, with which variables, and which arguments a stranger's document may set.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lynxbench.errors import BadInput, CannotRun, Refused
from lynxbench.evidence.keys import home
from lynxbench.model.dialect import Dialect
from lynxbench.model.document import Document
from lynxbench.model.fields import Name, One, Scalar, Text
from lynxbench.model.launching import ArgumentName, ServerLaunch, options_of, spell_arguments
from lynxbench.model.serving import Patience
from lynxbench.model.strict_file import FileForm, parse_file
from lynxbench.model.surroundings import VariableName
from lynxbench.reading import read_text
from lynxbench.tables import read_table

SERVERS_FILE = "servers.yaml"
PORT, PYTHON = "{port}", "{python}"
"""In a command: where the server is to listen, and the Python that lynxbench runs in (or the cell's own)."""
ARGUMENTS_TABLE = "model/server_arguments.toml"


class MachineServer(Document):
    """One server: the program, what it is given, and when it counts as up."""

    command: Annotated[
        tuple[Text, ...],
        Field(min_length=1, description="the words that start the server in the foreground; {port} is where to listen"),
    ]
    kind: Annotated[Dialect | None, Field(description="vllm, sglang or llamacpp: which arguments tune it")] = None
    environment: Annotated[
        dict[VariableName, Text], Field(description="variables that it is given; they are in no evidence")
    ] = Field(default_factory=dict)
    ready: Annotated[
        str, Field(pattern=r"^/[!-~]{0,200}$", description="path that answers with an error until it is up")
    ] = "/health"
    within_s: Annotated[Patience, Field(alias="within", description="how long it may take to answer")] = 600.0
    allows: Annotated[
        tuple[ArgumentName, ...], Field(description="further arguments that documents of others may set")
    ] = ()


class MachineServers(Document):
    """The file."""

    lynxbench_servers: One
    servers: Annotated[dict[Name, MachineServer], Field(description="by the name that contracts know them under")]


SERVERS = FileForm("a servers file", "begin it with `lynxbench_servers: 1`", MachineServers)


def servers_file(environment: Mapping[str, str]) -> Path:
    """Where this machine says what its servers are."""
    return home(environment) / SERVERS_FILE


def parse_servers(text: str, file: str = SERVERS_FILE) -> MachineServers:
    """A servers file's text, strictly."""
    return parse_file(text, file, SERVERS)


def read_server(name: str, environment: Mapping[str, str] | None = None) -> MachineServer:
    """The server of that name; CannotRun where this machine has none."""
    file = servers_file(os.environ if environment is None else environment)
    if not file.exists():
        raise CannotRun(f"engine.serve.server: this machine has no {file}; write into it what {name!r} is")
    known = parse_servers(read_text(file, SERVERS.noun), str(file)).servers
    if name not in known:
        raise CannotRun(f"engine.serve.server: {name!r} is none of the servers in {file}: {', '.join(sorted(known))}")
    return known[name]


def command_line(server: MachineServer, launch: ServerLaunch, port: int, python: str | None = None) -> list[str]:
    """The words that start a server with a contract's arguments behind them; BadInput where both set one."""
    twice = sorted(options_of(list(server.command)) & launch.arguments.keys())
    if twice:
        raise BadInput(
            f"engine.serve.arguments.{twice[0]}: {SERVERS_FILE} sets it in the command of {launch.server!r} already; "
            "leave it to one of them"
        )
    filled = [word.replace(PORT, str(port)).replace(PYTHON, python or sys.executable) for word in server.command]
    return [*filled, *spell_arguments(launch.arguments)]


def refuse_foreign_arguments(server: MachineServer, launch: ServerLaunch) -> None:
    """A stranger's document may turn what only tunes: an argument can also name code, a file or a place to listen."""
    known = read_table(ARGUMENTS_TABLE).get("" if server.kind is None else server.kind.value, {}).get("harmless", ())
    for name, value in launch.arguments.items():
        if name not in {*known, *server.allows} or not _is_plain(value):
            raise Refused(
                f"its contract starts your server {launch.server!r} with {' '.join(spell_arguments({name: value}))}, "
                f"which a document may not set; where it is meant, list {name} under allows in {SERVERS_FILE}"
            )


def _is_plain(value: Scalar) -> bool:
    """Whether a value is a number, a switch or a word, and names no place."""
    pattern = read_table("model/harmless_variables.toml")["value"]
    return not isinstance(value, str) or re.fullmatch(pattern, value) is not None
