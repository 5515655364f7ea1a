"""What a measured process is given beside its contract: variables, an interpreter of its own, CPUs of its own."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256
from lynxbench.tables import read_table

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class PackageSet(Document):
    """An environment that was made from a lock file, by what is in it."""

    name: str
    lock_sha256: Sha256
    packages_sha256: Sha256
    """Over every installed distribution with its version: what the lock really came to."""
    packages: dict[str, str]
    inherits: bool
    """Whether packages that the lock does not name are those of the running environment."""


class Surroundings(Document):
    """Set for every process of a run, and part of its registration."""

    environment: dict[VariableName, Annotated[str, Field(max_length=4000)]] = Field(default_factory=dict)
    interpreter: str | None = None
    """Python of another environment; None is the one that runs lynxbench."""
    packages: PackageSet | None = None
    cpus: tuple[int, ...] | None = None
    """CPUs the process may use; None leaves it as it is."""


# --- surroundings out of a document: whoever wrote it does not choose what is executed here ---------------------------


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What of another run's surroundings is set here, and the names of what is not."""

    around: Surroundings | None
    left_out: tuple[str, ...] = ()


def is_harmless(name: str, value: str) -> bool:
    """Whether a document may set a variable: it is on the list, and its value names no place."""
    table = read_table("model/harmless_variables.toml")
    return name in table["names"] and re.fullmatch(table["value"], value) is not None


def take_over(
    around: Surroundings | None, own: Mapping[str, str], cpus: Set[int], interpreter: str | None = None
) -> TakenOver:
    """What a run here is given of the surroundings that a document states.

    `own` is the environment here: a variable that stands there with the same value is not missing. CPUs that are not
    among `cpus` cannot be given. An interpreter is the one that is named here; a document's is never started.
    """
    if around is None:
        return TakenOver(None if interpreter is None else Surroundings(interpreter=interpreter))
    given = {name: value for name, value in around.environment.items() if is_harmless(name, value)}
    differing = {name for name, value in around.environment.items() if own.get(name) != value}
    left_out = sorted(differing - given.keys())
    pinned = around.cpus if around.cpus and set(around.cpus) <= cpus else None
    left_out += ["cpus"] if around.cpus and pinned is None else []
    left_out += ["interpreter"] if around.interpreter is not None and interpreter is None else []
    here = Surroundings(environment=given, interpreter=interpreter, cpus=pinned)
    return TakenOver(None if here == Surroundings() else here, tuple(left_out))
