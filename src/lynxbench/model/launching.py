"""A server that lynxbench starts itself: what a contract may say of it. Which program that is, the machine says."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from lynxbench.model.document import Document
from lynxbench.model.fields import Name, Scalar, refuse
from lynxbench.model.secrets import option_looks_secret

ARGUMENTS = "engine.serve.arguments."
"""Begins the key of a launch argument wherever keys are named: factors, knobs, interventions."""
_NUMBER = re.compile(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?")


def _argument(value: Scalar) -> Scalar:
    if isinstance(value, str) and value.startswith("-") and _NUMBER.fullmatch(value) is None:
        raise ValueError(f"{value!r} would be read as another argument; a value does not begin with a dash")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError("holds signs that cannot be shown")
    return value


ArgumentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9._-]{0,62}$")]
"""Without its dashes: `max-num-seqs`."""
Arguments = dict[ArgumentName, Annotated[Scalar, AfterValidator(_argument)]]
"""A value stands behind its name; true is the bare flag, and false leaves it out."""


class Anew(StrEnum):
    """What a restart of the contract starts anew."""

    CLIENT = "client"
    SERVER = "server"


class ServerLaunch(Document):
    """A server of the machine's own list, and the arguments that were agreed on."""

    server: Name
    arguments: Arguments = Field(default_factory=dict)
    restart: Anew = Anew.CLIENT

    def with_arguments(self, changes: Mapping[str, Scalar]) -> "ServerLaunch":
        """The same with some arguments set otherwise."""
        return self.model_copy(update={"arguments": {**self.arguments, **changes}})


def refuse_secret_arguments(launch: ServerLaunch | None) -> None:
    """A contract is everybody's: the key of a server is no argument in it."""
    for name in () if launch is None else launch.arguments:
        if option_looks_secret(name):
            says = "looks like a secret; set it in the machine's own file (environment), not in a contract"
            refuse(says, f"serve.arguments.{name}")


def spell_arguments(arguments: Mapping[str, Scalar]) -> list[str]:
    """The words of a command line, in the order of their names: the same arguments are the same command."""
    words: list[str] = []
    for name, value in sorted(arguments.items()):
        option = f"-{name}" if len(name) == 1 else f"--{name}"
        if value is True:
            words.append(option)
        elif value is not False:
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def options_of(words: list[str]) -> set[str]:
    """The names of the options that a command line sets already."""
    return {
        word.lstrip("-").partition("=")[0] for word in words if word.startswith("-") and not _NUMBER.fullmatch(word)
    }
