"""What a measured process is given beside its contract: variables, an interpreter of its own, CPUs of its own."""

from typing import Annotated

from pydantic import Field

from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256

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
